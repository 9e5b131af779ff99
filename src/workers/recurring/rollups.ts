// The clock of the roll-ups: counts jobs and payments for the dashboard, by one worker at a time.
import { setTimeout as sleep } from 'node:timers/promises'
import { QUEUES } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { endRun, inRun, type Run } from '#domain/jobs/recurring.ts'
import {
  beginCounting,
  countJobsForRollups,
  countPositionSchema,
  type CountPosition,
} from '#domain/rollups/count-jobs.ts'
import { countPayments } from '#domain/rollups/count-payments.ts'
import { forgetOldOutages } from '#domain/operations/provider-outages.ts'
import { forgetOldRollups } from '#domain/rollups/retention.ts'
import type { WorkerContext } from '../context.ts'
import { every, type Loop } from '../clock.ts'

const LOOK_MS = 5_000
const EVERY_S = 10
/** Jobs that one statement counts: about 50 ms of the database's time. */
const JOBS_AT_ONCE = 10_000
/** Steps of each kind in one run; what is left is counted in the next, which is due at once. */
const MOST_STEPS = 20
/** How often it asks within a run whether transactions that were under way have ended. */
const LOOKS = 5
const LOOK_AGAIN_MS = 100
const FORGOTTEN_AT_ONCE = 1_000

/** Starts the clock. */
export function rollUp({ sql, log }: WorkerContext): Loop {
  let closing = false
  const loop = every(
    log,
    'roll-ups',
    () => LOOK_MS,
    async () => {
      await rollUpOnce(sql, { closing: () => closing })
    },
  )
  return {
    async close() {
      closing = true
      await loop.close()
    },
  }
}

/**
 * Counts what there is to count, if it is due and nobody else does. Each step is written with how far it got, so that
 * another worker continues where this one ends.
 */
export async function rollUpOnce(
  sql: Sql,
  {
    closing = () => false,
    jobs_at_once = JOBS_AT_ONCE,
  }: { closing?: () => boolean; jobs_at_once?: number } = {},
): Promise<void> {
  await inRun(sql, 'roll-ups', (run) => countDue(sql, run, { closing, most: jobs_at_once }))
}

async function countDue(
  sql: Sql,
  run: Run,
  { closing, most }: { closing: () => boolean; most: number },
): Promise<void> {
  const counted = await countAllJobs(sql, run, { closing, most })
  if (counted === undefined) return
  // The steps after this keep it.
  run.position = counted.position
  let more = counted.more
  for (let steps = 0; ; steps++) {
    const step = await countPayments(sql, run)
    if (step === undefined) return
    if (!step.more) break
    more ||= steps + 1 >= MOST_STEPS || closing()
    if (more) break
  }
  await forgetOldRollups(sql, counted.position.after, FORGOTTEN_AT_ONCE)
  await forgetOldOutages(sql, FORGOTTEN_AT_ONCE)
  await endRun(sql, run, { position: counted.position, next_s: more ? 0 : EVERY_S })
}

async function countAllJobs(
  sql: Sql,
  run: Run,
  { closing, most }: { closing: () => boolean; most: number },
): Promise<{ position: CountPosition; more: boolean } | undefined> {
  let position = countPositionSchema.safeParse(run.position).data ?? (await beginCounting(sql))
  let looks = 0
  for (let steps = 0; steps < MOST_STEPS && !closing(); steps++) {
    const step = await countJobsForRollups(sql, run, position, { queues: QUEUES, most })
    if (step === undefined) return undefined
    position = step.position
    if (step.waits) {
      if (++looks > LOOKS) return { position, more: false }
      await sleep(LOOK_AGAIN_MS)
    } else if (!step.more) return { position, more: false }
  }
  return { position, more: true }
}

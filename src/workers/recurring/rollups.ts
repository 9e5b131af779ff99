// The roll-up loop: counts jobs and payments for the dashboard, one worker at a time.
import { setTimeout as sleep } from 'node:timers/promises'
import { QUEUES } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { endRun, runIfDue, type Run } from '#domain/jobs/recurring.ts'
import {
  beginCounting,
  countJobsForRollups,
  countPositionSchema,
  type CountPosition,
} from '#domain/rollups/count-jobs.ts'
import { countPayments } from '#domain/rollups/count-payments.ts'
import { deleteOldOutages } from '#domain/operations/provider-outages.ts'
import { deleteOldRollups } from '#domain/rollups/retention.ts'
import type { WorkerContext } from '../context.ts'
import { repeatWhileCurrent, type Loop, type MustEnd } from '../clock.ts'

const POLL_INTERVAL_MS = 5_000
/** The poll interval while the worker is idle. A count older than half a minute is outdated. */
const IDLE_POLL_INTERVAL_MS = 15_000
const INTERVAL_S = 10
/** The number of jobs per statement, which take about 50 ms of the database's time. */
const JOB_BATCH_SIZE = 10_000
/** The maximum number of steps of each kind in one run. The next run is due at once and counts the rest. */
const MAX_STEPS = 20
/** The maximum number of times that one run polls for the end of earlier transactions. */
const MAX_TRANSACTION_POLLS = 5
const TRANSACTION_POLL_INTERVAL_MS = 100
const DELETE_BATCH_SIZE = 1_000

/** Starts the loop. */
export function startRollups({ sql, log, database, idleness }: WorkerContext): Loop {
  return repeatWhileCurrent(
    { log, database },
    'roll-ups',
    idleness.interval(POLL_INTERVAL_MS, IDLE_POLL_INTERVAL_MS),
    (mustEnd) => rollUpOnce(sql, { mustEnd }),
  )
}

/**
 * Counts new jobs and payments if a run is due and no other worker performs it. Each step stores its position, so that
 * another worker can continue.
 */
export async function rollUpOnce(
  sql: Sql,
  { mustEnd = () => false, jobs_at_once = JOB_BATCH_SIZE }: { mustEnd?: MustEnd; jobs_at_once?: number } = {},
): Promise<void> {
  await runIfDue(sql, 'roll-ups', (run) => countDue(sql, run, { mustEnd, most: jobs_at_once }))
}

async function countDue(
  sql: Sql,
  run: Run,
  { mustEnd, most }: { mustEnd: MustEnd; most: number },
): Promise<void> {
  const counted_before = countPositionSchema.safeParse(run.position).data?.after
  const counted = await countAllJobs(sql, run, { mustEnd, most })
  if (counted === undefined) return
  // The steps that count payments store the position of the run again, so it must be the new position.
  run.position = counted.position
  let more = counted.more
  for (let steps = 0; ; steps++) {
    const step = await countPayments(sql, run)
    if (step === undefined) return
    if (!step.more) break
    more ||= steps + 1 >= MAX_STEPS || mustEnd()
    if (more) break
  }
  // Rows are counts of minutes, so new ones become old once a minute.
  if (more || minuteOf(counted_before) !== minuteOf(counted.position.after)) {
    await deleteOldRollups(sql, counted.position.after, DELETE_BATCH_SIZE)
    await deleteOldOutages(sql, DELETE_BATCH_SIZE)
  }
  await endRun(sql, run, { position: counted.position, next_s: more ? 0 : INTERVAL_S })
}

/** The minute of a time in ISO 8601. */
const minuteOf = (time: string | undefined) => time?.slice(0, 16)

async function countAllJobs(
  sql: Sql,
  run: Run,
  { mustEnd, most }: { mustEnd: MustEnd; most: number },
): Promise<{ position: CountPosition; more: boolean } | undefined> {
  let position = countPositionSchema.safeParse(run.position).data ?? (await beginCounting(sql))
  let polls = 0
  for (let steps = 0; steps < MAX_STEPS && !mustEnd(); steps++) {
    const step = await countJobsForRollups(sql, run, position, { queues: QUEUES, limit: most })
    if (step === undefined) return undefined
    position = step.position
    if (step.waits) {
      if (++polls > MAX_TRANSACTION_POLLS) return { position, more: false }
      await sleep(TRANSACTION_POLL_INTERVAL_MS)
    } else if (!step.more) return { position, more: false }
  }
  return { position, more: true }
}

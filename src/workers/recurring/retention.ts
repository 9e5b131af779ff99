// Keeps tables from growing: moves finished jobs into the history, makes and drops partitions, and deletes old
// idempotency keys, counts of deliveries and deleted endpoints. It also erases personal data: of deleted customers from events, old outputs of AI tasks, and
// addresses of lifted suppressions.
import { z } from 'zod'
import type { Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import { HISTORY_KINDS } from '#core/config/retention.ts'
import { metrics } from '#core/metrics.ts'
import { eraseOldOutputs } from '#domain/ai-tasks/retention.ts'
import { eraseNextEvents } from '#domain/customers/change.ts'
import {
  BEGINNING,
  countStrays,
  dropNextPartition,
  makeNextPartition,
  moveFinished,
  moveNotifications,
} from '#domain/history.ts'
import { forgetOldKeys } from '#domain/idempotency.ts'
import { endRun, inRun, renewRun, type Run } from '#domain/jobs/recurring.ts'
import { eraseLiftedAddresses } from '#domain/suppressions/retention.ts'
import { forgetVerificationLinks } from '#domain/verifications/links.ts'
import {
  forgetDeletedEndpoints,
  forgetOldRecoveries,
  forgetOldStats,
} from '#domain/webhook-endpoints/retention.ts'
import type { WorkerContext } from '../context.ts'
import { every, type Loop } from '../clock.ts'

const LOOK_MS = 5_000
/** How often finished jobs are looked for. */
const MOVE_EVERY_S = 10
/** Rows that one statement moves or deletes: about 50 ms of the database's time. */
const AT_ONCE = 1_000
/** Events of deleted customers that one statement erases. */
const ERASED_AT_ONCE = 5_000
/**
 * The move begins again at the oldest job after this long, for rows that it had to leave because they were in use or
 * inconsistent.
 */
const AGAIN_MS = 24 * 3600_000
const PARTITIONS_EVERY_MS = 60_000
const FORGET_EVERY_MS = 5_000
/** These are few, and found by reading all. */
const FORGET_ENDPOINTS_EVERY_MS = 3600_000
/** For how long they are kept after the events and jobs that are filed under them: a partition goes when all of it is old. */
const LONGER_THAN_EVENTS_DAYS = 31

const movePosition = z.object({ after: z.string(), after_id: z.string(), began_ms: z.number() })

/** Each has a loop of its own: one that fails does not hold up the other. */
const MOVES = [
  ['moving what is finished', 'job', moveFinished],
  ['moving notifications', 'notification', moveNotifications],
] as const

type Days = Config['RETENTION_DAYS'] & { events: number }
/** Deletes or erases at most `limit` rows, and says how many. */
type Forget = (sql: Sql, limit: number) => Promise<number>

/** What is forgotten row by row, each in a loop of its own. */
function forgetting(days: Days): [name: string, forgets: Forget[], every_ms: number][] {
  const kept_days = Math.max(days.events, days.jobs) + LONGER_THAN_EVENTS_DAYS
  return [
    ['old idempotency keys', [forgetOldKeys], FORGET_EVERY_MS],
    ['links that have expired', [forgetVerificationLinks], FORGET_EVERY_MS],
    ['old counts of deliveries', [forgetOldStats], FORGET_EVERY_MS],
    [
      'deleted endpoints and old recoveries',
      [
        (sql, limit) => forgetOldRecoveries(sql, kept_days, limit),
        (sql, limit) => forgetDeletedEndpoints(sql, kept_days, limit),
      ],
      FORGET_ENDPOINTS_EVERY_MS,
    ],
    [
      'old outputs of AI tasks',
      [(sql, limit) => eraseOldOutputs(sql, days.ai_tasks, limit)],
      FORGET_EVERY_MS,
    ],
    [
      'addresses of lifted suppressions',
      [(sql, limit) => eraseLiftedAddresses(sql, days.events, limit)],
      FORGET_EVERY_MS,
    ],
  ]
}

/** Starts all of this work; each step is safe in several workers at once. */
export function retain({ sql, log }: WorkerContext, days: Days): Loop {
  let closing = false
  const isClosing = () => closing
  const moves = MOVES.map(([name, kind, move]) => {
    const moveInRun = () => inRun(sql, name, (run) => moveAll(sql, run, { move, kind }, isClosing))
    return every(log, name, () => LOOK_MS, moveInRun)
  })
  const forgets = forgetting(days).map(([name, steps, every_ms]) =>
    every(
      log,
      name,
      () => every_ms,
      async () => {
        for (const forget of steps) while ((await forget(sql, AT_ONCE)) === AT_ONCE && !isClosing());
      },
    ),
  )
  const partitions = every(
    log,
    'partitions',
    () => PARTITIONS_EVERY_MS,
    () => keepPartitions(sql, log, days),
  )
  const erasing = every(
    log,
    'events of deleted customers',
    () => LOOK_MS,
    async () => {
      while (!isClosing() && (await eraseNextEvents(sql, ERASED_AT_ONCE)));
    },
  )
  const loops = [...moves, partitions, ...forgets, erasing]
  return {
    async close() {
      closing = true
      await Promise.all(loops.map((loop) => loop.close()))
    },
  }
}

/** Makes the partitions that are needed next, and drops those that are older than is kept. */
async function keepPartitions(sql: Sql, log: Log, days: Days): Promise<void> {
  for (let made; (made = await makeNextPartition(sql)) !== null;)
    log.info({ partition: made }, 'a partition was made')
  for (const kind of HISTORY_KINDS)
    for (let gone; (gone = await dropNextPartition(sql, kind, days[kind])) !== null;)
      log.info(
        { partitions: gone, days: days[kind] },
        'partitions were dropped: their rows are older than is kept',
      )
  for (const { parent, strays } of await countStrays(sql)) metrics.strays.set({ table: parent }, strays)
}

/** Moves, by one worker at a time, all that was over more than an hour ago. */
async function moveAll(
  sql: Sql,
  run: Run,
  { move, kind }: { move: typeof moveFinished; kind: string },
  closing: () => boolean,
): Promise<void> {
  const last = movePosition.safeParse(run.position).data
  const now_ms = Date.parse(run.started_at)
  let position =
    last === undefined || now_ms - last.began_ms > AGAIN_MS ? { ...BEGINNING, began_ms: now_ms } : last
  for (;;) {
    const step = await move(sql, position, AT_ONCE)
    metrics.moved.inc({ kind }, step.moved)
    position = { ...step.position, began_ms: position.began_ms }
    if (step.next === null || closing()) break
    if (!(await renewRun(sql, run, position))) return
  }
  await endRun(sql, run, { position, next_s: closing() ? 0 : MOVE_EVERY_S })
}

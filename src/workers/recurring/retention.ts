// Limits the size of tables: moves finished jobs into the history, creates and drops partitions, and deletes old
// idempotency keys, delivery counts and deleted endpoints. It also erases personal data: of deleted customers in
// events, old outputs of AI tasks, and addresses of lifted suppressions.
import { z } from 'zod'
import type { Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import { HISTORY_KINDS } from '#core/config/retention.ts'
import { metrics } from '#core/metrics.ts'
import { eraseOldOutputs } from '#domain/ai-tasks/retention.ts'
import { eraseNextEvents } from '#domain/customers/change.ts'
import {
  HISTORY_START,
  countStrays,
  dropNextPartition,
  createNextPartition,
  moveFinishedJobs,
  moveJoblessNotifications,
} from '#domain/history.ts'
import { deleteOldKeys } from '#domain/idempotency.ts'
import { endRun, runIfDue, renewRun, type Run } from '#domain/jobs/recurring.ts'
import { eraseLiftedAddresses } from '#domain/suppressions/retention.ts'
import { deleteExpiredLinks } from '#domain/verifications/links.ts'
import {
  purgeDeletedEndpoints,
  deleteOldRecoveries,
  deleteOldStats,
} from '#domain/webhook-endpoints/retention.ts'
import type { WorkerContext } from '../context.ts'
import { repeatWhileCurrent, together, type Loop, type MustEnd } from '../clock.ts'

const POLL_INTERVAL_MS = 5_000
/** The interval at which finished jobs are moved. */
const MOVE_INTERVAL_S = 10
/** The number of rows per statement, which take about 50 ms of the database's time. */
const BATCH_SIZE = 1_000
/** The number of events of deleted customers per statement. */
const ERASE_BATCH_SIZE = 5_000
/**
 * The interval at which the move begins again at the oldest job, to find rows that were locked or inconsistent before.
 */
const RESTART_INTERVAL_MS = 24 * 3600_000
const PARTITION_INTERVAL_MS = 60_000
const DELETE_INTERVAL_MS = 5_000
/**
 * The interval at which the rows of deleted endpoints are deleted. It is longer than for other rows, because deleted
 * endpoints are few and a full scan finds them.
 */
const DELETE_ENDPOINTS_INTERVAL_MS = 3600_000
/**
 * How much longer endpoints and recoveries are retained than their events and jobs: a partition is dropped only when
 * all of its rows are old.
 */
const EXTRA_RETENTION_DAYS = 31

const movePosition = z.object({ after: z.string(), after_id: z.string(), began_ms: z.number() })

/** Each move has a separate loop, so that a failing move does not delay the other. */
const MOVES = [
  ['moving finished jobs', 'job', moveFinishedJobs],
  ['moving notifications', 'notification', moveJoblessNotifications],
] as const

type Days = Config['RETENTION_DAYS'] & { events: number }
/** Deletes or erases at most `limit` rows, and returns how many. */
type DeleteRows = (sql: Sql, limit: number) => Promise<number>

/** The row-by-row deletions, each in a separate loop. */
function retentionSteps(days: Days): [name: string, deletions: DeleteRows[], every_ms: number][] {
  const retention_days = Math.max(days.events, days.jobs) + EXTRA_RETENTION_DAYS
  return [
    ['old idempotency keys', [deleteOldKeys], DELETE_INTERVAL_MS],
    ['links that have expired', [deleteExpiredLinks], DELETE_INTERVAL_MS],
    ['old counts of deliveries', [deleteOldStats], DELETE_INTERVAL_MS],
    [
      'deleted endpoints and old recoveries',
      [
        (sql, limit) => deleteOldRecoveries(sql, retention_days, limit),
        (sql, limit) => purgeDeletedEndpoints(sql, retention_days, limit),
      ],
      DELETE_ENDPOINTS_INTERVAL_MS,
    ],
    [
      'old outputs of AI tasks',
      [(sql, limit) => eraseOldOutputs(sql, days.ai_tasks, limit)],
      DELETE_INTERVAL_MS,
    ],
    [
      'addresses of lifted suppressions',
      [(sql, limit) => eraseLiftedAddresses(sql, days.events, limit)],
      DELETE_INTERVAL_MS,
    ],
  ]
}

/** Starts all retention work; each step is safe in several workers at once. */
export function startRetention({ sql, database, log, idleness }: WorkerContext, days: Days): Loop {
  const moves = MOVES.map(([name, kind, move]) => {
    const moveInRun = (mustEnd: MustEnd) =>
      runIfDue(sql, name, (run) => moveFinishedRows(sql, run, { move, kind }, mustEnd))
    return repeatWhileCurrent({ log, database }, name, idleness.interval(POLL_INTERVAL_MS), moveInRun)
  })
  const deletions = retentionSteps(days).map(([name, steps, every_ms]) =>
    repeatWhileCurrent({ log, database }, name, idleness.interval(every_ms), async (mustEnd) => {
      if (database.isHeld()) return
      for (const forget of steps) while (!mustEnd() && (await forget(sql, BATCH_SIZE)) === BATCH_SIZE);
    }),
  )
  const partitions = repeatWhileCurrent(
    { log, database },
    'partitions',
    () => PARTITION_INTERVAL_MS,
    () => maintainPartitions(sql, log, database.isHeld() ? null : days),
  )
  const erasing = repeatWhileCurrent(
    { log, database },
    'events of deleted customers',
    idleness.interval(POLL_INTERVAL_MS),
    async (mustEnd) => {
      while (!mustEnd() && (await eraseNextEvents(sql, ERASE_BATCH_SIZE)));
    },
  )
  return together([...moves, partitions, ...deletions, erasing])
}

/** Creates the next partitions, and drops those beyond their retention; with null, none. */
async function maintainPartitions(sql: Sql, log: Log, days: Days | null): Promise<void> {
  for (let created; (created = await createNextPartition(sql)) !== null;)
    log.info({ partition: created }, 'a partition was created')
  for (const kind of days === null ? [] : HISTORY_KINDS)
    for (let dropped; (dropped = await dropNextPartition(sql, kind, days![kind])) !== null;)
      log.info(
        { partitions: dropped, days: days![kind] },
        'partitions were dropped: their rows exceed the retention',
      )
  for (const { parent, strays } of await countStrays(sql)) metrics.strays.set({ table: parent }, strays)
}

/** Moves all rows that finished more than an hour ago, one worker at a time. */
async function moveFinishedRows(
  sql: Sql,
  run: Run,
  { move, kind }: { move: typeof moveFinishedJobs; kind: string },
  mustEnd: MustEnd,
): Promise<void> {
  const last = movePosition.safeParse(run.position).data
  const now_ms = Date.parse(run.started_at)
  let position =
    last === undefined || now_ms - last.began_ms > RESTART_INTERVAL_MS
      ? { ...HISTORY_START, began_ms: now_ms }
      : last
  for (;;) {
    const step = await move(sql, position, BATCH_SIZE)
    metrics.moved.inc({ kind }, step.moved)
    position = { ...step.position, began_ms: position.began_ms }
    if (step.next === null || mustEnd()) break
    if (!(await renewRun(sql, run, position))) return
  }
  await endRun(sql, run, { position, next_s: mustEnd() ? 0 : MOVE_INTERVAL_S })
}

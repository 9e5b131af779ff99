// Finds work without being told: direct claims of what is overdue, admission by turns, and a watchdog over the bells.
import { metrics } from '#core/metrics.ts'
import { admitJobs, findOldestDue, findOverdue } from '#domain/jobs.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import type { Queue } from '#queue/main.ts'
import type { WorkerContext } from './context.ts'
import type { Performer } from './perform.ts'
import { every, type Loop } from './schedule.ts'

/** What is due and unclaimed for this long is claimed from the database. */
const OVERDUE_MS = 1000
const SWEEP_MS = 200
const AWAY_SWEEP_MS = 50
const ADMIT_MS = 50
const WATCHDOG_MS = 10_000

/**
 * Claims overdue jobs of `queues` straight from the database, always; without delay while the queue is away. At most
 * `concurrency` at a time besides those that bells bring.
 */
export function sweep(
  context: WorkerContext,
  {
    queue,
    queues,
    performer,
    concurrency,
  }: { queue: Queue; queues: readonly string[]; performer: Performer; concurrency: number },
): Loop {
  let direct = 0
  return every(
    context.log,
    'direct claims',
    () => (queue.away() ? AWAY_SWEEP_MS : SWEEP_MS),
    async () => {
      for (const name of queues) {
        const free = concurrency - direct
        if (free <= 0) return
        const grace_ms = queue.away() ? 0 : OVERDUE_MS
        const overdue = await findOverdue(context.sql, name, { names: JOB_NAMES, limit: free, grace_ms })
        if (overdue.length > 0) metrics.directClaims.inc({ queue: name }, overdue.length)
        for (const id of overdue) {
          direct += 1
          void performer.perform(id).finally(() => (direct -= 1))
        }
      }
    },
  )
}

/** Admits what waits for its turn and rings for it. */
export function dispatch(
  context: WorkerContext,
  {
    queue,
    queues,
    window,
    limit,
  }: { queue: Queue; queues: readonly string[]; window: number; limit: number },
): Loop {
  return every(
    context.log,
    'admission',
    () => ADMIT_MS,
    async () => {
      if (queue.away()) return
      for (const name of queues) {
        const admitted = await admitJobs(context.sql, name, window, limit)
        if (admitted.length > 0) queue.ring(admitted.map((id) => ({ id, queue: name })))
      }
    },
  )
}

/** Restarts the consumers when claimable jobs wait and nothing is claimed. */
export function watch(
  context: WorkerContext,
  {
    queues,
    performer,
    restart,
  }: { queues: readonly string[]; performer: Performer; restart: (queue: string) => Promise<void> },
): Loop {
  return every(
    context.log,
    'watchdog',
    () => WATCHDOG_MS / 2,
    async () => {
      const due = new Map(
        (await findOldestDue(context.sql, queues, JOB_NAMES)).map(({ queue, age_s }) => [queue, age_s]),
      )
      for (const name of queues) metrics.oldestDue.set({ queue: name }, due.get(name) ?? 0)
      const idle_ms = performance.now() - performer.lastClaimAt()
      if (idle_ms < WATCHDOG_MS) return
      for (const [name, age_s] of due) {
        if (age_s * 1000 < WATCHDOG_MS) continue
        context.log.error(
          { queue: name, age_s, idle_ms },
          'jobs wait and nothing is claimed: the consumer is restarted',
        )
        metrics.watchdog.inc({ queue: name })
        await restart(name)
      }
    },
  )
}

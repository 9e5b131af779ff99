// The sweep claims due jobs that no bell will bring, by turns of the tenants. The watchdog restarts a consumer that
// brings no bells.
import { metrics } from '#core/metrics.ts'
import type { TenantShare } from '#domain/jobs/claim.ts'
import { findDue, findOldestDue } from '#domain/jobs/claimable.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import type { Queue } from '#queue/queue.ts'
import type { WorkerContext } from './context.ts'
import type { Performer } from './perform.ts'
import { every, type Loop } from './clock.ts'

/** A bell is taken for lost when its job has not been claimed for this long. */
const OVERDUE_MS = 1000
const SWEEP_MS = 50
/**
 * A worker that has had no job for `IDLE_MS` asks the database less often. It takes a bell for lost that much earlier, so
 * that a lost bell costs no more than before: an idle worker hears its bells at once.
 */
const IDLE_MS = 2000
const IDLE_SWEEP_MS = 500
/**
 * The interval while more jobs wait than were taken; then only queues with this share of their slots free are swept.
 */
const BUSY_SWEEP_MS = 5
const WORTH_A_WALK = 0.25
const WATCHDOG_MS = 10_000
const NOTHING = { ids: [], overdue: 0, after: null }

type SweepOptions = {
  queue: Queue
  queues: readonly string[]
  performer: Performer
  concurrencyOf: (queue: string) => number
  watchdog: Watchdog
}

/**
 * Claims due jobs straight from the database: those that no bell will bring, or all while the queue is away. One
 * statement serves all queues, and takes from each only what this worker has room for: a backlog waits in the
 * database, not here.
 */
export function sweep(
  context: WorkerContext,
  { queue, queues, performer, concurrencyOf, watchdog }: SweepOptions,
): Loop {
  /**
   * For each queue: the tenant after which its walk continues, and whether more jobs were found than taken in this round
   * through the tenants (`more`) and in the last one (`had_more`).
   */
  const rounds = new Map(
    queues.map((name) => [name, { after: null as string | null, more: false, had_more: false }]),
  )
  let busy = false
  let swept_at = 0

  // Decided once a walk: the next one comes late only if this one looked for bells that were lost since.
  let idle = false

  async function walk(): Promise<void> {
    const in_time = performance.now() - swept_at < SWEEP_MS
    const least = (name: string) => (in_time ? Math.ceil(concurrencyOf(name) * WORTH_A_WALK) : 1)
    const walks = queues
      .map((name) => ({ queue: name, room: performer.room(name), after: rounds.get(name)!.after }))
      .filter(({ queue: name, room }) => room >= least(name))
      .map((one) => ({ ...one, share: performer.shares.left(one.queue, one.room) }))
    if (walks.length === 0) return
    if (!in_time) swept_at = performance.now()
    idle = !queue.away() && performer.idleFor() > IDLE_MS
    const grace_ms = queue.away() ? 0 : idle ? OVERDUE_MS - IDLE_SWEEP_MS : OVERDUE_MS
    busy = false
    const found = await findDue(context.sql, walks, { names: JOB_NAMES, grace_ms })
    for (const { queue: name, room, share } of walks) {
      // A paused queue is not walked.
      const { ids, overdue, after } = found.find((one) => one.queue === name) ?? NOTHING
      const round = rounds.get(name)!
      round.more ||= ids.length > 0 && ids.length >= Math.min(room, leastLeft(share))
      if (after === null) Object.assign(round, { had_more: round.more, more: false })
      round.after = after
      if (overdue > 0) {
        metrics.directClaims.inc({ queue: name }, overdue)
        if (!queue.away()) watchdog.missed(name)
      }
      for (const id of ids) void performer.perform({ id, queue: name, by: 'walk' })
    }
    busy = [...rounds.values()].some(({ more, had_more }) => more || had_more)
  }

  const interval_ms = () => (busy ? BUSY_SWEEP_MS : idle ? IDLE_SWEEP_MS : SWEEP_MS)
  const loop = every(context.log, 'direct claims', interval_ms, walk)
  // What follows from the first job after a rest does not wait.
  performer.onFirstJob(() => {
    idle = false
    loop.hurry()
  })
  return loop
}

/** What is left to the tenant that holds most: so many jobs may be all that a walk could take of it. */
function leastLeft(share: TenantShare | undefined): number {
  return share === undefined ? Infinity : share.left - Math.max(0, ...Object.values(share.held))
}

export type Watchdog = Loop & {
  /** A job of this queue was found overdue: its bell was lost. */
  missed(queue: string): void
}

/**
 * Restarts the consumer of a queue that brings no bells although some were rung: jobs keep being found overdue, or
 * wait although there are free slots for every tenant. Jobs that the sweep claims do not prove that the consumer works.
 */
export function watch(
  context: WorkerContext,
  {
    queues,
    performer,
    restart,
  }: { queues: readonly string[]; performer: Performer; restart: (queue: string) => Promise<void> },
): Watchdog {
  /** When a bell was first and last missed since one came. */
  const misses = new Map<string, { first: number; last: number }>()

  async function look(): Promise<void> {
    const due = new Map(
      (await findOldestDue(context.sql, queues, JOB_NAMES)).map(({ queue, age_s }) => [queue, age_s]),
    )
    for (const name of queues) {
      const age_s = due.get(name) ?? 0
      metrics.oldestDue.set({ queue: name }, age_s)
      const silent_ms = performance.now() - performer.lastBellAt(name)
      const missed = misses.get(name)
      const missing = missed !== undefined && missed.last - missed.first >= WATCHDOG_MS
      const free = performer.room(name) > 0 && !performer.shares.usedUp(name)
      const waiting = age_s * 1000 >= WATCHDOG_MS && free
      if (silent_ms < WATCHDOG_MS || !(missing || waiting)) continue
      context.log.error(
        { queue: name, age_s, silent_ms },
        'jobs wait and no bell brings them: the consumer is restarted',
      )
      metrics.watchdog.inc({ queue: name })
      misses.delete(name)
      await restart(name)
    }
  }

  return {
    ...every(context.log, 'watchdog', () => WATCHDOG_MS / 2, look),
    missed(name) {
      const now = performance.now()
      const missed = misses.get(name)
      if (missed === undefined || missed.first < performer.lastBellAt(name))
        misses.set(name, { first: now, last: now })
      else missed.last = now
    },
  }
}

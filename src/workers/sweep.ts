// Finds work without being told: what is due and no bell will bring, by turns, and a watchdog over the bells.
import { metrics } from '#core/metrics.ts'
import { findDue, findOldestDue } from '#domain/jobs/dispatch.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import type { Queue } from '#queue/main.ts'
import type { WorkerContext } from './context.ts'
import type { Performer } from './perform.ts'
import { every, type Loop } from './clock.ts'

/** A bell that has brought nobody for this long is taken for lost. */
const OVERDUE_MS = 1000
const SWEEP_MS = 50
/** While more waits than was taken; then only for queues with room for this part of their places. */
const BUSY_SWEEP_MS = 5
const WORTH_A_WALK = 0.25
const WATCHDOG_MS = 10_000
const NOTHING = { ids: [], overdue: 0, after: null }

type SweepOptions = {
  queue: Queue
  queues: readonly string[]
  performer: Performer
  concurrency: number
  watchdog: Watchdog
}

/**
 * Claims straight from the database what is due and no bell will bring, always; while the queue is away, all that is due. One
 * statement for all queues, and of each no more than it has room for: a backlog waits in the database, not here.
 */
export function sweep(
  context: WorkerContext,
  { queue, queues, performer, concurrency, watchdog }: SweepOptions,
): Loop {
  /** Where the walk of each queue goes on, and whether this round of the tenants or the one before found more than was taken. */
  const rounds = new Map(
    queues.map((name) => [name, { after: null as string | null, more: false, had: false }]),
  )
  let busy = false
  let swept_at = 0

  async function walk(): Promise<void> {
    const in_time = performance.now() - swept_at < SWEEP_MS
    const least = in_time ? Math.ceil(concurrency * WORTH_A_WALK) : 1
    const walks = queues
      .map((name) => ({ queue: name, room: performer.room(name), after: rounds.get(name)!.after }))
      .filter(({ room }) => room >= least)
    if (walks.length === 0) return
    if (!in_time) swept_at = performance.now()
    const grace_ms = queue.away() ? 0 : OVERDUE_MS
    busy = false
    const found = await findDue(context.sql, walks, { names: JOB_NAMES, grace_ms })
    for (const { queue: name, room } of walks) {
      // A paused queue is not walked.
      const { ids, overdue, after } = found.find((one) => one.queue === name) ?? NOTHING
      const round = rounds.get(name)!
      round.more ||= ids.length === room
      if (after === null) Object.assign(round, { had: round.more, more: false })
      round.after = after
      if (overdue > 0) {
        metrics.directClaims.inc({ queue: name }, overdue)
        if (!queue.away()) watchdog.missed(name)
      }
      for (const id of ids) void performer.perform({ id, queue: name, by: 'walk' })
    }
    busy = [...rounds.values()].some(({ more, had }) => more || had)
  }

  return every(context.log, 'direct claims', () => (busy ? BUSY_SWEEP_MS : SWEEP_MS), walk)
}

export type Watchdog = Loop & {
  /** A job of this queue was found overdue: its bell did not come. */
  missed(queue: string): void
}

/**
 * Restarts the consumer of a queue that brings no bells although there are some: jobs are found overdue again and again, or wait
 * although there is room. What is claimed directly says nothing about a consumer.
 */
export function watch(
  context: WorkerContext,
  {
    queues,
    performer,
    restart,
  }: { queues: readonly string[]; performer: Performer; restart: (queue: string) => Promise<void> },
): Watchdog {
  /** The first and the last time that a bell was missed, since one came. */
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
      const waiting = age_s * 1000 >= WATCHDOG_MS && performer.room(name) > 0
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

// The dispatcher of events: gives them their sequences, takes due deliveries out of their lines and performs them.
import { databaseCode } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import { completeRecoveries, continueRecovery } from '#domain/deliveries/continue-recovery.ts'
import type { LinePosition, VisitedLines } from '#domain/deliveries/lines.ts'
import {
  FIRST_LINE,
  isAnythingWaiting,
  takeDeliveries,
  type TakenDeliveries,
} from '#domain/deliveries/take.ts'
import { sequenceEvents } from '#domain/feed.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import type { Queue } from '#queue/queue.ts'
import { every, type Loop } from './clock.ts'
import type { WorkerContext } from './context.ts'
import { createPace } from './pace.ts'
import type { Performer } from './perform.ts'

const DISPATCH_MS = 50
/** The interval while there is more to do than one pass does. */
const BUSY_MS = 1
/** Between two walks through all lines. */
const ROUND_MS = 200
/** Rows that one statement of the sequencer makes, about; after one that took too long, fewer for a while. */
const SEQUENCED_AT_ONCE = { most: 4_000, least: 50 }
const STATEMENT_CANCELED = '57014'
const RECOVERY_MS = 1_000
/** Where nothing has happened for a while, new events are looked for less often. */
const IDLE = { after_ms: 5_000, interval_ms: 200 }
/** An endpoint gets so many attempts at once before it has answered soon, ... */
const UNPROVEN_WINDOW = 10
/** ... and all such endpoints together get this part of the slots. */
const UNPROVEN_PART = 0.5

type DispatchOptions = { queue: Queue; performer: Performer; worker: string; concurrency: number }

/**
 * Sequencing goes on in one worker at a time; whoever finds another at it has nothing to do. Deliveries are taken by all
 * of them, each as many as it has room for: soon from lines that have moved, and by a walk from all others.
 */
export function dispatch(
  context: WorkerContext,
  { queue, performer, worker, concurrency }: DispatchOptions,
): Loop[] {
  const { sql, log } = context
  const pace = createPace()
  let at_once: number = SEQUENCED_AT_ONCE.most
  let more_events = false
  let began_at = -Infinity
  let sequenced_at = -Infinity
  let more_dropped = false
  let after = FIRST_LINE
  /** Lines in which something may be due now, by endpoint. */
  const lines = new Map<string, LinePosition>()
  /** Endpoints whose line had more than they may have at once: when an attempt there ends, it is looked at again. */
  const waiting = new Set<string>()
  /** Endpoints that their rate holds up, and that are looked at when it allows the next. */
  const resting = new Set<string>()
  let closing = false
  const closed = () => closing

  async function sequence(): Promise<void> {
    began_at = performance.now()
    const sequenced = await sequenceEvents(sql, at_once).catch((error: unknown) => {
      if (databaseCode(error) === STATEMENT_CANCELED)
        at_once = Math.max(SEQUENCED_AT_ONCE.least, Math.floor(at_once / 2))
      throw error
    })
    at_once = Math.min(SEQUENCED_AT_ONCE.most, at_once * 2)
    more_events = sequenced.some(({ more }) => more)
    if (sequenced.length === 0) return
    sequenced_at = performance.now()
    metrics.sequenced.inc(sequenced.reduce((sum, { events }) => sum + events, 0))
    // Who waits for events of a tenant looks again.
    queue.publish(sequenced.map(({ tenant_id: id }) => ({ id, state: 'sequenced' })))
    const tenants = sequenced.flatMap(({ tenant_id, deliveries }) => (deliveries > 0 ? tenant_id : []))
    if (tenants.length > 0) await take({ lines: [], tenants })
  }

  /** Undefined where there is no room. */
  async function take(visited: VisitedLines): Promise<TakenDeliveries | undefined> {
    const room = performer.room(sendDelivery.queue)
    if (room <= 0) return undefined
    const asked_at = performance.now()
    const share = performer.shares.left(sendDelivery.queue, room)
    const unproven = {
      window: UNPROVEN_WINDOW,
      room: Math.max(0, Math.floor(concurrency * UNPROVEN_PART) - pace.unproven()),
    }
    const taken = await takeDeliveries(sql, visited, {
      worker,
      room,
      share,
      proven: (id) => pace.isProven(id),
      unproven,
    })
    for (const { job, line, begins_in_ms } of taken.jobs) {
      void perform(performer.performHeld(job, asked_at, begins_in_ms), line)
    }
    for (const { line, more } of taken.seen) {
      if (more) waiting.add(line.endpoint_id)
      else waiting.delete(line.endpoint_id)
    }
    for (const { line, in_ms } of taken.limited) lookIn(in_ms, line)
    return taken
  }

  async function perform(performed: Promise<void>, line: LinePosition): Promise<void> {
    const end = pace.begin(line.endpoint_id)
    await performed
    end()
    // Its place in the window of its endpoint is free.
    if (waiting.has(line.endpoint_id)) look(line)
  }

  function look(line: LinePosition): void {
    if (closing) return
    lines.set(line.endpoint_id, line)
    visiting.hurry()
  }

  /** Once, however often it is asked for meanwhile. */
  function lookIn(in_ms: number, line: LinePosition): void {
    if (resting.has(line.endpoint_id)) return
    resting.add(line.endpoint_id)
    const lookNow = () => {
      resting.delete(line.endpoint_id)
      look(line)
    }
    setTimeout(lookNow, Math.max(BUSY_MS, in_ms)).unref()
  }

  async function visit(): Promise<void> {
    if (lines.size === 0) return
    const visited = [...lines.values()]
    lines.clear()
    const taken = await take({ lines: visited, tenants: [] })
    if (taken === undefined) return
    const seen = new Set(taken.seen.map(({ line }) => line.endpoint_id))
    for (const { endpoint_id } of visited) if (!seen.has(endpoint_id)) waiting.delete(endpoint_id)
  }

  async function walk(): Promise<void> {
    if (after === FIRST_LINE && !(await isAnythingWaiting(sql))) return
    const taken = await take({ after })
    // Without room it goes on where it was.
    if (taken === undefined) return
    after = taken.after ?? FIRST_LINE
    more_dropped = taken.dropped > 0
  }

  async function recover(): Promise<void> {
    for (let more = true; more && !closed();) {
      try {
        more = await continueRecovery(sql)
      } finally {
        // Nobody's recovery stays open because others have steps left, or fail.
        await completeRecoveries(sql)
      }
    }
  }

  function sequencingMs(): number {
    if (more_events) return BUSY_MS
    const quiet_ms = Math.min(performance.now() - sequenced_at, performer.idleFor())
    if (quiet_ms > IDLE.after_ms) return IDLE.interval_ms
    // Steadily, however long it takes.
    return Math.max(BUSY_MS, began_at + DISPATCH_MS - performance.now())
  }

  const sequencing = every(log, 'sequencing events', sequencingMs, sequence)
  const visiting = every(
    log,
    'taking deliveries from lines that moved',
    () => (lines.size > 0 ? BUSY_MS : DISPATCH_MS),
    visit,
  )
  // However many lines there are, it visits no more of them in a second: what has just come is not left to it.
  const walking = every(
    log,
    'taking deliveries',
    () => (more_dropped ? BUSY_MS : after === FIRST_LINE ? ROUND_MS : DISPATCH_MS),
    walk,
  )
  const recovering = every(log, 'recovering deliveries', () => RECOVERY_MS, recover)
  return [
    {
      async close() {
        closing = true
        await Promise.all([sequencing, visiting, walking, recovering].map((loop) => loop.close()))
      },
    },
  ]
}

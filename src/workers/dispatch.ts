// The dispatcher of events: gives them their sequences, takes due deliveries out of their lines and performs them.
import { databaseCode } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import { completeRecoveries, continueRecovery } from '#domain/deliveries/continue-recovery.ts'
import type { LinePosition, VisitedLines } from '#domain/deliveries/lines.ts'
import {
  FIRST_LINE,
  isAnythingWaiting,
  takeDeliveries,
  type LookAgain,
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
/** ... and all such endpoints together get this part of the slots; for the second and more at one of them there is less. */
const UNPROVEN_PART = { of_all: 0.5, of_more: 0.25 }

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
  /** Lines in which something may be due now, by endpoint, and tenants with such. */
  const lines = new Map<string, LinePosition>()
  const tenants = new Set<string>()
  /** Endpoints whose line is looked at again: when an attempt there ends, or by a timer. */
  const again = new Map<string, 'after_attempt' | 'timer'>()
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
    for (const { tenant_id, deliveries } of sequenced) if (deliveries > 0) tenants.add(tenant_id)
    visiting.hurry()
  }

  /** Undefined where there is no room. */
  async function take(visited: VisitedLines): Promise<TakenDeliveries | undefined> {
    const room = performer.room(sendDelivery.queue)
    if (room <= 0) return undefined
    const asked_at = performance.now()
    const share = performer.shares.left(sendDelivery.queue, room)
    const left = (part: number) => Math.max(0, Math.floor(concurrency * part) - pace.unproven())
    const unproven = {
      window: UNPROVEN_WINDOW,
      room: left(UNPROVEN_PART.of_all),
      room_for_more: left(UNPROVEN_PART.of_more),
    }
    const taken = await takeDeliveries(sql, visited, {
      worker,
      room,
      share,
      proven: (id) => pace.isProven(id),
      last_at: (id) => pace.lastAt(id),
      unproven,
    })
    for (const { job, line, begins_in_ms } of taken.jobs) {
      void perform(performer.performHeld(job, asked_at, begins_in_ms), line, begins_in_ms)
    }
    for (const { line, again: when } of taken.seen) lookAgain(line, when)
    return taken
  }

  async function perform(performed: Promise<void>, line: LinePosition, begins_in_ms: number): Promise<void> {
    const end = pace.begin(line.endpoint_id, begins_in_ms)
    await performed
    end()
    // Its place is free: in the window of its endpoint, or, where that is slow, for all such, as a walk finds them.
    if (again.get(line.endpoint_id) === 'after_attempt' && pace.isProven(line.endpoint_id)) look(line)
  }

  function look(line: LinePosition): void {
    if (closing) return
    lines.set(line.endpoint_id, line)
    visiting.hurry()
  }

  /** A timer goes on: whatever is found meanwhile, it comes soon. */
  function lookAgain(line: LinePosition, when: LookAgain): void {
    const { endpoint_id } = line
    if (again.get(endpoint_id) === 'timer') return
    if (when === null) again.delete(endpoint_id)
    else if (when === 'after_attempt') again.set(endpoint_id, when)
    else {
      again.set(endpoint_id, 'timer')
      const lookNow = () => {
        again.delete(endpoint_id)
        look(line)
      }
      setTimeout(lookNow, Math.max(BUSY_MS, when.in_ms)).unref()
    }
  }

  async function visit(): Promise<void> {
    if (lines.size === 0 && tenants.size === 0) return
    const visited = { lines: [...lines.values()], tenants: [...tenants] }
    lines.clear()
    tenants.clear()
    const taken = await take(visited)
    if (taken === undefined) return
    const seen = new Set(taken.seen.map(({ line }) => line.endpoint_id))
    // Nothing is due there.
    for (const line of visited.lines) if (!seen.has(line.endpoint_id)) lookAgain(line, null)
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
    () => (lines.size > 0 || tenants.size > 0 ? BUSY_MS : DISPATCH_MS),
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

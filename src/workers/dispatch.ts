// The dispatcher of events: gives them their sequences, takes due deliveries out of their lines and performs them.
import { metrics } from '#core/metrics.ts'
import { continueRecovery } from '#domain/deliveries/continue-recovery.ts'
import {
  FIRST_LINE,
  takeDeliveries,
  type LinePosition,
  type TakenDeliveries,
  type VisitedLines,
} from '#domain/deliveries/take.ts'
import { sequenceEvents } from '#domain/feed.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import type { Queue } from '#queue/queue.ts'
import { every, type Loop } from './clock.ts'
import type { WorkerContext } from './context.ts'
import type { Performer } from './perform.ts'

const DISPATCH_MS = 50
/** The interval while there is more to do than one pass does. */
const BUSY_MS = 1
/** Events that get their sequences at once. */
const SEQUENCED_AT_ONCE = 2_000
const RECOVERY_MS = 200

type DispatchOptions = { queue: Queue; performer: Performer; worker: string }

/**
 * Sequencing goes on in one worker at a time; whoever finds another at it has nothing to do. Deliveries are taken by all
 * of them, each as many as it has room for.
 */
export function dispatch(context: WorkerContext, { queue, performer, worker }: DispatchOptions): Loop[] {
  const { sql, log } = context
  let more_events = false
  let more_lines = false
  let after = FIRST_LINE
  /** Lines in which something may be due now, by endpoint, and tenants with such: they are visited before the walk comes by. */
  let lines = new Map<string, LinePosition>()
  let tenants = new Set<string>()

  async function sequence(): Promise<void> {
    const sequenced = await sequenceEvents(sql, SEQUENCED_AT_ONCE)
    const events = sequenced.reduce((sum, one) => sum + one.events, 0)
    more_events = events >= SEQUENCED_AT_ONCE
    if (events === 0) return
    metrics.sequenced.inc(events)
    // Who waits for events of a tenant looks again.
    queue.publish(sequenced.map(({ tenant_id: id }) => ({ id, state: 'sequenced' })))
    for (const { tenant_id, deliveries } of sequenced) if (deliveries > 0) tenants.add(tenant_id)
    visiting.hurry()
  }

  async function take(visited: VisitedLines): Promise<TakenDeliveries | undefined> {
    const room = performer.room(sendDelivery.queue)
    if (room <= 0) return undefined
    const asked_at = performance.now()
    const share = performer.shares.left(sendDelivery.queue, room)
    const taken = await takeDeliveries(sql, visited, { worker, room, share })
    for (const { job, line, begins_in_ms } of taken.jobs) {
      const begin = () => void performer.performHeld(job, asked_at).then(() => ended(line))
      if (begins_in_ms > 0) setTimeout(begin, begins_in_ms)
      else begin()
    }
    return taken
  }

  /** Its place in the window of its endpoint is free. */
  function ended(line: LinePosition): void {
    lines.set(line.endpoint_id, line)
    visiting.hurry()
  }

  async function visit(): Promise<void> {
    if (lines.size === 0 && tenants.size === 0) return
    const visited = { lines: [...lines.values()], tenants: [...tenants] }
    lines = new Map()
    tenants = new Set()
    await take(visited)
  }

  async function walk(): Promise<void> {
    const taken = await take({ after })
    after = taken?.after ?? FIRST_LINE
    more_lines = taken !== undefined && (taken.after !== null || taken.dropped > 0)
  }

  const sequencing = every(log, 'sequencing events', () => (more_events ? BUSY_MS : DISPATCH_MS), sequence)
  const visiting = every(
    log,
    'taking deliveries from lines that moved',
    () => (lines.size > 0 || tenants.size > 0 ? BUSY_MS : DISPATCH_MS),
    visit,
  )
  const walking = every(log, 'taking deliveries', () => (more_lines ? BUSY_MS : DISPATCH_MS), walk)
  const recovering = every(
    log,
    'recovering deliveries',
    () => RECOVERY_MS,
    async () => {
      while (await continueRecovery(sql));
    },
  )
  return [sequencing, visiting, walking, recovering]
}

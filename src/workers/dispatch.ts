// The dispatcher of events: gives them their sequences, takes due deliveries out of their lines and performs them.
import { metrics } from '#core/metrics.ts'
import { continueRecovery } from '#domain/deliveries/continue-recovery.ts'
import { FIRST_LINE, takeDeliveries } from '#domain/deliveries/take.ts'
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
  let more_deliveries = false
  let after = FIRST_LINE

  async function sequence(): Promise<void> {
    const sequenced = await sequenceEvents(sql, SEQUENCED_AT_ONCE)
    const events = sequenced.reduce((sum, one) => sum + one.events, 0)
    more_events = events >= SEQUENCED_AT_ONCE
    if (events === 0) return
    metrics.sequenced.inc(events)
    // Who waits for events of a tenant looks again.
    queue.publish(sequenced.map(({ tenant_id: id }) => ({ id, state: 'sequenced' })))
    if (sequenced.some(({ deliveries }) => deliveries > 0)) taking.hurry()
  }

  async function take(): Promise<void> {
    const room = performer.room(sendDelivery.queue)
    more_deliveries = false
    if (room <= 0) return
    const asked_at = performance.now()
    const share = performer.shares.left(sendDelivery.queue, room)
    const taken = await takeDeliveries(sql, { worker, room, share, after })
    after = taken.after ?? FIRST_LINE
    more_deliveries ||= taken.more
    for (const { job, begins_in_ms } of taken.jobs) {
      const begin = () => void performer.performHeld(job, asked_at).then(ended)
      if (begins_in_ms > 0) setTimeout(begin, begins_in_ms)
      else begin()
    }
  }

  /** Its place in the window of its endpoint is free. */
  function ended(): void {
    more_deliveries = true
    taking.hurry()
  }

  const sequencing = every(log, 'sequencing events', () => (more_events ? BUSY_MS : DISPATCH_MS), sequence)
  const taking = every(log, 'taking deliveries', () => (more_deliveries ? BUSY_MS : DISPATCH_MS), take)
  const recovering = every(
    log,
    'recovering deliveries',
    () => RECOVERY_MS,
    async () => {
      while (await continueRecovery(sql));
    },
  )
  return [sequencing, taking, recovering]
}

// The sequencer: gives committed events their position in the feed, one worker at a time.
import { databaseCode } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import { startSpan } from '#core/tracing.ts'
import { sequenceEvents } from '#domain/sequencing.ts'
import type { Queue } from '#queue/queue.ts'
import type { WorkerContext } from './context.ts'
import { createOutboxReach } from './outbox-reach.ts'
import type { Performer } from './perform.ts'

/**
 * The interval between the starts of two runs: `of_run` times as long as the last run took, within these limits. A
 * run of more events costs less for each, and requests that change money come first.
 */
const INTERVAL = { min_ms: 50, max_ms: 250, of_run: 10 }
/** The interval while there are more events than one statement sequences. */
const BUSY_INTERVAL_MS = 1
/**
 * The approximate number of rows per statement. The size is halved after a statement that timed out, and then doubled
 * until `max`.
 */
const BATCH_ROWS = { max: 4_000, min: 50 }
const STATEMENT_CANCELED = '57014'
/** After `after_ms` without events and jobs, the interval is `interval_ms`. */
const QUIET = { after_ms: 5_000, interval_ms: 200 }
const IDLE = { after_ms: 60_000, interval_ms: 500 }

type Sequencer = { sequence(): Promise<void>; intervalMs(): number }

/** `sequenced` is called with the tenants whose events have new deliveries. */
export function createSequencer(
  { sql }: Pick<WorkerContext, 'sql'>,
  { queue, performer }: { queue: Queue; performer: Performer },
  sequenced: (tenants: string[]) => void,
): Sequencer {
  let batch_rows: number = BATCH_ROWS.max
  let more_events = false
  let began_at = -Infinity
  let took_ms = 0
  let sequenced_at = -Infinity
  const reach = createOutboxReach(sql)

  async function sequenceBatch() {
    const recent = await reach.next()
    began_at = performance.now()
    let is_complete = false
    try {
      const run = await sequenceEvents(sql, batch_rows, recent)
      is_complete = run.is_complete
      batch_rows = Math.min(BATCH_ROWS.max, batch_rows * 2)
      more_events = run.tenants.length > 0 && !is_complete
      return run.tenants
    } catch (error) {
      if (databaseCode(error) === STATEMENT_CANCELED)
        batch_rows = Math.max(BATCH_ROWS.min, Math.floor(batch_rows / 2))
      throw error
    } finally {
      took_ms = performance.now() - began_at
      reach.ran(is_complete, took_ms)
    }
  }

  return {
    async sequence() {
      const tenants = await sequenceBatch()
      if (tenants.length === 0) return
      sequenced_at = performance.now()
      metrics.sequenced.inc(tenants.reduce((sum, { events }) => sum + events, 0))
      for (const parent of tenants.flatMap(({ trace_contexts }) => trace_contexts ?? []))
        startSpan('sequence event', { kind: 'internal', parent, started_at: began_at })?.end()
      // Requests that wait for events of these tenants read the feed again.
      queue.publish(tenants.map(({ tenant_id: id }) => ({ id, state: 'sequenced' })))
      sequenced(tenants.filter(({ deliveries }) => deliveries > 0).map(({ tenant_id }) => tenant_id))
    },
    intervalMs() {
      if (more_events) return BUSY_INTERVAL_MS
      const quiet_ms = Math.min(performance.now() - sequenced_at, performer.idleFor())
      if (quiet_ms > IDLE.after_ms) return IDLE.interval_ms
      if (quiet_ms > QUIET.after_ms) return QUIET.interval_ms
      const interval_ms = Math.min(INTERVAL.max_ms, Math.max(INTERVAL.min_ms, INTERVAL.of_run * took_ms))
      return Math.max(BUSY_INTERVAL_MS, began_at + interval_ms - performance.now())
    },
  }
}

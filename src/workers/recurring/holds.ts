// What a worker does by the clock.
import type { Log } from '#core/log.ts'
import { newId } from '#core/ids.ts'
import { metrics } from '#core/metrics.ts'
import { countUnknown } from '#domain/jobs/outcomes.ts'
import { countParked } from '#domain/notifications.ts'
import { findAbandoned, findLapsed, warnOfExpiry } from '#domain/payments/expiry.ts'
import { requestCancels } from '#domain/payments/request.ts'
import type { WorkerContext } from '../context.ts'

/** A gauge that says "many" need not count them all. */
const MOST_COUNTED = 10_000

export type Loop = { close(): Promise<void> }

/** Runs `work` again and again, `interval_ms()` after the end of the one before; a failure is logged and not the end. */
export function every(log: Log, name: string, interval_ms: () => number, work: () => Promise<void>): Loop {
  let closed = false
  let failing = false
  let timer: NodeJS.Timeout | undefined
  let running = Promise.resolve()

  async function run(): Promise<void> {
    try {
      await work()
      failing = false
    } catch (error) {
      if (!failing) log.warn({ err: error }, `${name} failed; tried again until it works`)
      failing = true
    }
    if (!closed) timer = setTimeout(start, interval_ms())
  }
  function start(): void {
    running = run()
  }
  timer = setTimeout(start, interval_ms())
  return {
    async close() {
      closed = true
      clearTimeout(timer)
      await running
    },
  }
}

/**
 * The clockwork of a worker; each step is safe to run in several workers at once. Payments whose buyer does nothing for
 * `action_ttl_s` are given up.
 */
export function schedule(context: WorkerContext, { action_ttl_s }: { action_ttl_s: number }): Loop {
  const { sql, log } = context
  const loops = [
    every(
      log,
      'expiry of holds',
      () => 5_000,
      async () => {
        await warnOfExpiry(sql, 100)
        const given_up = [
          ...(await findLapsed(sql, 100)).map((hold) => ({
            ...hold,
            reason: null,
            cancellation_reason: 'expired',
          })),
          ...(await findAbandoned(sql, action_ttl_s, 100)).map((payment) => ({
            ...payment,
            reason: 'abandoned',
            cancellation_reason: 'abandoned',
          })),
        ]
        if (given_up.length === 0) return
        await requestCancels(
          sql,
          given_up.map(({ tenant_id, id, reason, cancellation_reason }) => ({
            tenant_id,
            payment_id: id,
            job_id: newId(),
            event_id: newId(),
            rung: false,
            idempotency_key: null,
            scope: '',
            fingerprint: '',
            request_id: null,
            reason,
            cancellation_reason,
          })),
        )
      },
    ),
    every(
      log,
      'gauges',
      () => 5_000,
      async () => {
        for (const { reason, count } of await countParked(sql, MOST_COUNTED))
          metrics.parked.set({ reason }, count)
        metrics.unknown.set(await countUnknown(sql))
      },
    ),
  ]
  return {
    async close() {
      await Promise.all(loops.map((loop) => loop.close()))
    },
  }
}

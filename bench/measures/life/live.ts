// Runs payments through their life: authorized, captured, and all notifications applied.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Provider } from '#test/providers.ts'
import { median } from '../../compare.ts'
import { costs, cpuTimes } from '../../cpu.ts'
import { closedLoop, type Load } from '../../load.ts'

/** A system that its provider notifies. */
export type NotifiedSystem = {
  /** The URL of the system's API. */
  url: string
  /** The system's own emulator: no other system sends requests to it. */
  provider: Provider
  /** True while the system has open work. */
  isBusy: () => Promise<boolean>
  /** Number of notifications since this time (ISO 8601), and how many of them are applied or ignored. */
  count: (since: string) => Promise<{ notifications: number; final: number }>
}

/** A system with payments. */
export type Target = NotifiedSystem & {
  /** A request that authorizes one more payment. */
  authorize: () => string
  /** The request that captures the payment of this answer. */
  capture: (answer: string) => string
}

/**
 * `count` is the number of runs that `work` of `untilApplied` returns. `rate` is the number of runs per second until
 * everything is applied. The processor time is per run.
 */
export type CompleteRuns = Pick<Load, 'rate' | 'count' | 'cpu_us' | 'cpu'> & {
  /** Seconds from the last answer until everything is applied. */
  lag_s: number
  /** Requests to the provider's API per run. */
  provider_requests: number
  /** Notifications per run. */
  notifications: number
}

/** Figures of complete payments. */
export type PaymentLife = CompleteRuns & {
  authorize_p50_ms: number
  capture_p50_ms: number
}

const POLL_INTERVAL_MS = 20
const MAX_LAG_MS = 120_000

/**
 * Each client authorizes and captures payments one by one for `seconds`. The run ends when every notification is
 * applied, and its rate covers all this time. Without `notified` the provider sends no notifications.
 */
export async function runPaymentLives(
  target: Target,
  { clients, seconds, notified }: { clients: number; seconds: number; notified: boolean },
): Promise<PaymentLife> {
  const { url, authorize, capture } = target
  const latencies = { authorize: [] as number[], capture: [] as number[] }
  // After an authorization a client captures the payment next, so each client has at most one authorized payment.
  const authorized: string[] = []
  const figures = await untilApplied(target, notified, async () => {
    await closedLoop({
      url,
      connections: clients,
      seconds,
      expect: [201, 200],
      next: () => authorized.pop() ?? authorize(),
      last: () => authorized.pop(),
      onBody(body, { status, latency_ms }) {
        latencies[status === 201 ? 'authorize' : 'capture'].push(latency_ms)
        if (status === 201) authorized.push(capture(body))
      },
    })
    return latencies.capture.length
  })
  return {
    ...figures,
    authorize_p50_ms: median(latencies.authorize),
    capture_p50_ms: median(latencies.capture),
  }
}

/**
 * Calls `work`, which returns the number of runs, and waits until all their notifications are applied. Throws if a
 * notification is missing, which makes the measurement invalid.
 */
export async function untilApplied(
  { provider, isBusy, count }: NotifiedSystem,
  notified: boolean,
  work: () => Promise<number>,
): Promise<CompleteRuns> {
  const sender = await provider.control('POST', '/webhooks', { drop_percent: notified ? 0 : 100 })
  const since = new Date().toISOString()
  const provider_requests = await countRequests(provider)
  const cpu_before = cpuTimes()
  const started_at = performance.now()
  const runs = await work()
  const answered = performance.now()
  // Changes that the provider has scheduled count as work. The system is checked again after the provider, because a
  // notification may have caused work since the first check.
  while ((await isBusy()) || (await isNotifying(provider)) || (await isBusy())) {
    if (performance.now() - answered > MAX_LAG_MS)
      throw new Error(`notifications are not applied after ${MAX_LAG_MS / 1000} s`)
    await sleep(POLL_INTERVAL_MS)
  }
  const elapsed_s = (performance.now() - started_at) / 1000
  const cpu = costs(cpu_before, cpuTimes(), runs)

  const { delivered, given_up } = await provider.control('GET', '/webhooks')
  const sent = delivered - sender.delivered
  const { notifications, final } = await count(since)
  if (notifications !== sent || final !== sent || given_up !== sender.given_up || sent > 0 !== notified)
    throw new Error(`of ${sent} sent notifications, ${notifications} are stored and ${final} applied`)
  return {
    rate: runs / elapsed_s,
    count: runs,
    lag_s: elapsed_s - (answered - started_at) / 1000,
    provider_requests: ((await countRequests(provider)) - provider_requests) / runs,
    notifications: sent / runs,
    cpu_us: Object.values(cpu).reduce((sum, us) => sum + us, 0),
    cpu,
  }
}

async function isNotifying(provider: Provider): Promise<boolean> {
  const { waiting, sending } = await provider.control('GET', '/webhooks')
  return waiting + sending > 0
}

async function countRequests(provider: Provider): Promise<number> {
  // No request has the method `none`, so the answer has only the total.
  return (await provider.control('GET', '/requests?method=none')).total
}

// The life of payments: authorized, captured, and all that the provider tells about them applied.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Provider } from '#test/providers.ts'
import { median } from '../../compare.ts'
import { costs, cpuTimes } from '../../cpu.ts'
import { closedLoop, type Load } from '../../load.ts'

/** A system that its provider tells what happens there. */
export type NotifiedSystem = {
  /** Of its API. */
  url: string
  /** Its emulator's own; no other system asks for anything there. */
  provider: Provider
  /** Whether there is anything that it was asked or told and has not done yet. */
  isBusy: () => Promise<boolean>
  /** How many notifications came since this time (ISO 8601), and how many of them are applied or ignored. */
  count: (since: string) => Promise<{ told: number; over: number }>
}

/** A system in which payments live. */
export type Target = NotifiedSystem & {
  /** A request that authorizes one more payment. */
  authorize: () => string
  /** The request that captures the payment which was authorized with this answer. */
  capture: (answer: string) => string
}

/** `rate`, `count` and the processor time are those of whole stories, of which `work` has begun each. */
export type CompleteRuns = Pick<Load, 'rate' | 'count' | 'cpu_us' | 'cpu'> & {
  /** From the last answer to the moment at which nothing was left to apply, in seconds. */
  lag_s: number
  /** Requests to the provider's API for one of them. */
  provider_requests: number
  /** Notifications of one of them. */
  told: number
}

/** Of whole payments. */
export type PaymentLife = CompleteRuns & {
  authorize_p50_ms: number
  capture_p50_ms: number
}

const POLL_INTERVAL_MS = 20
const MAX_LAG_MS = 120_000

/**
 * Each client authorizes a payment, captures it, and begins again, for `seconds`. The run ends when every notification is applied,
 * and its rate is over all this time. Without `notified` the provider tells nothing.
 */
export async function runPaymentLives(
  target: Target,
  { clients, seconds, notified }: { clients: number; seconds: number; notified: boolean },
): Promise<PaymentLife> {
  const { url, authorize, capture } = target
  const latencies = { authorize: [] as number[], capture: [] as number[] }
  // Whoever was told of an authorization asks next: there is never more than one in it.
  const authorized: string[] = []
  const whole = await untilApplied(target, notified, async () => {
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
    ...whole,
    authorize_p50_ms: median(latencies.authorize),
    capture_p50_ms: median(latencies.capture),
  }
}

/**
 * Lets `work` be done, which answers how many stories it has begun, and waits until nothing of them is left to do. Throws when a
 * notification is missing in the end: then it is no measurement.
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
  const began = performance.now()
  const runs = await work()
  const answered = performance.now()
  // What is still to happen at the provider keeps it busy too; then comes what is told of it, and what that makes it do.
  while ((await isBusy()) || (await isNotifying(provider)) || (await isBusy())) {
    if (performance.now() - answered > MAX_LAG_MS)
      throw new Error(`notifications are not applied after ${MAX_LAG_MS / 1000} s`)
    await sleep(POLL_INTERVAL_MS)
  }
  const elapsed_s = (performance.now() - began) / 1000
  const cpu = costs(cpu_before, cpuTimes(), runs)

  const { delivered, given_up } = await provider.control('GET', '/webhooks')
  const sent = delivered - sender.delivered
  const { told, over } = await count(since)
  if (told !== sent || over !== sent || given_up !== sender.given_up || sent > 0 !== notified)
    throw new Error(`of ${sent} notifications that were sent, ${told} are stored and ${over} applied`)
  return {
    rate: runs / elapsed_s,
    count: runs,
    lag_s: elapsed_s - (answered - began) / 1000,
    provider_requests: ((await countRequests(provider)) - provider_requests) / runs,
    told: sent / runs,
    cpu_us: Object.values(cpu).reduce((sum, us) => sum + us, 0),
    cpu,
  }
}

async function isNotifying(provider: Provider): Promise<boolean> {
  const { waiting, sending } = await provider.control('GET', '/webhooks')
  return waiting + sending > 0
}

async function countRequests(provider: Provider): Promise<number> {
  // The total alone: no request matches.
  return (await provider.control('GET', '/requests?method=none')).total
}

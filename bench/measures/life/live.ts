// The life of payments: authorized, captured, and all that the provider tells about them applied.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Provider } from '#test/providers.ts'
import { median } from '../../compare.ts'
import { costs, cpuTimes } from '../../cpu.ts'
import { closedLoop, type Load } from '../../load.ts'

/** A system in which payments live. */
export type Target = {
  /** Of its API. */
  url: string
  /** Its emulator's own; no other system has payments there. */
  provider: Provider
  /** A request that authorizes one more payment. */
  authorize: () => string
  /** The request that captures the payment which was authorized with this answer. */
  capture: (answer: string) => string
  /** Whether there is anything that it was asked or told and has not done yet. */
  isBusy: () => Promise<boolean>
  /** How many notifications came since this time (ISO 8601), and how many of them are applied or ignored. */
  count: (since: string) => Promise<{ told: number; over: number }>
}

/** `rate`, `count` and the processor time are those of whole payments. */
export type Life = Pick<Load, 'rate' | 'count' | 'cpu_us' | 'cpu'> & {
  /** From the last capture's answer to the moment at which nothing was left to apply, in seconds. */
  lag_s: number
  authorize_p50_ms: number
  capture_p50_ms: number
  /** Requests to the provider's API for one payment. */
  asked: number
  /** Notifications of one payment. */
  told: number
}

const POLL_MS = 20
const LONGEST_LAG_MS = 120_000

/**
 * Each client authorizes a payment, captures it, and begins again, for `seconds`. The run ends when every notification is applied,
 * and its rate is over all this time. Without `notified` the provider tells nothing. Throws when anything is missing in the end:
 * then it is no measurement.
 */
export async function live(
  { url, provider, authorize, capture, isBusy, count }: Target,
  { clients, seconds, notified }: { clients: number; seconds: number; notified: boolean },
): Promise<Life> {
  const sender = await provider.control('POST', '/webhooks', { drop_percent: notified ? 0 : 100 })
  const since = new Date().toISOString()
  const asked = await countRequests(provider)
  const latencies = { authorize: [] as number[], capture: [] as number[] }
  // Whoever was told of an authorization asks next: there is never more than one in it.
  const authorized: string[] = []

  const cpu_before = cpuTimes()
  const began = performance.now()
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
  const captured = performance.now()
  for (;;) {
    const { waiting, sending } = await provider.control('GET', '/webhooks')
    if (waiting + sending === 0 && !(await isBusy())) break
    if (performance.now() - captured > LONGEST_LAG_MS)
      throw new Error(`notifications are not applied after ${LONGEST_LAG_MS / 1000} s`)
    await sleep(POLL_MS)
  }
  const elapsed_s = (performance.now() - began) / 1000
  const payments = latencies.capture.length
  const cpu = costs(cpu_before, cpuTimes(), payments)

  const { delivered, given_up } = await provider.control('GET', '/webhooks')
  const sent = delivered - sender.delivered
  const { told, over } = await count(since)
  if (told !== sent || over !== sent || given_up !== sender.given_up || sent > 0 !== notified)
    throw new Error(`of ${sent} notifications that were sent, ${told} are stored and ${over} applied`)
  return {
    rate: payments / elapsed_s,
    count: payments,
    lag_s: elapsed_s - (captured - began) / 1000,
    authorize_p50_ms: median(latencies.authorize),
    capture_p50_ms: median(latencies.capture),
    asked: ((await countRequests(provider)) - asked) / payments,
    told: sent / payments,
    cpu_us: Object.values(cpu).reduce((sum, us) => sum + us, 0),
    cpu,
  }
}

async function countRequests(provider: Provider): Promise<number> {
  // The total alone: no request matches.
  return (await provider.control('GET', '/requests?method=none')).total
}

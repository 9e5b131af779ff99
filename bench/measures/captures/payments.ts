// Authorizes payments of 100 tenants through the API. Each payment is captured once.
import { closedLoop, type Load } from '../../load.ts'
import type { System } from '../../system.ts'
import { untilDrained } from '../measure.ts'
import { paymentRequests } from './requests.ts'

export type Payments = {
  /** Authorizes payments at the maximum rate for `seconds`. They can be captured later. */
  authorize(connections: number, seconds: number): Promise<Load>
  /** Authorizes payments until `count` can be captured. */
  prepare(count: number): Promise<void>
  /**
   * Prepares `rate` payments for each second, and captures payments at the maximum rate for `seconds`, or until none
   * is left.
   */
  capture(connections: number, seconds: number, rate: number): Promise<Load>
  /** A capture of an authorized payment with `Prefer: respond-async`; undefined if there are none left. */
  nextAsync: () => string | undefined
  /** Resolves when no job is open. */
  settled(): Promise<void>
}

export function openPayments(system: System, url: string): Payments {
  const requests = paymentRequests(system.keys)
  const authorized: ReturnType<typeof requests.paymentIn>[] = []

  async function authorize(connections: number, seconds: number, count = Infinity): Promise<Load> {
    let remaining = count
    return await closedLoop({
      url,
      connections,
      seconds,
      expect: 201,
      next: () => (remaining-- > 0 ? requests.create() : undefined),
      onBody: (body) => void authorized.push(requests.paymentIn(body)),
    })
  }

  function nextCapture(headers: Record<string, string>): string | undefined {
    const payment = authorized.pop()
    return payment && requests.capture(payment, headers)
  }

  async function prepare(count: number): Promise<void> {
    const missing = count - authorized.length
    if (missing > 0) await authorize(256, 600, missing)
  }

  return {
    authorize,
    prepare,
    async capture(connections, seconds, rate) {
      await prepare(rate * seconds)
      return await closedLoop({ url, connections, seconds, expect: 200, next: () => nextCapture({}) })
    },
    nextAsync: () => nextCapture({ prefer: 'respond-async' }),
    settled: () => untilDrained(system),
  }
}

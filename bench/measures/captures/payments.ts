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
  /** The capture of an authorized payment; undefined if there are none left. */
  next: () => string | undefined
  /** The same request with `Prefer: respond-async`. */
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

  function capture(headers: Record<string, string>): string | undefined {
    const payment = authorized.pop()
    return payment && requests.capture(payment, headers)
  }

  return {
    authorize,
    async prepare(count) {
      const missing = count - authorized.length
      if (missing > 0) await authorize(256, 600, missing)
    },
    next: () => capture({}),
    nextAsync: () => capture({ prefer: 'respond-async' }),
    settled: () => untilDrained(system),
  }
}

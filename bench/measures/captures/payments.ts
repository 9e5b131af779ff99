// Payments of 100 tenants, authorized through the API, to be captured once each.
import { closedLoop, type Load } from '../../load.ts'
import type { System } from '../../system.ts'
import { untilDrained } from '../measure.ts'
import { paymentRequests } from './requests.ts'

export type Payments = {
  /** Authorizes as fast as it goes, for `seconds`; what comes of it can be captured. */
  authorize(connections: number, seconds: number): Promise<Load>
  /** Sees to it that `count` payments can be captured. */
  prepare(count: number): Promise<void>
  /** The capture of one that is authorized; undefined when there is none left. */
  next: () => string | undefined
  /** The same with `Prefer: respond-async`. */
  nextAsync: () => string | undefined
  /** Resolves when no job is open. */
  settled(): Promise<void>
}

export function openPayments(system: System, url: string): Payments {
  const requests = paymentRequests(system.keys)
  const authorized: ReturnType<typeof requests.paymentIn>[] = []

  async function authorize(connections: number, seconds: number, count = Infinity): Promise<Load> {
    let left = count
    return await closedLoop({
      url,
      connections,
      seconds,
      expect: 201,
      next: () => (left-- > 0 ? requests.create() : undefined),
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

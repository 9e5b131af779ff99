// Payments of 100 tenants, authorized through the API, to be captured once each.
import { freshKey } from '#test/client.ts'
import { closedLoop, request, type Load } from '../../load.ts'
import type { System } from '../../system.ts'
import { untilDrained } from '../measure.ts'

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
  const authorized: { id: string; authorization: string }[] = []
  const authorizations = new Map(
    system.keys.map(({ tenant_id, authorization }) => [tenant_id, authorization]),
  )
  let turn = 0

  async function authorize(connections: number, seconds: number, count = Infinity): Promise<Load> {
    let left = count
    return await closedLoop({
      url,
      connections,
      seconds,
      expect: 201,
      next: () => (left-- > 0 ? creation() : undefined),
      onBody(body) {
        const id = /"id":"([^"]+)"/.exec(body)![1]!
        const tenant_id = /"tenant_id":"([^"]+)"/.exec(body)![1]!
        authorized.push({ id, authorization: authorizations.get(tenant_id)! })
      },
    })
  }

  function creation(): string {
    const { authorization } = system.keys[turn++ % system.keys.length]!
    return request(
      'POST',
      '/v1/payments',
      { authorization, 'content-type': 'application/json' },
      `{"idempotency_key":"${freshKey()}","amount_minor":1000,"currency":"USD","method":"card","payment_method":"pm_card_visa","metadata":{"order":"A-17"}}`,
    )
  }

  function capture(prefer: Record<string, string>): string | undefined {
    const payment = authorized.pop()
    return (
      payment &&
      request('POST', `/v1/payments/${payment.id}/capture`, {
        authorization: payment.authorization,
        ...prefer,
      })
    )
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

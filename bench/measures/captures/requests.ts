// Requests that authorize and capture payments of many tenants.
import { BY_CARD, freshKey } from '#test/client.ts'
import { request } from '../../load.ts'
import type { Key } from '../../system.ts'

type Payment = { id: string; authorization: string }

/** The body of a payment of USD 10.00. */
export function paymentBody(): string {
  return JSON.stringify({
    ...BY_CARD,
    idempotency_key: freshKey(),
    amount_minor: 1000,
    metadata: { order: 'A-17' },
  })
}

/** Creates requests of these tenants in rotation. */
export function paymentRequests(keys: Key[]) {
  const authorizations = new Map(keys.map(({ tenant_id, authorization }) => [tenant_id, authorization]))
  let next_key = 0
  return {
    create(): string {
      const { authorization } = keys[next_key++ % keys.length]!
      const headers = { authorization, 'content-type': 'application/json' }
      return request('POST', '/v1/payments', headers, paymentBody())
    },
    /** The payment in an answer. */
    paymentIn(body: string): Payment {
      const tenant_id = /"tenant_id":"([^"]+)"/.exec(body)![1]!
      return { id: idIn(body), authorization: authorizations.get(tenant_id)! }
    },
    capture: ({ id, authorization }: Payment, headers: Record<string, string> = {}): string =>
      request('POST', `/v1/payments/${id}/capture`, { authorization, ...headers }),
  }
}

/** The first id in an answer: that of its resource. */
export function idIn(body: string): string {
  return /"id":"([^"]+)"/.exec(body)![1]!
}

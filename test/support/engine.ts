// Requests to the engine of the Stripe emulator, without a server.
import type { Engine } from '#providers/sandbox/stripe/engine.ts'
import { performRequest } from '#providers/sandbox/stripe/requests.ts'
import type { EngineResponse } from '#providers/sandbox/stripe/responses.ts'

export const DAY_MS = 24 * 60 * 60 * 1000
export const HOLD =
  'amount=1000&currency=usd&capture_method=manual&payment_method=pm_card_visa&confirm=true' +
  '&automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never'
export const PAYOUT = 'amount=500&currency=usd'

const AUTHORIZATION = { authorization: 'Bearer sk_test_1' }

/** `path`: without `/v1/`. `key`: the idempotency key. */
export function post(engine: Engine, path: string, body = '', key?: string): EngineResponse {
  const headers = {
    ...AUTHORIZATION,
    'content-type': 'application/x-www-form-urlencoded',
    'idempotency-key': key,
  }
  return performRequest(engine, { method: 'POST', path: `/v1/${path}`, query: '', body, headers })
}

/** Creates an object and returns its id. */
export function create(engine: Engine, path: string, body: string): string {
  return JSON.parse(post(engine, path, body).body).id
}

export function get(engine: Engine, path: string, query = ''): any {
  const headers = AUTHORIZATION
  const { body } = performRequest(engine, { method: 'GET', path: `/v1/${path}`, query, body: '', headers })
  return JSON.parse(body)
}

// Top-ups as stories need them.
import { freshKey, type Answer, type Client } from './client.ts'

/** Asks for a top-up of 5.00 USD, unless told otherwise. */
export async function topUp(
  client: Client,
  body: Record<string, unknown> = {},
  headers?: Record<string, string>,
): Promise<Answer> {
  return await client.post(
    '/v1/wallet/top_ups',
    { idempotency_key: freshKey(), amount_minor: 500, currency: 'usd', ...body },
    headers,
  )
}

// Helpers for top-ups.
import { freshKey, type Answer, type Client } from './client.ts'
import type { World } from './world.ts'

/** Requests a top-up of USD 5.00. `body` overrides fields. */
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

/** Creates a top-up that stays pending, at the processor without Sluice. Returns its id at the processor. */
export async function topUpAtProcessor(
  { provider }: Pick<World, 'provider'>,
  fields: Record<string, string>,
  headers: Record<string, string> = {},
): Promise<string> {
  const { url, api_key } = provider('stripe')
  const created = await fetch(`${url}/v1/topups`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${api_key}`,
      'content-type': 'application/x-www-form-urlencoded',
      ...headers,
    },
    body: new URLSearchParams({ amount: '500', currency: 'usd', source: 'src_manual', ...fields }).toString(),
  })
  return ((await created.json()) as { id: string }).id
}

/** Metadata that marks a top-up at the processor as the top-up of Sluice with this id. */
export function marksOf(id: string, tenant_id: string): Record<string, string> {
  return { 'metadata[sluice_top_up_id]': id, 'metadata[sluice_tenant_id]': tenant_id }
}

/** Makes the processor settle a top-up. */
export async function settleTopUp(
  { provider }: Pick<World, 'provider'>,
  reference: string,
  status: string,
): Promise<void> {
  await provider('stripe').control('POST', `/topups/${reference}/settle`, { status })
}

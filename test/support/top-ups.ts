// Top-ups as stories need them.
import { freshKey, type Answer, type Client } from './client.ts'
import type { World } from './world.ts'

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

/** Somebody makes a top-up without us, of which nothing comes by itself; answers the processor's id of it. */
export async function topUpAtProcessor(
  { provider }: Pick<World, 'provider'>,
  fields: Record<string, string>,
  headers: Record<string, string> = {},
): Promise<string> {
  const { url, api_key } = provider('stripe')
  const made = await fetch(`${url}/v1/topups`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${api_key}`,
      'content-type': 'application/x-www-form-urlencoded',
      ...headers,
    },
    body: new URLSearchParams({ amount: '500', currency: 'usd', source: 'src_manual', ...fields }).toString(),
  })
  return ((await made.json()) as { id: string }).id
}

/** The marks by which the processor's top-up is known as this one of ours. */
export function marksOf(id: string, tenant_id: string): Record<string, string> {
  return { 'metadata[sluice_top_up_id]': id, 'metadata[sluice_tenant_id]': tenant_id }
}

/** The processor says what became of a top-up. */
export async function settleTopUp(
  { provider }: Pick<World, 'provider'>,
  reference: string,
  status: string,
): Promise<void> {
  await provider('stripe').control('POST', `/topups/${reference}/settle`, { status })
}

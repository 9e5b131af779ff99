// Helpers for verifications: parties, sessions and their results.
import { expect } from 'vitest'
import { freshKey, type Answer, type Client } from './client.ts'
import { MERCHANT, RECIPIENT } from './parties.ts'
import { eventually } from './payments.ts'
import type { Books } from './invariants.ts'
import type { World } from './world.ts'

const BODIES = { customer: { name: 'Ada' }, merchant: MERCHANT, recipient: RECIPIENT }
export type Party = keyof typeof BODIES

/** A new customer, merchant or recipient to verify. */
export async function party(
  client: Client,
  type: Party,
): Promise<{ subject_type: Party; subject_id: string }> {
  const answer = await client.post(`/v1/${type}s`, { idempotency_key: freshKey(), ...BODIES[type] })
  expect(answer.status).toBe(201)
  return { subject_type: type, subject_id: answer.body.id }
}

/** Requests the verification of a customer. `body` overrides fields. */
export async function startVerification(
  client: Client,
  body: Record<string, unknown>,
  headers?: Record<string, string>,
): Promise<Answer> {
  return await client.post(
    '/v1/compliance/kyc',
    { idempotency_key: freshKey(), subject_type: 'customer', ...body },
    headers,
  )
}

/** Creates a verification that waits for the person. */
export async function verificationOf(client: Client, type: Party = 'customer'): Promise<any> {
  const answer = await startVerification(client, await party(client, type))
  expect([answer.status, answer.body.status]).toEqual([201, 'requires_input'])
  return answer.body
}

export async function decide(
  client: Client,
  id: string,
  decision: 'approved' | 'rejected',
  fields: Record<string, unknown> = {},
): Promise<Answer> {
  return await client.post(`/v1/compliance/kyc/${id}/decide`, {
    decision,
    reason: 'Seen in person.',
    ...fields,
  })
}

export async function getVerification(client: Client, id: string): Promise<any> {
  return (await client.get(`/v1/compliance/kyc/${id}`)).body
}

/** Waits until the verification has this status. Returns the verification. */
export async function verificationIn(client: Client, id: string, status: string): Promise<any> {
  return await eventually(async () => {
    const verification = await getVerification(client, id)
    expect(verification).toMatchObject({ status })
    return verification
  })
}

/** Makes the provider settle the session. */
export async function settleSession(
  { provider }: Pick<World, 'provider'>,
  reference: string,
  status: string,
  reason?: string,
): Promise<void> {
  await provider('stripe').control('POST', `/identity/${reference}/settle`, {
    status,
    ...(reason && { reason }),
  })
}

/** Calls the provider's API. */
export async function callProvider(
  { provider }: Pick<World, 'provider'>,
  method: 'GET' | 'POST',
  path: string,
): Promise<any> {
  const { url, api_key } = provider('stripe')
  const response = await fetch(`${url}/v1/identity/verification_sessions${path}`, {
    method,
    headers: {
      authorization: `Bearer ${api_key}`,
      ...(method === 'POST' && { 'content-type': 'application/x-www-form-urlencoded' }),
    },
    ...(method === 'POST' && { body: '' }),
  })
  return await response.json()
}

/** The fields of a verification that tests compare between two scenarios. */
export async function verificationSummary({ sql }: Pick<Books, 'sql'>, id: string) {
  const [verification] = await sql`
    select status, failure ->> 'code' as failure, decision, decided_by, provider_reference is not null as known,
      links = '{}' as no_links
    from verifications where id = ${id}`
  return { ...verification }
}

// Payouts as stories need them: a recipient, a balance, a payout in a status; and what was booked for them.
import { expect } from 'vitest'
import { freshKey, type Answer, type Client } from './client.ts'
import { capturedPayment, eventually } from './payments.ts'
import type { Books } from './invariants.ts'

const TYPES = { ba: 'bank_account', card: 'card', acct: 'account' } as const

/** The id of a new recipient. What the emulator does with payouts to it is in the name of the destination. */
export async function recipient(
  client: Client,
  destination = 'ba_success',
  body: Record<string, unknown> = {},
): Promise<string> {
  const type = TYPES[destination.split('_')[0] as keyof typeof TYPES]
  const given = { name: 'Ada', type, currency: 'usd', country: 'US', destination, ...body }
  const answer = await client.post('/v1/recipients', { idempotency_key: freshKey(), ...given })
  expect(answer.body).toMatchObject({ destination })
  return answer.body.id
}

/** Gives a tenant so much that is available. */
export async function fund(client: Client, amount_minor: number, currency = 'USD'): Promise<void> {
  await capturedPayment(client, { amount_minor, currency })
}

/** A client of a new tenant with this balance. */
export async function rich(
  world: { clientOf(): Promise<Client & { tenant_id: string }> },
  amount_minor: number,
): Promise<Client & { tenant_id: string }> {
  const client = await world.clientOf()
  await fund(client, amount_minor)
  return client
}

/** Asks for a payout of 100 USD cents, unless told otherwise. */
export async function payOut(
  client: Client,
  recipient_id: string,
  body: Record<string, unknown> = {},
  headers?: Record<string, string>,
): Promise<Answer> {
  return await client.post(
    '/v1/payouts',
    { idempotency_key: freshKey(), amount_minor: 100, currency: 'usd', recipient_id, ...body },
    headers,
  )
}

/** Waits until the payout is in `status`, and answers it. */
export async function payoutIn(client: Client, id: string, status: string): Promise<any> {
  return await eventually(async () => {
    const { body } = await client.get(`/v1/payouts/${id}`)
    expect(body).toMatchObject({ status })
    return body
  })
}

/** What the tenant's account holds, and how much of it is reserved. */
export async function accountOf(
  { sql }: Pick<Books, 'sql'>,
  tenant_id: string,
  currency = 'USD',
): Promise<{ balance: number; reserved: number }> {
  const [row] = await sql<{ balance: number; reserved: number }[]>`
    select balance_minor as balance, reserved_minor as reserved from ledger_accounts
    where tenant_id = ${tenant_id} and currency = ${currency} and name = 'available'`
  return row ?? { balance: 0, reserved: 0 }
}

/** A payout with what was booked and announced of it: enough to see that two stories ended alike. */
export async function payoutSummary({ sql }: Pick<Books, 'sql'>, id: string) {
  const [payout] = await sql`
    select status, processor_status, paid_minor, returned_minor, failure ->> 'code' as failure,
      (failure -> 'manual')::boolean as manual, processor_reference is not null as known
    from payouts where id = ${id}`
  const postings = await sql`
    select kind, case when credit_account = 'available' then amount_minor else -amount_minor end as amount_minor
    from ledger_transfers where subject_id = ${id} order by seq`
  const events = await sql<{ type: string }[]>`select type from events where subject_id = ${id} order by type`
  return {
    payout: { ...payout },
    postings: postings.map((row) => `${row.kind} ${row.amount_minor}`),
    events: events.map(({ type }) => type.slice('payout.'.length)),
  }
}

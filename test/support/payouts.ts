// Helpers for payouts: recipients, balances, statuses and postings.
import { expect } from 'vitest'
import { freshKey, type Answer, type Client } from './client.ts'
import { capturedPayment, eventually } from './payments.ts'
import type { Books } from './invariants.ts'

const TYPES = { ba: 'bank_account', card: 'card', acct: 'account' } as const

/** Creates a recipient and returns its id. The name of the destination selects the emulator's behavior. */
export async function recipient(
  client: Client,
  destination = 'ba_success',
  body: Record<string, unknown> = {},
): Promise<string> {
  const type = TYPES[destination.split('_')[0] as keyof typeof TYPES]
  const fields = { name: 'Ada', type, currency: 'usd', country: 'US', destination, ...body }
  const answer = await client.post('/v1/recipients', { idempotency_key: freshKey(), ...fields })
  expect(answer.body).toMatchObject({ destination })
  return answer.body.id
}

/** Adds this amount to the tenant's available balance. */
export async function fund(client: Client, amount_minor: number, currency = 'USD'): Promise<void> {
  await capturedPayment(client, { amount_minor, currency })
}

/** Creates a tenant with this balance. Returns a client of the tenant. */
export async function clientWithBalance(
  world: { clientOf(): Promise<Client & { tenant_id: string }> },
  amount_minor: number,
): Promise<Client & { tenant_id: string }> {
  const client = await world.clientOf()
  await fund(client, amount_minor)
  return client
}

/** Requests a payout of USD 1.00. `body` overrides fields. */
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

/** Waits until the payout has this status. Returns the payout. */
export async function payoutIn(client: Client, id: string, status: string): Promise<any> {
  return await eventually(async () => {
    const { body } = await client.get(`/v1/payouts/${id}`)
    expect(body).toMatchObject({ status })
    return body
  })
}

/** The balance and the reserved amount of the tenant's account. */
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

/** A payout with its postings and events, to compare the results of two scenarios. */
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

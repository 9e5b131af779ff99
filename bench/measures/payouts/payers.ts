// Tenants that can pay out, and the requests with which they do: each has a balance and a recipient, made through the API.
import type { Sql } from '#core/db.ts'
import { createClient, freshKey } from '#test/client.ts'
import { RECIPIENT } from '#test/parties.ts'
import { until } from '#test/process.ts'
import { request } from '../../load.ts'
import type { Key } from '../../system.ts'
import { idIn } from '../captures/requests.ts'
import { untilDrained } from '../measure.ts'

/** At the emulator's: on its way after a moment, and paid after another. Both are told. */
const DESTINATION = { type: 'bank_account', destination: 'ba_success' } as const
/** Enough for any run, and little of it. */
const BALANCE_MINOR = 90_000_000
const AMOUNT_MINOR = 10

export type Payer = { authorization: string; recipient_id: string }

/** Tops up the balances of these tenants and makes a recipient for each. `sql` is connected to their database. */
export async function createPayers(sql: Sql, url: string, keys: Key[]): Promise<Payer[]> {
  const client = createClient(url, '')
  const payers: Payer[] = []
  for (const { authorization } of keys) {
    const make = async (path: string, body: object) => {
      const made = await client.post(path, { ...body, idempotency_key: freshKey() }, { authorization })
      if (made.status !== 201) throw new Error(`${path} answered ${made.text}`)
      return idIn(made.text)
    }
    await make('/v1/wallet/top_ups', { amount_minor: BALANCE_MINOR, currency: 'usd' })
    payers.push({
      authorization,
      recipient_id: await make('/v1/recipients', { ...RECIPIENT, ...DESTINATION }),
    })
  }
  await until('each tenant has a balance', async () => {
    const [row] = await sql<{ funded: number }[]>`
      select count(*)::integer as funded from ledger_accounts where name = 'available' and balance_minor > 0`
    return row!.funded === keys.length
  })
  await untilDrained({ sql })
  return payers
}

/** The payouts of these tenants, who take turns. */
export function payoutRequests(payers: Payer[], headers: Record<string, string> = {}): () => string {
  let turn = 0
  return () => {
    const { authorization, recipient_id } = payers[turn++ % payers.length]!
    return payoutRequest('/v1/payouts', { ...headers, authorization }, { recipient_id })
  }
}

/** A payout of the chain floor, which has no recipients. */
export function floorPayout(): string {
  return payoutRequest('/payouts', {}, { destination: DESTINATION.destination })
}

function payoutRequest(path: string, headers: Record<string, string>, to: object): string {
  const body = {
    idempotency_key: freshKey(),
    amount_minor: AMOUNT_MINOR,
    currency: 'usd',
    ...to,
    metadata: { order: 'A-17' },
  }
  return request('POST', path, { ...headers, 'content-type': 'application/json' }, JSON.stringify(body))
}

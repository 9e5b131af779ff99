// Tenants with a balance and a recipient, created through the API, and their payout requests.
import type { Sql } from '#core/db.ts'
import { createClient, freshKey } from '#test/client.ts'
import { RECIPIENT } from '#test/parties.ts'
import { until } from '#test/process.ts'
import { request } from '../../load.ts'
import type { Key } from '../../system.ts'
import { idIn } from '../captures/requests.ts'
import { untilDrained } from '../measure.ts'

/** The emulator sets a payout to this account to `in_transit` and then to `paid`, each with a notification. */
const DESTINATION = { type: 'bank_account', destination: 'ba_success' } as const
/** Amounts are small, so the balance suffices for any run. */
const BALANCE_MINOR = 90_000_000
const AMOUNT_MINOR = 10

export type Payer = { authorization: string; recipient_id: string }

/** Tops up the balances of these tenants and creates a recipient for each. `sql` is connected to their database. */
export async function createPayers(sql: Sql, url: string, keys: Key[]): Promise<Payer[]> {
  const client = createClient(url, '')
  const payers: Payer[] = []
  for (const { authorization } of keys) {
    const create = async (path: string, body: object) => {
      const created = await client.post(path, { ...body, idempotency_key: freshKey() }, { authorization })
      if (created.status !== 201) throw new Error(`${path} answered ${created.text}`)
      return idIn(created.text)
    }
    await create('/v1/wallet/top_ups', { amount_minor: BALANCE_MINOR, currency: 'usd' })
    payers.push({
      authorization,
      recipient_id: await create('/v1/recipients', { ...RECIPIENT, ...DESTINATION }),
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

/** Payouts of these tenants in rotation. */
export function payoutRequests(payers: Payer[], headers: Record<string, string> = {}): () => string {
  let next_payer = 0
  return () => {
    const { authorization, recipient_id } = payers[next_payer++ % payers.length]!
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

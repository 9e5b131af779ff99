// The wallet: balances and their transactions, in the order in which they are posted.
import { describe, expect } from 'vitest'
import { newId } from '#core/ids.ts'
import { openingAccounts, postings } from '#domain/ledger.ts'
import { checkInvariants } from '#test/books.ts'
import { freshKey, type Client } from '#test/client.ts'
import { capturedPayment, eventually, authorizedPayment, refund } from '#test/payments.ts'
import { confirmAllCorrections } from '#test/proposals.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn()

async function balancesOf(client: Client, query = ''): Promise<any[]> {
  const { status, body } = await client.get(`/v1/wallet/balances${query}`)
  expect(status).toBe(200)
  return body
}

async function transactionsOf(client: Client, query = ''): Promise<any[]> {
  const { status, body } = await client.get(`/v1/wallet/transactions${query}`)
  expect(status).toBe(200)
  return body
}

const balance = (currency: string, balance_minor: number) => ({
  livemode: true,
  currency,
  balance_minor,
  pending_payouts_minor: 0,
  available_minor: balance_minor,
})

describe('a shop with three currencies', () => {
  let shop: Client & { tenant_id: string }
  let payment: any
  let failed_refund: any
  test.beforeAll(async ({ world }) => {
    shop = await world.clientOf()
    payment = await authorizedPayment(shop, { payment_method: 'pm_card_refundFail' })
    await shop.post(`/v1/payments/${payment.id}/capture`, { amount_minor: 900 })
    failed_refund = (await refund(shop, payment.id, { amount_minor: 400 })).body
    await world
      .provider('stripe')
      .control('POST', `/refunds/${failed_refund.processor_reference}/settle`, { status: 'failed' })
    await eventually(async () => {
      if ((await transactionsOf(shop)).length < 3) throw new Error('the refund has not failed yet')
    })
    await capturedPayment(shop, { currency: 'jpy', amount_minor: 70 })
    // No transaction exists in EUR.
    await authorizedPayment(shop, { currency: 'EUR' })
  })

  test('has a balance in each currency that has a transaction', async ({ world }) => {
    expect(await balancesOf(shop)).toEqual([balance('jpy', 70), balance('usd', 900)])
    for (const code of ['usd', 'USD', 'uSd'])
      expect(await balancesOf(shop, `?currency=${code}`)).toEqual([balance('usd', 900)])
    expect(await balancesOf(shop, '?currency=eur')).toEqual([])
    expect(await balancesOf(await world.clientOf())).toEqual([])
  })

  test('lists each change with its sign, its cause and the balance after it', async ({ world }) => {
    const entry = (kind: string, currency: string, amounts: [number, number], subject: [string, string]) => ({
      id: expect.any(String),
      livemode: true,
      kind,
      currency,
      amount_minor: amounts[0],
      balance_after_minor: amounts[1],
      subject_type: subject[0],
      subject_id: subject[1],
      created_at: expect.stringMatching(/^\d{4}-.+\.\d{6}Z$/),
    })
    const all = await transactionsOf(shop)
    expect(all).toEqual([
      entry('capture', 'jpy', [70, 70], ['payment', expect.any(String)]),
      entry('refund_failed', 'usd', [400, 900], ['refund', failed_refund.id]),
      entry('refund', 'usd', [-400, 500], ['refund', failed_refund.id]),
      entry('capture', 'usd', [900, 900], ['payment', payment.id]),
    ])
    expect(await transactionsOf(await world.clientOf())).toEqual([])
  })

  test('filters transactions by currency, kind, subject and time', async () => {
    const all = await transactionsOf(shop)
    const kinds = async (query: string) =>
      (await transactionsOf(shop, query)).map(({ kind, currency }) => `${kind} ${currency}`)
    expect(await kinds('?currency=JPY')).toEqual(['capture jpy'])
    expect(await kinds('?kind=capture')).toEqual(['capture jpy', 'capture usd'])
    expect(await kinds('?kind=top_up')).toEqual([])
    expect(await kinds(`?subject_id=${failed_refund.id}`)).toEqual(['refund_failed usd', 'refund usd'])
    expect(await kinds(`?subject_id=${failed_refund.id}&kind=refund`)).toEqual(['refund usd'])
    expect(await kinds(`?subject_id=${failed_refund.id}&currency=jpy`)).toEqual([])
    expect(await kinds(`?subject_id=${failed_refund.id}&limit=1`)).toEqual(['refund_failed usd'])
    const [, failed, refunded] = all
    // `created_from` is inclusive, `created_to` is exclusive.
    const between = `created_from=${refunded.created_at}&created_to=${failed.created_at}`
    expect(await kinds(`?${between}`)).toEqual(['refund usd'])
    expect(await kinds(`?${between}&subject_id=${failed_refund.id}`)).toEqual(['refund usd'])
    expect(await kinds(`?created_from=${failed.created_at}`)).toEqual(['capture jpy', 'refund_failed usd'])
    expect(await kinds(`?before=${failed.created_at}&currency=usd`)).toEqual(['refund usd', 'capture usd'])
  })

  test.each([
    'transactions?kind=gift',
    'transactions?currency=XXX',
    'transactions?subject_id=17',
    'transactions?limit=0',
    'transactions?before=yesterday',
    'transactions?account=fees',
    'balances?currency=dollars',
    'balances?limit=5',
  ])('gets invalid_request for %s', async (query) => {
    expect((await shop.get(`/v1/wallet/${query}`)).body.error.code).toBe('invalid_request')
  })
})

describe('many transactions of several currencies', () => {
  const CURRENCIES = ['USD', 'EUR', 'JPY', 'CHF']
  let shop: Client & { tenant_id: string }

  /** Posts this number of corrections in one statement, alternating the currencies. */
  async function postCorrections(world: World, count: number): Promise<void> {
    const { sql } = world
    const rows = Array.from({ length: count }, (_, index) => ({
      transfer_id: newId(),
      subject_id: newId(),
      currency: CURRENCIES[index % CURRENCIES.length],
      amount_minor: index + 1,
    }))
    await sql`
      with ${postings(
        sql,
        sql`
          select ${shop.tenant_id}::uuid as tenant_id, transfer_id, 'correction' as kind, subject_id,
            'processor_clearing' as debit_account, 'available' as credit_account, currency, amount_minor
          from jsonb_to_recordset(${sql.json(rows)}) as t(
            transfer_id uuid, subject_id uuid, currency text, amount_minor bigint)`,
      )}
      select`
  }

  async function readAllPages(query: string, limit: number): Promise<any[]> {
    const transactions: any[] = []
    for (let path = `/v1/wallet/transactions?limit=${limit}${query}`; ;) {
      const page = await shop.get(path)
      expect(page.status).toBe(200)
      transactions.push(...page.body)
      const link = page.headers.get('link')
      if (link === null) return transactions
      path = /^<(.+)>; rel="next"$/.exec(link)![1]!
    }
  }

  test.beforeAll(async ({ world }) => {
    shop = await world.clientOf()
    for (const currency of CURRENCIES)
      await openingAccounts(
        world.sql,
        world.sql`select ${shop.tenant_id}::uuid as tenant_id, ${currency} as currency`,
      )
    await Promise.all([
      postCorrections(world, 400),
      postCorrections(world, 300),
      postCorrections(world, 200),
      postCorrections(world, 100),
    ])
  })

  test('appear once each in pages of 7, and each balance follows from the previous balance of its currency', async () => {
    const transactions = await readAllPages('', 7)
    expect(transactions).toHaveLength(1000)
    expect(new Set(transactions.map(({ id }) => id)).size).toBe(1000)
    const times: string[] = transactions.map(({ created_at }) => created_at)
    expect(times).toEqual(times.toSorted().toReversed())
    for (const { currency, balance_minor } of await balancesOf(shop)) {
      const of_currency = transactions.filter((each) => each.currency === currency)
      expect(of_currency[0].balance_after_minor).toBe(balance_minor)
      for (const [index, { amount_minor, balance_after_minor }] of of_currency.entries())
        expect(balance_after_minor - amount_minor).toBe(of_currency[index + 1]?.balance_after_minor ?? 0)
      expect(await readAllPages(`&currency=${currency}`, 9)).toEqual(of_currency)
    }
  })

  test('can be limited to those before or after a given time, whatever their number', async () => {
    const all = await readAllPages('', 100)
    for (const index of [0, 1, 333, 998, 999]) {
      const { created_at } = all[index]
      const older = all.filter((each) => each.created_at < created_at)
      const [first] = await transactionsOf(shop, `?before=${created_at}&limit=1`)
      expect(first?.id).toBe(older[0]?.id)
      expect(await readAllPages(`&created_from=${created_at}`, 100)).toEqual(
        all.filter((each) => each.created_at >= created_at),
      )
    }
  })

  test('with the same time are never split between pages', async ({ world }) => {
    const { tenant_id } = (shop = await world.clientOf())
    await world.sql`
      insert into ledger_accounts (tenant_id, currency, name, balance_minor, last_seq, last_at)
      select ${tenant_id}, currency, account, case account when 'available' then 30 else -30 end, 30, '2026-01-30'
      from unnest(${CURRENCIES}::text[]) currency, unnest(array['available', 'processor_clearing']) account`
    await world.sql`
      insert into ledger_transfers (tenant_id, id, kind, subject_id, debit_account, credit_account, currency,
        amount_minor, seq, balance_after_minor, created_at)
      select ${tenant_id}, gen_random_uuid(), 'correction', gen_random_uuid(), 'processor_clearing', 'available',
        currency, 1, n, n, timestamptz '2025-12-31' + n * interval '1 day'
      from unnest(${CURRENCIES}::text[]) currency, generate_series(1, 30) n`
    const transactions = await readAllPages('', 7)
    expect(transactions).toHaveLength(120)
    expect(new Set(transactions.map(({ id }) => id)).size).toBe(120)
  })
})

test('the books balance and agree with the processor after all tests', async ({ world }) => {
  await capturedPayment(world.client, { idempotency_key: freshKey() })
  await world.drain()
  await confirmAllCorrections(world)
  await checkInvariants(world)
})

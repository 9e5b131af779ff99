// The ledger: what happened is posted once, in balance, and never changed.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newId } from '#core/ids.ts'
import { listBalances } from '#domain/ledger.ts'
import { problemsLeft } from '#test/invariants.ts'
import { capturedPayment, eventually, heldPayment, refund } from '#test/payments.ts'
import { createWorld, type World } from '#test/world.ts'

let world: World
beforeAll(async () => (world = await createWorld()))
afterAll(async () => await world?.close())

/** What was posted for a subject: kind, account, currency, amount. */
async function postedFor(subject_id: string): Promise<unknown[][]> {
  const rows = await world.sql`
    select t.kind, e.account, e.currency, e.amount_minor from ledger_transactions t
    join ledger_entries e on e.tenant_id = t.tenant_id and e.transaction_id = t.id
    where t.subject_id = ${subject_id} order by t.created_at, e.account`
  return rows.map(({ kind, account, currency, amount_minor }) => [kind, account, currency, amount_minor])
}

test('a capture, a refund and its failure are posted as they happen, and balances follow', async () => {
  const shop = await world.clientOf()
  const balances = async () =>
    (await listBalances(world.sql, shop.tenant_id)).map(({ currency, name, balance_minor }) => [
      currency,
      name,
      balance_minor,
    ])
  const { id } = await heldPayment(shop, { currency: 'eur', payment_method: 'pm_card_refundFail' })
  expect(await postedFor(id)).toEqual([])
  expect(await balances()).toEqual([])

  await shop.post(`/v1/payments/${id}/capture`, { amount_minor: 900 })
  expect(await postedFor(id)).toEqual([
    ['capture', 'available', 'EUR', 900],
    ['capture', 'processor_clearing', 'EUR', -900],
  ])
  const { body: made } = await refund(shop, id, { amount_minor: 400 })
  expect(await balances()).toEqual([
    ['EUR', 'available', 500],
    ['EUR', 'processor_clearing', -500],
  ])
  await world.stripe('POST', `/_emulator/refunds/${made.processor_reference}/settle`, { status: 'failed' })
  await eventually(async () =>
    expect(await postedFor(made.id)).toEqual([
      ['refund', 'available', 'EUR', -400],
      ['refund', 'processor_clearing', 'EUR', 400],
      ['refund_failed', 'available', 'EUR', 400],
      ['refund_failed', 'processor_clearing', 'EUR', -400],
    ]),
  )
  await capturedPayment(shop, { currency: 'JPY', amount_minor: 70 })
  expect(await balances()).toEqual([
    ['EUR', 'available', 900],
    ['EUR', 'processor_clearing', -900],
    ['JPY', 'available', 70],
    ['JPY', 'processor_clearing', -70],
  ])
})

test('accounts of tenants are apart', async () => {
  const [one, other] = [await world.clientOf(), await world.clientOf()]
  await capturedPayment(one)
  expect(await listBalances(world.sql, other.tenant_id)).toEqual([])
})

test('forty captures at once leave the balance that they add up to', async () => {
  const shop = await world.clientOf()
  await Promise.all(
    Array.from({ length: 40 }, (_, index) => capturedPayment(shop, { amount_minor: 100 + index })),
  )
  const [available] = await listBalances(world.sql, shop.tenant_id)
  expect(available).toMatchObject({ name: 'available', balance_minor: 40 * 100 + (39 * 40) / 2 })
})

describe('what was posted is final', () => {
  test.each(['ledger_transactions', 'ledger_entries'])(
    '%s cannot be changed, removed or emptied',
    async (table) => {
      await capturedPayment(world.client)
      const before = await world.sql`select count(*), sum(hashtext(t::text)) from ${world.sql(table)} t`
      for (const statement of [
        `update ${table} set tenant_id = tenant_id`,
        `update ${table} set ${table === 'ledger_entries' ? 'amount_minor = amount_minor * 2' : "kind = 'correction'"}`,
        `delete from ${table}`,
        `delete from ${table} where tenant_id = '${world.tenant_id}'`,
        `truncate ${table} cascade`,
      ])
        await expect(world.sql.unsafe(statement)).rejects.toMatchObject({
          code: '23001',
          message: expect.stringContaining('append-only'),
        })
      expect(await world.sql`select count(*), sum(hashtext(t::text)) from ${world.sql(table)} t`).toEqual(
        before,
      )
    },
  )
})

describe('the database itself refuses', () => {
  /** Posts a transaction with these entries, as one statement. */
  async function post(
    { kind = 'correction', subject_id = newId() }: { kind?: string; subject_id?: string },
    entries: [account: string, currency: string, amount_minor: number][],
  ): Promise<void> {
    const id = newId()
    const rows = entries.map(([account, currency, amount_minor]) => ({ account, currency, amount_minor }))
    await world.sql`
      with t as (
        insert into ledger_transactions (tenant_id, id, kind, subject_id) values (${world.tenant_id}, ${id}, ${kind}, ${subject_id})
        returning tenant_id, id
      )
      insert into ledger_entries (tenant_id, transaction_id, account, currency, amount_minor)
      select t.tenant_id, t.id, e.account, e.currency, e.amount_minor
      from t, jsonb_to_recordset(${world.sql.json(rows)}) as e(account text, currency text, amount_minor bigint)`
  }

  test.each<[string, [string, string, number][]]>([
    ['one-sided', [['available', 'USD', 100]]],
    [
      'off by one',
      [
        ['available', 'USD', 100],
        ['processor_clearing', 'USD', -99],
      ],
    ],
    [
      'in balance only across currencies',
      [
        ['available', 'USD', 100],
        ['processor_clearing', 'EUR', -100],
      ],
    ],
  ])('a transaction that is %s', async (_, entries) => {
    const before = await listBalances(world.sql, world.tenant_id)
    await expect(post({}, entries)).rejects.toMatchObject({
      code: '23514',
      message: expect.stringContaining('does not sum to zero'),
    })
    expect(await listBalances(world.sql, world.tenant_id)).toEqual(before)
  })

  test('an entry of an account that does not exist, or of nothing', async () => {
    await expect(
      post({}, [
        ['pockets', 'USD', 100],
        ['processor_clearing', 'USD', -100],
      ]),
    ).rejects.toMatchObject({ code: '23514' })
    await expect(post({}, [['available', 'USD', 0]])).rejects.toMatchObject({ code: '23514' })
  })

  test('the same capture twice', async () => {
    const { id } = await capturedPayment(world.client)
    const posted = await postedFor(id)
    await expect(
      post({ kind: 'capture', subject_id: id }, [
        ['available', 'USD', 1000],
        ['processor_clearing', 'USD', -1000],
      ]),
    ).rejects.toMatchObject({ code: '23505', constraint_name: 'ledger_transactions_once' })
    expect(await postedFor(id)).toEqual(posted)
  })

  test('a correction that balances is taken', async () => {
    const subject_id = newId()
    await post({ subject_id }, [
      ['available', 'USD', 5],
      ['fees', 'USD', -5],
    ])
    await post({ subject_id, kind: 'fee' }, [
      ['available', 'USD', -5],
      ['fees', 'USD', 5],
    ])
    expect(await postedFor(subject_id)).toHaveLength(4)
  })
})

test('after all of these stories the books balance and agree with the processor', async () => {
  await world.drain()
  expect(await problemsLeft(world)).toEqual([])
})

// The ledger: each transfer is posted once, in balance, and never changed.
import { describe, expect } from 'vitest'
import { newId } from '#core/ids.ts'
import { listBalances, openingAccounts, postings } from '#domain/ledger.ts'
import { findRemainingProblems } from '#test/invariants.ts'
import { capturedPayment, eventually, authorizedPayment, refund } from '#test/payments.ts'
import { confirmAllCorrections } from '#test/proposals.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn()

type LedgerTransfer = {
  kind: string
  seq: number | null
  balance_after_minor: number | null
  created_at: string
}

/** The transfers of a resource, each with kind, debited account, credited account, currency and amount. */
async function transfersOf(world: World, subject_id: string): Promise<unknown[][]> {
  const rows = await world.sql`
    select kind, debit_account, credit_account, currency, amount_minor from ledger_transfers
    where subject_id = ${subject_id} order by created_at`
  return rows.map((row) => Object.values(row))
}

/** The transfers of a tenant in a currency, in the order of their sequence on the available account. */
async function ledgerOf(world: World, tenant_id: string, currency = 'USD'): Promise<LedgerTransfer[]> {
  return await world.sql<LedgerTransfer[]>`
    select kind, seq, balance_after_minor, created_at from ledger_transfers
    where tenant_id = ${tenant_id} and currency = ${currency} order by seq`
}

async function balancesOf(world: World, tenant_id: string): Promise<unknown[][]> {
  return (await listBalances(world.sql, tenant_id)).map(({ currency, name, balance_minor }) => [
    currency,
    name,
    balance_minor,
  ])
}

test('a capture, a refund and a failed refund are posted and change the balances', async ({ world }) => {
  const shop = await world.clientOf()
  const { id } = await authorizedPayment(shop, { currency: 'eur', payment_method: 'pm_card_refundFail' })
  expect(await transfersOf(world, id)).toEqual([])
  expect(await balancesOf(world, shop.tenant_id)).toEqual([])

  await shop.post(`/v1/payments/${id}/capture`, { amount_minor: 900 })
  expect(await transfersOf(world, id)).toEqual([['capture', 'processor_clearing', 'available', 'EUR', 900]])
  const { body: created } = await refund(shop, id, { amount_minor: 400 })
  expect(await balancesOf(world, shop.tenant_id)).toEqual([
    ['EUR', 'available', 500],
    ['EUR', 'processor_clearing', -500],
  ])
  await world
    .provider('stripe')
    .control('POST', `/refunds/${created.processor_reference}/settle`, { status: 'failed' })
  await eventually(async () =>
    expect(await transfersOf(world, created.id)).toEqual([
      ['refund', 'available', 'processor_clearing', 'EUR', 400],
      ['refund_failed', 'processor_clearing', 'available', 'EUR', 400],
    ]),
  )
  await capturedPayment(shop, { currency: 'JPY', amount_minor: 70 })
  expect(await balancesOf(world, shop.tenant_id)).toEqual([
    ['EUR', 'available', 900],
    ['EUR', 'processor_clearing', -900],
    ['JPY', 'available', 70],
    ['JPY', 'processor_clearing', -70],
  ])
  expect(
    (await ledgerOf(world, shop.tenant_id, 'EUR')).map((row) => [row.kind, row.seq, row.balance_after_minor]),
  ).toEqual([
    ['capture', 1, 900],
    ['refund', 2, 500],
    ['refund_failed', 3, 900],
  ])
})

test('a capture of one tenant leaves the accounts of other tenants unchanged', async ({ world }) => {
  const [one, other] = [await world.clientOf(), await world.clientOf()]
  await capturedPayment(one)
  expect(await listBalances(world.sql, other.tenant_id)).toEqual([])
})

test('forty concurrent first captures add up to the balance, and the balance after each transfer is correct', async ({
  world,
}) => {
  const shop = await world.clientOf()
  await Promise.all(
    Array.from({ length: 40 }, (_, index) => capturedPayment(shop, { amount_minor: 100 + index })),
  )
  const [available] = await listBalances(world.sql, shop.tenant_id)
  expect(available).toMatchObject({ name: 'available', balance_minor: 40 * 100 + (39 * 40) / 2 })
  const posted = await ledgerOf(world, shop.tenant_id)
  expect(posted.map(({ seq }) => seq)).toEqual(posted.map((_, index) => index + 1))
  expect(posted.at(-1)).toMatchObject({ balance_after_minor: available!.balance_minor })
  const times = posted.map(({ created_at }) => created_at)
  expect(times).toEqual([...new Set(times)].toSorted())
})

test('transfers cannot be changed, deleted or truncated', async ({ world }) => {
  await capturedPayment(world.client)
  const rows = async () => await world.sql`select count(*), sum(hashtext(t::text)) from ledger_transfers t`
  const before = await rows()
  for (const statement of [
    `update ledger_transfers set tenant_id = tenant_id`,
    `update ledger_transfers set amount_minor = amount_minor * 2`,
    `update ledger_transfers set kind = 'correction'`,
    `delete from ledger_transfers`,
    `delete from ledger_transfers where tenant_id = '${world.tenant_id}'`,
    `truncate ledger_transfers cascade`,
  ])
    await expect(world.sql.unsafe(statement)).rejects.toMatchObject({
      code: '23001',
      message: expect.stringContaining('append-only'),
    })
  expect(await rows()).toEqual(before)
})

describe('one statement with several transfers', () => {
  type Transfer = { kind: string; subject_id: string; from: string; to: string; amount_minor: number }

  /**
   * Posts transfers in one statement, as the settlement of a job does. Each reservation is a change of an account's
   * reserved amount.
   */
  async function post(
    world: World,
    tenant_id: string,
    transfers: Partial<Transfer>[],
    currency = 'USD',
    reservations?: [account: string, reserved_delta: number][],
  ): Promise<void> {
    const ids = transfers.map(() => newId()).toSorted()
    const rows = transfers.map((transfer, index) => ({
      kind: 'correction',
      subject_id: newId(),
      from: 'processor_clearing',
      to: 'available',
      amount_minor: 100,
      ...transfer,
      transfer_id: ids[index]!,
    }))
    const { sql } = world
    await sql`
      with ${postings(
        sql,
        sql`
        select ${tenant_id}::uuid as tenant_id, transfer_id, kind, subject_id, "from" as debit_account, "to" as credit_account,
          ${currency} as currency, amount_minor
        from jsonb_to_recordset(${sql.json(rows)}) as t(
          transfer_id uuid, kind text, subject_id uuid, "from" text, "to" text, amount_minor bigint)`,
        reservations &&
          sql`
            select ${tenant_id}::uuid as tenant_id, ${currency} as currency, r ->> 0 as account,
              (r ->> 1)::bigint as reserved_delta
            from jsonb_array_elements(${sql.json(reservations)}) r`,
      )}
      select`
  }

  async function shopWith(world: World, ...currencies: string[]): Promise<string> {
    const { tenant_id } = await world.clientOf()
    for (const currency of currencies)
      await openingAccounts(
        world.sql,
        world.sql`select ${tenant_id}::uuid as tenant_id, ${currency} as currency`,
      )
    return tenant_id
  }

  test('updates each account once, and each balance follows from the balance after the previous transfer', async ({
    world,
  }) => {
    const tenant_id = await shopWith(world, 'USD')
    await post(world, tenant_id, [{ amount_minor: 500 }])
    await post(world, tenant_id, [
      { amount_minor: 100 },
      { amount_minor: 40 },
      refundOf(30),
      { amount_minor: 1 },
    ])
    expect((await ledgerOf(world, tenant_id)).map((row) => [row.seq, row.balance_after_minor])).toEqual([
      [1, 500],
      [2, 600],
      [3, 640],
      [4, 610],
      [5, 611],
    ])
    expect(await balancesOf(world, tenant_id)).toEqual([
      ['USD', 'available', 611],
      ['USD', 'processor_clearing', -611],
    ])
  })

  test('leaves reserved amounts unchanged, even if a debit exceeds the balance', async ({ world }) => {
    const tenant_id = await shopWith(world, 'USD')
    await post(world, tenant_id, [{ amount_minor: 500 }])
    const reserve = (amount_minor: number) => world.sql`
      update ledger_accounts set reserved_minor = ${amount_minor} where tenant_id = ${tenant_id} and name = 'available'`
    await reserve(500)
    await post(world, tenant_id, [refundOf(100), refundOf(500)])
    expect((await listBalances(world.sql, tenant_id))[0]).toMatchObject({
      balance_minor: -100,
      reserved_minor: 500,
    })
    await reserve(0)
  })

  test('updates the balance and the reserved amount of each account once', async ({ world }) => {
    const tenant_id = await shopWith(world, 'USD')
    const available = async () => (await listBalances(world.sql, tenant_id))[0]
    await post(world, tenant_id, [{ amount_minor: 500 }], 'USD', [['available', 300]])
    expect(await available()).toMatchObject({ balance_minor: 500, reserved_minor: 300 })
    const [before] = await world.sql`select last_at from ledger_accounts where tenant_id = ${tenant_id}`
    await post(world, tenant_id, [], 'USD', [
      ['available', 40],
      ['available', -20],
    ])
    expect(
      await world.sql`select last_at from ledger_accounts where tenant_id = ${tenant_id}`,
    ).toContainEqual(before)
    // Two payouts: one is paid, and the reserved amount of the other is freed.
    await post(world, tenant_id, [refundOf(120), { amount_minor: 5 }], 'USD', [
      ['available', -120],
      ['available', -200],
    ])
    expect(await available()).toMatchObject({ balance_minor: 385, reserved_minor: 0 })
    expect((await ledgerOf(world, tenant_id)).map((row) => [row.seq, row.balance_after_minor])).toEqual([
      [1, 500],
      [2, 380],
      [3, 385],
    ])
  })

  test('is rolled back if it frees more than the reserved amount', async ({ world }) => {
    const tenant_id = await shopWith(world, 'USD')
    await post(world, tenant_id, [{}], 'USD', [['available', 50]])
    const excess = post(world, tenant_id, [refundOf(60)], 'USD', [['available', -60]])
    await expect(excess).rejects.toMatchObject({ code: '23514' })
    expect((await listBalances(world.sql, tenant_id))[0]).toMatchObject({
      balance_minor: 100,
      reserved_minor: 50,
    })
    await post(world, tenant_id, [], 'USD', [['available', -50]])
  })

  test('is rolled back if it reserves an amount on a missing account', async ({ world }) => {
    const tenant_id = await shopWith(world, 'USD')
    for (const transfers of [[], [{}]])
      await expect(post(world, tenant_id, transfers, 'USD', [['fees', 5]])).rejects.toMatchObject({
        code: '23502',
      })
    await expect(post(world, tenant_id, [], 'EUR', [['available', 5]])).rejects.toMatchObject({
      code: '23502',
    })
    expect([await ledgerOf(world, tenant_id), await balancesOf(world, tenant_id)]).toEqual([[], []])
  })

  test('adds its reservations to those of thirty concurrent statements', async ({ world }) => {
    const tenant_id = await shopWith(world, 'USD')
    await Promise.all(
      Array.from({ length: 30 }, async (_, index) => {
        await post(world, tenant_id, index % 3 === 0 ? [{}] : [], 'USD', [['available', index + 1]])
        if (index % 2 === 0)
          await post(world, tenant_id, [{}, refundOf(30)], 'USD', [['available', -index - 1]])
      }),
    )
    const odd = Array.from({ length: 15 }, (_, index) => 2 * index + 2).reduce((sum, each) => sum + each)
    expect((await listBalances(world.sql, tenant_id))[0]).toMatchObject({
      balance_minor: 10 * 100 + 15 * 70,
      reserved_minor: odd,
    })
    await post(world, tenant_id, [], 'USD', [['available', -odd]])
  })

  test.for([
    ['of another currency', 'EUR', {}],
    ['with another name', 'USD', { from: 'fees' }],
  ] as const)('is rolled back if an account %s does not exist', async ([, currency, transfer], { world }) => {
    const tenant_id = await shopWith(world, 'USD')
    await expect(post(world, tenant_id, [{}, transfer], currency)).rejects.toMatchObject({ code: '23502' })
    expect([await ledgerOf(world, tenant_id), await balancesOf(world, tenant_id)]).toEqual([[], []])
  })

  test('is rolled back if an amount is not positive or both accounts are the same', async ({ world }) => {
    const tenant_id = await shopWith(world, 'USD')
    for (const transfer of [{ amount_minor: 0 }, { amount_minor: -5 }, { from: 'available' }])
      await expect(post(world, tenant_id, [{}, transfer])).rejects.toMatchObject({ code: '23514' })
    expect([await ledgerOf(world, tenant_id), await balancesOf(world, tenant_id)]).toEqual([[], []])
  })

  test('is rolled back if the same capture is already posted', async ({ world }) => {
    const { id } = await capturedPayment(world.client)
    const posted = [await transfersOf(world, id), await balancesOf(world, world.tenant_id)]
    const repetition = post(world, world.tenant_id, [{ kind: 'capture', subject_id: id, amount_minor: 1000 }])
    await expect(repetition).rejects.toMatchObject({
      code: '23505',
      constraint_name: 'ledger_transfers_once',
    })
    expect([await transfersOf(world, id), await balancesOf(world, world.tenant_id)]).toEqual(posted)
  })

  test('adds its amounts to those of thirty concurrent statements on the same accounts', async ({
    world,
  }) => {
    const tenant_id = await shopWith(world, 'EUR', 'USD')
    await Promise.all(
      Array.from({ length: 30 }, async (_, index) =>
        post(
          world,
          tenant_id,
          [{}, refundOf(30), { amount_minor: index + 1 }],
          index % 2 === 0 ? 'EUR' : 'USD',
        ),
      ),
    )
    for (const currency of ['EUR', 'USD'])
      expect((await ledgerOf(world, tenant_id, currency)).map(({ seq }) => seq)).toEqual(
        Array.from({ length: 45 }, (_, index) => index + 1),
      )
  })

  function refundOf(amount_minor: number): Partial<Transfer> {
    return { from: 'available', to: 'processor_clearing', amount_minor }
  }
})

test('after all tests of this file the books balance and agree with the processor', async ({ world }) => {
  await world.drain()
  await confirmAllCorrections(world)
  expect(await findRemainingProblems(world)).toEqual([])
})

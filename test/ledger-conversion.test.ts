// Migration 0015 on a database with books of the version before: pairs of entries become transfers, or nothing changes.
import { readdir, readFile } from 'node:fs/promises'
import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { createDatabase } from '#test/databases.ts'

const FOLDER = new URL('../migrations/', import.meta.url)
const CONVERSION = '0015_ledger_transfers.sql'
const TENANT = '0198e1f0-0000-7000-8000-000000000001'
const id = (n: number) => `0198e1f0-0000-7000-8000-${String(n).padStart(12, '0')}`

let database: Awaited<ReturnType<typeof createDatabase>>
let sql: postgres.Sql
beforeAll(async () => (database = await createDatabase()))
afterAll(async () => await database?.drop())
// Each story has a schema of its own, as it was before.
beforeEach(async () => {
  sql = postgres(database.url, { max: 1, onnotice: () => {}, connection: { search_path: 'past' } })
  await sql`create schema past`
  for (const name of (await readdir(FOLDER)).filter((each) => /^\d{4}_/.test(each)).sort())
    if (name < CONVERSION) await apply(name)
})
afterEach(async () => {
  await sql?.unsafe('drop schema past cascade')
  await sql?.end()
})

async function apply(name: string): Promise<void> {
  const text = await readFile(new URL(name, FOLDER), 'utf8')
  await sql.begin((tx) => tx.unsafe(text))
}

/** Posts as the version before did. */
async function post(n: number, kind: string, currency: string, entries: Record<string, number>, at = n) {
  await sql.begin(async (tx) => {
    await tx`
      insert into ledger_transactions (tenant_id, id, kind, subject_id, created_at)
      values (${TENANT}, ${id(n)}, ${kind}, ${id(100 + n)}, ${new Date(at * 1000)})`
    const rows = Object.entries(entries).map(([account, amount_minor]) => ({ account, amount_minor }))
    await tx`
      insert into ledger_entries (tenant_id, transaction_id, account, currency, amount_minor)
      select ${TENANT}, ${id(n)}, account, ${currency}, amount_minor
      from jsonb_to_recordset(${tx.json(rows)}) as e(account text, amount_minor bigint)`
  })
}

test('old entries become transfers in the same order and with the same balances', async () => {
  await post(1, 'capture', 'USD', { available: 1000, processor_clearing: -1000 }, 20)
  await post(2, 'capture', 'EUR', { available: 70, processor_clearing: -70 })
  await post(3, 'capture', 'USD', { available: 500, processor_clearing: -500 }, 10)
  await post(4, 'refund', 'USD', { available: -300, processor_clearing: 300 }, 30)
  await post(5, 'fee', 'USD', { processor_clearing: -5, fees: 5 }, 40)
  const accounts = () =>
    sql`select currency, name, balance_minor from ledger_accounts order by currency, name`.values()
  const before = [...(await accounts())]
  await sql`
    insert into payments (tenant_id, id, idempotency_key, amount_minor, currency, method, processor)
    values (${TENANT}, ${id(9)}, 'x', 1, 'CHF', 'card', 'stripe')`

  await apply(CONVERSION)
  const transfers = await sql`
    select id, kind, debit_account, credit_account, currency, amount_minor, seq, balance_after_minor
    from ledger_transfers order by currency, seq`.values()
  expect([...transfers]).toEqual([
    [id(2), 'capture', 'processor_clearing', 'available', 'EUR', '70', '1', '70'],
    [id(3), 'capture', 'processor_clearing', 'available', 'USD', '500', '1', '500'],
    [id(1), 'capture', 'processor_clearing', 'available', 'USD', '1000', '2', '1500'],
    [id(4), 'refund', 'available', 'processor_clearing', 'USD', '300', '3', '1200'],
    [id(5), 'fee', 'processor_clearing', 'fees', 'USD', '5', null, null],
  ])
  // What is under way has its accounts.
  expect([...(await accounts())]).toEqual([
    ['CHF', 'available', '0'],
    ['CHF', 'processor_clearing', '0'],
    ...before,
  ])
  const counts = await sql`select last_seq, last_at from ledger_accounts where currency = 'USD' order by name`
  expect(counts.map((row) => [row['last_seq'], row['last_at'].getTime()])).toEqual([
    ['3', 30_000],
    ['1', 40_000],
    ['4', 40_000],
  ])
})

test('books that do not balance are refused and left unchanged', async () => {
  await post(1, 'capture', 'USD', { available: 1000, processor_clearing: -1000 })
  const text = await readFile(new URL(CONVERSION, FOLDER), 'utf8')
  for (const [problem, harm] of [
    ['is not a pair of entries that balance', `update ledger_entries set amount_minor = amount_minor + 1`],
    ['is not a pair of entries that balance', `delete from ledger_entries where account = 'available'`],
    ['which does not exist', `delete from ledger_transactions`],
    ['is not the sum of its entries', `update ledger_accounts set balance_minor = balance_minor + 1`],
  ] as const)
    await expect(
      sql.begin(async (tx) => {
        await tx`set local session_replication_role = replica`
        await tx.unsafe(harm)
        await tx.unsafe(text)
      }),
    ).rejects.toThrow(problem)
  expect(await sql`select to_regclass('ledger_transfers') as made`).toEqual([{ made: null }])
  expect(await sql`select from ledger_entries`).toHaveLength(2)
})

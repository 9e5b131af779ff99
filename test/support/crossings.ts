// Statements that wait for a row lock while another transaction changes the row. The result of such a statement must be
// the same as if the statement began after that transaction, and must violate no constraint.
import { isDeepStrictEqual } from 'node:util'
import { expect } from 'vitest'
import type { Json, Sql, Tx } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { eventually } from './payments.ts'

/** A row under test, alone in its tenant, with a leased job. */
export type CrossedRow = {
  tenant_id: string
  id: string
  job_id: string
  lease_token: string
  /** Ids of other rows that this row needs, by name. */
  others: Record<string, string>
}

export type Crossing = {
  table: string
  /** Inserts a row and the rows that the row needs. */
  make: (sql: Sql, ids: { tenant_id: string; id: string }) => Promise<Record<string, string>>
  /**
   * States of a row that the constraints allow: for each state, the column values that differ from the inserted values.
   */
  states: Record<string, Record<string, Json>>
  /** States that a row never leaves. */
  final?: string[]
  /** Columns that no statement changes. */
  fixed: string[]
  /** Statements that change the row. `refuses`: the statement may refuse a row without waiting for the row's lock. */
  steps: Record<string, { run: (sql: Sql, row: CrossedRow) => Promise<unknown>; refuses?: boolean }>
}

/** The count of rows that one transaction changes. */
const BATCH_SIZE = 8

/** All pairs of two different states, except pairs that begin with a final state. */
function changesOf({ states, final = [] }: Crossing): { from: string; to: string }[] {
  const names = Object.keys(states)
  return names
    .filter((name) => !final.includes(name))
    .flatMap((from) => names.filter((to) => to !== from).map((to) => ({ from, to })))
}

/**
 * Columns of the table that statements may change. The states of a crossing must contain two different values of each
 * of these columns.
 */
export async function changingColumns(sql: Sql, { table, fixed }: Crossing): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select attname as name from pg_attribute
    where attrelid = ${table}::regclass and attnum > 0 and not attisdropped and attgenerated = ''
      and attname not in ('tenant_id', 'id', 'created_at', 'updated_at')`
  return rows.map(({ name }) => name).filter((name) => !fixed.includes(name))
}

/**
 * Runs a step on rows that change while the step waits for their locks. Returns, for each change, the result of the
 * step and the allowed result: the result after the change, or the result before the change if the step may refuse.
 */
export async function crossingsOf(
  sql: Sql,
  crossing: Crossing,
  step: string,
): Promise<{ change: string; crossed: unknown; allowed: unknown }[]> {
  const { run, refuses = false } = crossing.steps[step]!
  const changes = changesOf(crossing)
  const found = []
  for (let first = 0; first < changes.length; first += BATCH_SIZE) {
    const batch = changes.slice(first, first + BATCH_SIZE)
    const orders = refuses ? 3 : 2
    const rows = await Promise.all(
      Array.from({ length: orders }, () =>
        insertRows(
          sql,
          crossing,
          batch.map(({ from }) => crossing.states[from]!),
        ),
      ),
    )
    const states = batch.map(({ to }) => crossing.states[to]!)
    const [together, after, before] = rows
    const results: unknown[][] = []
    results[0] = await crossed(sql, crossing, together!, states, run)
    await sql.begin(async (tx) => await updateRows(tx, crossing, after!, states))
    results[1] = await Promise.all(after!.map((row) => resultOf(run(sql, row))))
    if (before !== undefined) {
      results[2] = await Promise.all(before.map((row) => resultOf(run(sql, row))))
      await sql.begin(async (tx) => await updateRows(tx, crossing, before, states))
    }
    const ends = await endsOf(sql, rows.flat())
    for (const [nth, { from, to }] of batch.entries()) {
      const [outcome, later, earlier] = rows.map((each, order) => ({
        result: results[order]![nth],
        rows: ends.get(each[nth]!.tenant_id),
      }))
      const allowed = isDeepStrictEqual(outcome, earlier) ? earlier : later
      found.push({ change: `${from} -> ${to}`, crossed: outcome, allowed })
    }
  }
  return found
}

async function crossed(
  sql: Sql,
  crossing: Crossing,
  rows: CrossedRow[],
  states: Record<string, Json>[],
  run: (sql: Sql, row: CrossedRow) => Promise<unknown>,
): Promise<unknown[]> {
  const running: Promise<unknown>[] = []
  await sql.begin(async (tx) => {
    await updateRows(tx, crossing, rows, states)
    let ended = 0
    for (const row of rows) running.push(resultOf(run(sql, row)).finally(() => (ended += 1)))
    await eventually(async () => {
      const waiting = await tx`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      expect(waiting.length + ended).toBe(rows.length)
    })
  })
  return await Promise.all(running)
}

async function resultOf(running: Promise<unknown>): Promise<unknown> {
  return await running.then(normal, (error: Error) => ({ error: error.message }))
}

/** Inserts a row in each of the states, each in a tenant of its own. */
async function insertRows(
  sql: Sql,
  crossing: Crossing,
  states: Record<string, Json>[],
): Promise<CrossedRow[]> {
  const ids = states.map(() => ({
    tenant_id: newId(),
    id: newId(),
    job_id: newId(),
    lease_token: newId(),
  }))
  // The amounts are sufficient for anything that a step posts or releases.
  await sql`
    with row as (
      select * from jsonb_to_recordset(${sql.json(ids)}) as r(tenant_id uuid, id uuid, job_id uuid, lease_token uuid)
    ), tenant as (
      insert into tenants (id, slug, name) select tenant_id, tenant_id, 'crossed' from row
    ), account as (
      insert into ledger_accounts (tenant_id, currency, name, balance_minor, reserved_minor)
      select tenant_id, 'USD', 'available', 1000000, 100000 from row
      union all
      select tenant_id, 'USD', 'processor_clearing', 0, 0 from row
    )
    insert into jobs (id, tenant_id, queue, name, resource_id, payload, state, attempt, max_attempts, worker, started_at,
      lease_token, lease_until)
    select job_id, tenant_id, 'payments', 'test', id, '{}', 'running', 1, 5, 'test', now(), lease_token,
      now() + interval '1 hour' from row`
  const rows = await Promise.all(ids.map(async (row) => ({ ...row, others: await crossing.make(sql, row) })))
  await updateRows(sql, crossing, rows, states)
  return rows
}

/** The default of each column that has one, by table: they are the same in all databases of a run. */
const defaults_of: Record<string, Promise<Map<string, string>>> = {}

async function findDefaults(sql: Sql | Tx, table: string): Promise<Map<string, string>> {
  const rows = await sql<{ name: string; value: string }[]>`
    select attname as name, pg_get_expr(adbin, adrelid) as value from pg_attrdef
    join pg_attribute on attrelid = adrelid and attnum = adnum
    where adrelid = ${table}::regclass and attgenerated = ''`
  return new Map(rows.map(({ name, value }) => [name, value]))
}

async function updateRows(
  sql: Sql | Tx,
  { table, states }: Crossing,
  rows: CrossedRow[],
  to: Record<string, Json>[],
): Promise<void> {
  const names = [...new Set(Object.values(states).flatMap((state) => Object.keys(state)))]
  const items = rows.map(({ tenant_id, id }, nth) => {
    const of_state = Object.fromEntries(names.map((name) => [name, to[nth]![name] ?? null]))
    // References are unique in the whole table.
    for (const name of ['processor_reference', 'provider_reference'])
      if (typeof of_state[name] === 'string') of_state[name] = `${of_state[name]}_${id}`
    return { tenant_id, id, ...of_state }
  })
  const columns = names.map((name) => `"${name}"`).join(', ')
  const defaults = (defaults_of[table] ??= findDefaults(sql, table))
  const values = await defaults
  const valueOf = (name: string) => {
    const value = values.get(name)
    return value === undefined ? `n."${name}"` : `coalesce(n."${name}", ${value})`
  }
  await sql.unsafe(
    `update ${table} t set (${columns}) = row(${names.map(valueOf).join(', ')})
     from jsonb_populate_recordset(null::${table}, $1) n where t.tenant_id = n.tenant_id and t.id = n.id`,
    [items as never],
  )
}

let names_of_tables: Promise<string[]> | undefined

/** The tables with rows of tenants. */
async function findTables(sql: Sql): Promise<string[]> {
  const tables = await sql<{ name: string }[]>`
    select c.oid::regclass::text as name from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and a.attname = 'tenant_id' and not a.attisdropped`
  return tables.map(({ name }) => name)
}

/** All rows of the tenants; ids and current times are replaced by fixed texts. The times of the states are kept. */
async function endsOf(sql: Sql, crossed: CrossedRow[]): Promise<Map<string, string[]>> {
  const tables = await (names_of_tables ??= findTables(sql))
  const rows = await sql.unsafe<{ name: string; tenant_id: string; row: Record<string, Json> }[]>(
    tables
      .map(
        (name) =>
          `select '${name}' as name, tenant_id, to_jsonb(t) as row from ${name} t where tenant_id = any($1::uuid[])`,
      )
      .join(' union all '),
    [crossed.map(({ tenant_id }) => tenant_id)],
    { prepare: true },
  )
  return new Map(
    [...Map.groupBy(rows, ({ tenant_id }) => tenant_id)].map(([tenant_id, own]) => [
      tenant_id,
      own.map(({ name, row }) => `${name} ${JSON.stringify(normal(row))}`).toSorted(),
    ]),
  )
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g
const TIMESTAMP = /\b20[2-9]\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:\+\d\d(?::\d\d)?|Z)?/g

function normal(value: unknown): unknown {
  const plain = value instanceof Set ? [...value] : value instanceof Map ? [...value] : value
  return JSON.parse(
    JSON.stringify(plain ?? null)
      .replaceAll(UUID, 'an id')
      .replaceAll(TIMESTAMP, 'now'),
  )
}

// Statements that wait for a row lock while another transaction changes the row. Their result must be the same as after
// that transaction, without a constraint violation.
import { isDeepStrictEqual } from 'node:util'
import { expect } from 'vitest'
import type { Json, Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { eventually } from './payments.ts'

/** A row under test, alone in its tenant, with a leased job. */
export type CrossedRow = {
  tenant_id: string
  id: string
  job_id: string
  lease_token: string
  /** Ids of other rows that it needs, by name. */
  others: Record<string, string>
}

export type Crossing = {
  table: string
  /** Inserts a row and the rows that it needs. */
  make: (sql: Sql, ids: { tenant_id: string; id: string }) => Promise<Record<string, string>>
  /** States that the constraints allow: the values of each state in addition to the inserted ones. */
  states: Record<string, Record<string, Json>>
  /** States that a row never leaves. */
  final?: string[]
  /** Columns that no statement changes. */
  fixed: string[]
  /** Statements with their results. `refuses`: the statement may refuse a row without waiting for its lock. */
  steps: Record<string, { run: (sql: Sql, row: CrossedRow) => Promise<unknown>; refuses?: boolean }>
}

/** Rows that one transaction changes. */
const BATCH_SIZE = 8

/** All pairs of two different states, except from final ones. */
function changesOf({ states, final = [] }: Crossing): { from: string; to: string }[] {
  const names = Object.keys(states)
  return names
    .filter((name) => !final.includes(name))
    .flatMap((from) => names.filter((to) => to !== from).map((to) => ({ from, to })))
}

/** Columns of the table that may change. Each must differ between two of the states. */
export async function changingColumns(sql: Sql, { table, fixed }: Crossing): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select attname as name from pg_attribute
    where attrelid = ${table}::regclass and attnum > 0 and not attisdropped and attgenerated = ''
      and attname not in ('tenant_id', 'id', 'created_at', 'updated_at')`
  return rows.map(({ name }) => name).filter((name) => !fixed.includes(name))
}

/**
 * Runs a step on rows that change while it waits for their locks. Returns its result and the allowed one: the result
 * after the change, or before it if the step may refuse.
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
        Promise.all(batch.map(({ from }) => makeRow(sql, crossing, crossing.states[from]!))),
      ),
    )
    const states = batch.map(({ to }) => crossing.states[to]!)
    const [together, after, before] = rows
    const results: unknown[][] = []
    results[0] = await crossed(sql, crossing, together!, states, run)
    await sql.begin(async (tx) => await changeAll(tx, crossing, after!, states))
    results[1] = await Promise.all(after!.map((row) => resultOf(run(sql, row))))
    if (before !== undefined) {
      results[2] = await Promise.all(before.map((row) => resultOf(run(sql, row))))
      await sql.begin(async (tx) => await changeAll(tx, crossing, before, states))
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
    await changeAll(tx, crossing, rows, states)
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

async function makeRow(sql: Sql, crossing: Crossing, state: Record<string, Json>): Promise<CrossedRow> {
  const [tenant_id, id, job_id, lease_token] = [newId(), newId(), newId(), newId()]
  await sql`insert into tenants (id, slug, name) values (${tenant_id}, ${tenant_id}, 'crossed')`
  // Enough for anything that a step posts or releases.
  await sql`
    insert into ledger_accounts (tenant_id, currency, name, balance_minor, reserved_minor)
    values (${tenant_id}, 'USD', 'available', 1000000, 100000), (${tenant_id}, 'USD', 'processor_clearing', 0, 0)`
  const others = await crossing.make(sql, { tenant_id, id })
  await changeAll(sql, crossing, [{ tenant_id, id, job_id, lease_token, others }], [state])
  await sql`
    insert into jobs (id, tenant_id, queue, name, subject_id, payload, state, attempt, max_attempts, worker, started_at,
      lease_token, lease_until)
    values (${job_id}, ${tenant_id}, 'payments', 'test', ${id}, '{}', 'running', 1, 5, 'test', now(), ${lease_token},
      now() + interval '1 hour')`
  return { tenant_id, id, job_id, lease_token, others }
}

async function changeAll(
  sql: Sql | Parameters<Parameters<Sql['begin']>[1]>[0],
  { table, states }: Crossing,
  rows: CrossedRow[],
  to: Record<string, Json>[],
): Promise<void> {
  const names = [...new Set(Object.values(states).flatMap((state) => Object.keys(state)))]
  const items = rows.map(({ tenant_id, id }, nth) => {
    const of_state = Object.fromEntries(names.map((name) => [name, to[nth]![name] ?? null]))
    // References are unique across all rows.
    for (const name of ['processor_reference', 'provider_reference'])
      if (typeof of_state[name] === 'string') of_state[name] = `${of_state[name]}_${id}`
    return { tenant_id, id, ...of_state }
  })
  const columns = names.map((name) => `"${name}"`).join(', ')
  const defaults = await sql<{ name: string; value: string }[]>`
    select attname as name, pg_get_expr(adbin, adrelid) as value from pg_attrdef
    join pg_attribute on attrelid = adrelid and attnum = adnum
    where adrelid = ${table}::regclass and attname = any(${names}::text[]) and attgenerated = ''`
  const valueOf = (name: string) => {
    const value = defaults.find((each) => each.name === name)?.value
    return value === undefined ? `n."${name}"` : `coalesce(n."${name}", ${value})`
  }
  await sql.unsafe(
    `update ${table} t set (${columns}) = row(${names.map(valueOf).join(', ')})
     from jsonb_populate_recordset(null::${table}, $1) n where t.tenant_id = n.tenant_id and t.id = n.id`,
    [items as never],
  )
}

/** All rows of the tenants, with ids and current times replaced. Times of the states stay. */
async function endsOf(sql: Sql, crossed: CrossedRow[]): Promise<Map<string, string[]>> {
  const tables = await sql<{ name: string }[]>`
    select c.oid::regclass::text as name from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and a.attname = 'tenant_id' and not a.attisdropped`
  const rows = await sql.unsafe<{ name: string; tenant_id: string; row: Record<string, Json> }[]>(
    tables
      .map(
        ({ name }) =>
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
const NOW = /\b20[2-9]\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:\+\d\d(?::\d\d)?|Z)?/g

function normal(value: unknown): unknown {
  const plain = value instanceof Set ? [...value] : value instanceof Map ? [...value] : value
  return JSON.parse(
    JSON.stringify(plain ?? null)
      .replaceAll(UUID, 'an id')
      .replaceAll(NOW, 'now'),
  )
}

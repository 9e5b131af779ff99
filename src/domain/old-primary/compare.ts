// Compares the old primary with the database in use: what the old one has and the database in use lacks.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { resourceOf } from '../resources.ts'
import {
  COMPARED_RESOURCES,
  PEOPLE_KINDS,
  readAuditEntries,
  readPeople,
  readRequests,
  readResources,
  type OldRequest,
  type OldRow,
} from './rows.ts'

export type LackingKind =
  | (typeof COMPARED_RESOURCES)[number]
  | (typeof PEOPLE_KINDS)[number]
  | 'request'
  | 'audit_entry'
/** Compared rows of one kind, and those of them that the database in use lacks. */
export type ComparedBatch = { kind: LackingKind; compared: number } & (
  | { lacking: OldRow[] }
  | { requests: OldRequest[] }
)

/**
 * Compares what the old primary got since then, in bounded batches: requests first. Errors of the old primary are
 * turned by `explain`.
 */
export async function* compareWithOld(
  sql: Sql,
  old: Sql,
  since: string,
  explain: (error: unknown) => unknown,
): AsyncGenerator<ComparedBatch> {
  const read = <Row>(batches: AsyncIterable<Row[]>) => explaining(batches, explain)
  for await (const rows of read(readRequests(old, since))) {
    const is_here = sql`
      select from idempotency_keys r where r.tenant_id = a.tenant_id and r.key = a.key and r.scope = a.what`
    yield { kind: 'request', compared: rows.length, requests: await lacking(sql, rows, is_here) }
  }
  for (const kind of COMPARED_RESOURCES) {
    const is_here = sql`
      select from ${sql(resourceOf(kind).table)} r where r.tenant_id = a.tenant_id and r.id = a.id::uuid`
    for await (const rows of read(readResources(old, kind, since)))
      yield { kind, compared: rows.length, lacking: await lacking(sql, rows, is_here) }
  }
  const people: Record<(typeof PEOPLE_KINDS)[number], Fragment> = {
    tenant: sql`select from tenants r where r.id = a.id::uuid`,
    user: sql`select from users r where r.id = a.id::uuid`,
    api_key: sql`select from api_keys r where r.tenant_id = a.tenant_id and r.id = a.id::uuid`,
    // A key that does not exist here is not valid either.
    revoked_api_key: sql`
      select where not exists (
        select from api_keys r where r.tenant_id = a.tenant_id and r.id = a.id::uuid and r.revoked_at is null)`,
  }
  for (const kind of PEOPLE_KINDS)
    for await (const rows of read(readPeople(old, kind, since)))
      yield { kind, compared: rows.length, lacking: await lacking(sql, rows, people[kind]) }
  const is_entry = sql`
    select from audit_entries r where r.seq = a.id::bigint and encode(r.hash, 'hex') = a.reference`
  for await (const rows of read(readAuditEntries(old, since)))
    yield { kind: 'audit_entry', compared: rows.length, lacking: await lacking(sql, rows, is_entry) }
}

/** The same batches, with errors of their source turned by `explain`. */
async function* explaining<Row>(
  batches: AsyncIterable<Row[]>,
  explain: (error: unknown) => unknown,
): AsyncGenerator<Row[]> {
  const source = batches[Symbol.asyncIterator]()
  for (;;) {
    const next = await source.next().catch((error: unknown) => {
      throw explain(error)
    })
    if (next.done === true) return
    yield next.value
  }
}

/** The rows `a` for which `is_here` selects nothing. */
async function lacking<Row extends OldRow>(sql: Sql, rows: Row[], is_here: Fragment): Promise<Row[]> {
  if (rows.length === 0) return []
  const keys = rows.map(({ tenant_id, id, key, what, reference }, nth) => ({
    nth,
    tenant_id,
    id,
    key,
    what,
    reference,
  }))
  const found = await sql<{ nth: number }[]>`
    select a.nth from jsonb_to_recordset(${sql.json(keys)}) as a(
      nth integer, tenant_id uuid, id text, key text, what text, reference text)
    where not exists (${is_here} offset 0) order by a.nth`
  return found.map(({ nth }) => rows[nth]!)
}

/** What identifies a database and its server. */
export async function identifyDatabase(sql: Sql | Tx): Promise<{ installation: string; server: string }> {
  const [row] = await sql<{ installation: string; server: string }[]>`
    select i.id as installation,
      concat_ws(' ', system_identifier, pg_postmaster_start_time(), current_database()) as server
    from installation i, pg_control_system()`
  return row!
}

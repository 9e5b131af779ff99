// Creates, updates and archives recipients and merchants. An archived row remains, because other rows refer to it.
import type { z } from 'zod'
import { columnList, type Fragment, type Json, type Sql } from '#core/db.ts'
import { insertingEvents, type EventType } from './events.ts'
import {
  findByKeys,
  isKeyUsed,
  keyColumns,
  storingKeys,
  type IdempotentRequest,
  type KeyedResource,
  type KeyOnRoute,
} from './idempotency.ts'
import { createdWithin, type ListPage } from './pages.ts'
import { resourceOf, type ResourceName, type RESOURCES } from './resources.ts'
import { cancelLateVerification, cancelingVerification } from './verifications/cancel.ts'

type RowOf<N extends ResourceName> = z.output<(typeof RESOURCES)[N]['view']>

/** The columns that are set on creation and never change. */
const IMMUTABLE_COLUMNS = {
  recipient: ['type', 'currency', 'country', 'destination'],
  merchant: [],
} as const satisfies { [N in RecordResource]: (keyof RowOf<N>)[] }

/** The columns that an update may change. */
const MUTABLE_COLUMNS = {
  recipient: ['name', 'email', 'metadata'],
  merchant: ['legal_name', 'display_name', 'country', 'support_email', 'url', 'metadata'],
} as const satisfies { [N in ResourceName]?: (keyof RowOf<N>)[] }

export type RecordResource = keyof typeof MUTABLE_COLUMNS
/** A record as answers show it. */
export type RecordOf<N extends RecordResource> = RowOf<N>
type ImmutableFields<N extends RecordResource> = Pick<
  RecordOf<N>,
  (typeof IMMUTABLE_COLUMNS)[N][number] & keyof RecordOf<N>
>
type MutableFields<N extends RecordResource> = Pick<
  RecordOf<N>,
  (typeof MUTABLE_COLUMNS)[N][number] & keyof RecordOf<N>
>
/** Values by column name. */
type Columns = Readonly<Record<string, Json | undefined>>

type RecordKey = { tenant_id: string; id: string }

/**
 * Creates a record. Returns `key_used` when the key was used before. Throws a unique violation, and writes nothing,
 * when another request uses the key at the same time.
 */
export async function createRecord<N extends RecordResource>(
  sql: Sql,
  resource: N,
  request: IdempotentRequest & RecordKey & { event_id: string },
  columns: ImmutableFields<N> & MutableFields<N> & Columns,
): Promise<RecordOf<N> | 'key_used'> {
  const table = sql(resourceOf(resource).table)
  const names = [...IMMUTABLE_COLUMNS[resource], ...mutableExceptMetadata(resource)]
  const keys = sql`select a.*, a.id as resource_id, null::uuid as job_id from accepted a join r using (tenant_id, id)`
  const [row] = await sql<RecordOf<N>[]>`
    with accepted as (
      select * from jsonb_to_recordset(${sql.json([request])}) as a(
        ${keyColumns(sql)}, tenant_id uuid, id uuid, event_id uuid)
      where not ${isKeyUsed(sql, resource)}
    ), r as (
      insert into ${table} (tenant_id, id, idempotency_key, ${columnList(sql, names)}, metadata)
      select a.tenant_id, a.id, a.idempotency_key, ${qualifiedColumns(sql, 'n', names)}, coalesce(n.metadata, 'null')
      from accepted a cross join jsonb_populate_record(null::${table}, ${sql.json(columns)}) n
      returning *
    ),
    stored_keys as (${storingKeys(sql, resource, keys)}),
    event as (${insertingRecordEvent(sql, resource, 'created', request.event_id)})
    select ${recordColumns(sql, resource)} from r`
  return row ?? 'key_used'
}

/**
 * Updates the columns in `changes`. Equal values change nothing and create no event. Undefined when there is no such
 * record. Archived records can be updated too.
 */
export async function updateRecord<N extends RecordResource>(
  sql: Sql,
  resource: N,
  { tenant_id, id }: RecordKey,
  event_id: string,
  changes: Partial<MutableFields<N>> & Columns,
): Promise<RecordOf<N> | undefined> {
  const names = mutableExceptMetadata(resource)
  const changes_json = sql.json(changes)
  const [row] = await sql<RecordOf<N>[]>`
    with r as (
      -- Absent columns keep the values of the locked row.
      update ${sql(resourceOf(resource).table)} r set (updated_at, metadata, ${columnList(sql, names)}) = (
        select clock_timestamp(), coalesce(n.metadata, 'null'), ${qualifiedColumns(sql, 'n', names)}
        from jsonb_populate_record(r, ${changes_json}) n)
      where r.tenant_id = ${tenant_id} and r.id = ${id} and to_jsonb(r) || ${changes_json}::jsonb <> to_jsonb(r)
      returning r.*
    ),
    event as (${insertingRecordEvent(sql, resource, 'updated', event_id)})
    select ${recordColumns(sql, resource)} from r`
  return row ?? (await findRecord(sql, resource, { tenant_id, id }))
}

/** Archives a record and cancels its open verification. Idempotent. Undefined when there is no such record. */
export async function archiveRecord<N extends RecordResource>(
  sql: Sql,
  resource: N,
  { tenant_id, id }: RecordKey,
  event_id: string,
): Promise<RecordOf<N> | undefined> {
  const subject = { tenant_id, subject_type: resource, subject_id: id }
  const [row] = await sql<RecordOf<N>[]>`
    with ${cancelingVerification(sql, subject)},
    r as (
      update ${sql(resourceOf(resource).table)} r set archived_at = clock_timestamp(), updated_at = clock_timestamp()
      from (select count(*) from open_verification) first
      where r.tenant_id = ${tenant_id} and r.id = ${id} and r.archived_at is null
      returning r.*
    ),
    event as (${insertingRecordEvent(sql, resource, 'archived', event_id)})
    select ${recordColumns(sql, resource)} from r`
  await cancelLateVerification(sql, subject)
  return row ?? (await findRecord(sql, resource, { tenant_id, id }))
}

/** One record, archived or not; undefined when there is none. */
export async function findRecord<N extends RecordResource>(
  sql: Sql,
  resource: N,
  { tenant_id, id }: RecordKey,
): Promise<RecordOf<N> | undefined> {
  const [row] = await sql<RecordOf<N>[]>`
    select ${recordColumns(sql, resource)} from ${sql(resourceOf(resource).table)}
    where tenant_id = ${tenant_id} and id = ${id}`
  return row
}

/** The record that was created with this key, or undefined. */
export async function findRecordByKey<N extends RecordResource>(
  sql: Sql,
  resource: N,
  key: KeyOnRoute,
): Promise<KeyedResource<RecordOf<N>> | undefined> {
  const [found] = await findByKeys<RecordOf<N>>(sql, resource, recordColumns(sql, resource), [key])
  return found
}

/** A page of archived records, or of records that are not archived. */
export type RecordPage = ListPage & { archived: boolean }

/** The records of a tenant that fulfill the condition `matching`, newest first. */
export async function listRecords<N extends RecordResource>(
  sql: Sql,
  resource: N,
  tenant_id: string,
  { archived, ...page }: RecordPage,
  matching: Fragment = sql``,
): Promise<RecordOf<N>[]> {
  return await sql<RecordOf<N>[]>`
    select ${recordColumns(sql, resource)} from ${sql(resourceOf(resource).table)}
    where tenant_id = ${tenant_id} and ${createdWithin(sql, page)}
      and archived_at is ${archived ? sql`not null` : sql`null`} ${matching}
    order by created_at desc limit ${page.limit}`
}

function mutableExceptMetadata(resource: RecordResource): string[] {
  return MUTABLE_COLUMNS[resource].filter((name) => name !== 'metadata')
}

/** The columns of a record in answers. */
export function recordColumns(sql: Sql, resource: RecordResource): Fragment {
  return columnList(sql, Object.keys(resourceOf(resource).view.shape))
}

function qualifiedColumns(sql: Sql, row: string, names: readonly string[]): Fragment {
  return columnList(
    sql,
    names.map((name) => `${row}.${name}`),
  )
}

/** The event of the row `r`. */
function insertingRecordEvent(
  sql: Sql,
  resource: RecordResource,
  event_name: 'created' | 'updated' | 'archived',
  event_id: string,
): Fragment {
  const type = `${resource}.${event_name}` satisfies EventType
  return insertingEvents(
    sql,
    resource,
    sql`select r.*, ${event_id}::uuid as event_id, ${type} as event from r`,
  )
}

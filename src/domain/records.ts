// Creates, changes and archives rows of the nouns that no job works on. An archived row stays: others name it.
import type { z } from 'zod'
import { columnList, type Fragment, type Json, type Sql } from '#core/db.ts'
import { announce, type EventType } from './events.ts'
import {
  findProtected,
  isKnown,
  keyColumns,
  remember,
  type IdempotentRequest,
  type Protected,
  type SentKey,
} from './idempotency.ts'
import { createdWithin, type ListPage } from './pages.ts'
import { subjectOf, type Noun, type SUBJECTS } from './subjects.ts'
import { cancelLateVerification, cancelOpenVerification } from './verifications/cancel.ts'

type RowOf<N extends Noun> = z.output<(typeof SUBJECTS)[N]['view']>

/** The columns that are given when a row is created and never change. */
const FIXED = {
  recipient: ['type', 'currency', 'country', 'destination'],
  merchant: [],
} as const satisfies { [N in RecordNoun]: (keyof RowOf<N>)[] }

/** The columns that may change, in the order of the row. */
const CHANGEABLE = {
  recipient: ['name', 'email', 'metadata'],
  merchant: ['legal_name', 'display_name', 'country', 'support_email', 'url', 'metadata'],
} as const satisfies { [N in Noun]?: (keyof RowOf<N>)[] }

export type RecordNoun = keyof typeof CHANGEABLE
/** A row of such a noun, as answers show it. */
export type RecordOf<N extends RecordNoun> = RowOf<N>
type Fixed<N extends RecordNoun> = Pick<RecordOf<N>, (typeof FIXED)[N][number] & keyof RecordOf<N>>
type Changeable<N extends RecordNoun> = Pick<RecordOf<N>, (typeof CHANGEABLE)[N][number] & keyof RecordOf<N>>
/** Columns by their names, as they are put into a statement. */
type Columns = Readonly<Record<string, Json | undefined>>

type RecordKey = { tenant_id: string; id: string }

/**
 * Creates a row with these columns and no others; `known` when its key was used before. Throws a unique violation when the
 * key is used by another request at the same moment; nothing was written then.
 */
export async function createRecord<N extends RecordNoun>(
  sql: Sql,
  noun: N,
  request: IdempotentRequest & RecordKey & { event_id: string },
  columns: Fixed<N> & Changeable<N> & Columns,
): Promise<RecordOf<N> | 'known'> {
  const table = sql(subjectOf(noun).table)
  const names = [...FIXED[noun], ...changeableBesideMetadata(noun)]
  const keys = sql`select a.*, a.id as resource_id, null::uuid as job_id from asked a join r using (tenant_id, id)`
  const [row] = await sql<RecordOf<N>[]>`
    with asked as (
      select * from jsonb_to_recordset(${sql.json([request])}) as a(
        ${keyColumns(sql)}, tenant_id uuid, id uuid, event_id uuid)
      where not ${isKnown(sql, noun)}
    ), r as (
      insert into ${table} (tenant_id, id, idempotency_key, ${columnList(sql, names)}, metadata)
      select a.tenant_id, a.id, a.idempotency_key, ${ofRow(sql, 'n', names)}, coalesce(n.metadata, 'null')
      from asked a cross join jsonb_populate_record(null::${table}, ${sql.json(columns)}) n
      returning *
    ),
    remembered as (${remember(sql, noun, keys)}),
    event as (${told(sql, noun, 'created', request.event_id)})
    select ${recordColumns(sql, noun)} from r`
  return row ?? 'known'
}

/**
 * Changes the given columns; the others stay. What is so already is no change and no event. Undefined when there is no
 * such row. An archived one can be changed too.
 */
export async function updateRecord<N extends RecordNoun>(
  sql: Sql,
  noun: N,
  { tenant_id, id }: RecordKey,
  event_id: string,
  changes: Partial<Changeable<N>> & Columns,
): Promise<RecordOf<N> | undefined> {
  const names = changeableBesideMetadata(noun)
  const given = sql.json(changes)
  const [row] = await sql<RecordOf<N>[]>`
    with r as (
      -- What is not given comes from the row as it is once it is locked.
      update ${sql(subjectOf(noun).table)} r set (updated_at, metadata, ${columnList(sql, names)}) = (
        select clock_timestamp(), coalesce(n.metadata, 'null'), ${ofRow(sql, 'n', names)}
        from jsonb_populate_record(r, ${given}) n)
      where r.tenant_id = ${tenant_id} and r.id = ${id} and to_jsonb(r) || ${given}::jsonb <> to_jsonb(r)
      returning r.*
    ),
    event as (${told(sql, noun, 'updated', event_id)})
    select ${recordColumns(sql, noun)} from r`
  return row ?? (await findRecord(sql, noun, { tenant_id, id }))
}

/** Archives a row and lets go of an open verification of it. Doing it twice has the same result. Undefined when there is no such row. */
export async function archiveRecord<N extends RecordNoun>(
  sql: Sql,
  noun: N,
  { tenant_id, id }: RecordKey,
  event_id: string,
): Promise<RecordOf<N> | undefined> {
  const subject = { tenant_id, subject_type: noun, subject_id: id }
  const [row] = await sql<RecordOf<N>[]>`
    with ${cancelOpenVerification(sql, subject)},
    r as (
      update ${sql(subjectOf(noun).table)} r set archived_at = clock_timestamp(), updated_at = clock_timestamp()
      from (select count(*) from open_verification) first
      where r.tenant_id = ${tenant_id} and r.id = ${id} and r.archived_at is null
      returning r.*
    ),
    event as (${told(sql, noun, 'archived', event_id)})
    select ${recordColumns(sql, noun)} from r`
  await cancelLateVerification(sql, subject)
  return row ?? (await findRecord(sql, noun, { tenant_id, id }))
}

/** One row, archived or not; undefined when there is none. */
export async function findRecord<N extends RecordNoun>(
  sql: Sql,
  noun: N,
  { tenant_id, id }: RecordKey,
): Promise<RecordOf<N> | undefined> {
  const [row] = await sql<RecordOf<N>[]>`
    select ${recordColumns(sql, noun)} from ${sql(subjectOf(noun).table)} where tenant_id = ${tenant_id} and id = ${id}`
  return row
}

/** The row that was created with this key, or undefined. */
export async function findProtectedRecord<N extends RecordNoun>(
  sql: Sql,
  noun: N,
  sent: SentKey,
): Promise<Protected<RecordOf<N>> | undefined> {
  const [found] = await findProtected<RecordOf<N>>(sql, noun, recordColumns(sql, noun), [sent])
  return found
}

/** A page of the rows that are archived, or of those that are not. */
export type RecordPage = ListPage & { archived: boolean }

/** The rows of a tenant that are also `matching`, newest first. */
export async function listRecords<N extends RecordNoun>(
  sql: Sql,
  noun: N,
  tenant_id: string,
  { archived, ...page }: RecordPage,
  matching: Fragment = sql``,
): Promise<RecordOf<N>[]> {
  return await sql<RecordOf<N>[]>`
    select ${recordColumns(sql, noun)} from ${sql(subjectOf(noun).table)}
    where tenant_id = ${tenant_id} and ${createdWithin(sql, page)}
      and archived_at is ${archived ? sql`not null` : sql`null`} ${matching}
    order by created_at desc limit ${page.limit}`
}

function changeableBesideMetadata(noun: RecordNoun): string[] {
  return CHANGEABLE[noun].filter((name) => name !== 'metadata')
}

/** The columns of an answer. */
function recordColumns(sql: Sql, noun: RecordNoun): Fragment {
  return columnList(sql, Object.keys(subjectOf(noun).view.shape))
}

function ofRow(sql: Sql, row: string, names: readonly string[]): Fragment {
  return columnList(
    sql,
    names.map((name) => `${row}.${name}`),
  )
}

/** The event of the row `r`. */
function told(
  sql: Sql,
  noun: RecordNoun,
  word: 'created' | 'updated' | 'archived',
  event_id: string,
): Fragment {
  const type = `${noun}.${word}` satisfies EventType
  return announce(sql, noun, sql`select r.*, ${event_id}::uuid as event_id, ${type} as event from r`)
}

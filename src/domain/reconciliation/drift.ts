// Drifts: rows whose state at their provider differs from ours, or is unknown.
import { z } from 'zod'
import { newId } from '#core/ids.ts'
import { timestamp } from '#core/time.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import type { Credentials } from '../api-keys.ts'
import { isOfMode } from '../modes.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import {
  rootIdColumn,
  objectOf,
  paymentOf,
  PROVIDER_RESOURCE_NAMES,
  providerResourceOf,
  type ProviderResourceName,
} from '../resources.ts'
import { AMOUNT_SIDE, type Side, type SideSchema } from './side.ts'

export const DRIFT_STATES = ['unknown', 'stale', 'differs', 'orphan'] as const

/** The states and subjects of drifts, as fields and filters. */
export const driftState = z.enum(DRIFT_STATES).meta({
  id: 'DriftState',
  description:
    '`unknown`: it is not known whether a call to the processor took effect. `stale`: it is in progress here, and not at the processor. `differs`: it ended differently on both sides, or the processor did something that we cannot apply; `detail` describes it. `orphan`: an object that was created here and has no row, and no row can be made for it; `subject_id` names no row.',
  example: 'differs',
})
export const driftSubject = z
  .enum(PROVIDER_RESOURCE_NAMES)
  .meta({ id: 'DriftSubject', description: 'What differs.', example: 'payment' })

const sides = PROVIDER_RESOURCE_NAMES.map((resource) => providerResourceOf(resource).at_provider.side.shape)
const isColumnOfAll = (column: string) => sides.every((side) => column in side)
/** The compared columns of any resource; columns that only some resources have are optional. */
const sideSchema: z.ZodType<Side> = z
  .object({
    ...Object.fromEntries(
      sides
        .flatMap((side) => Object.entries(side))
        .map(([column, value]) => [column, isColumnOfAll(column) ? value : value.optional()]),
    ),
    status: AMOUNT_SIDE.status,
  })
  .meta({ id: 'DriftSide', description: 'The record of one side.' })

/** A drift in responses. */
export const driftSchema = z
  .object({
    id: z
      .uuid()
      .meta({ description: 'The id of the drift.', example: '0198f6f2-d41f-7000-8000-123456789abc' }),
    tenant_id: z.uuid().meta({
      description: 'The tenant that it belongs to.',
      example: '0198f6ef-9a00-7000-8000-00000000ac3e',
    }),
    subject: driftSubject,
    subject_id: z.uuid().meta({
      description: 'The id of the resource that differs.',
      example: '0198f6f0-1234-7000-8000-123456789abc',
    }),
    payment_id: z.uuid().nullable().meta({
      description: 'The payment; null if it belongs to none.',
      example: '0198f6f0-1234-7000-8000-123456789abc',
    }),
    state: driftState,
    ours: sideSchema.nullable().meta({ description: 'Our record; null for an orphan, which has none.' }),
    theirs: sideSchema.nullable().meta({
      description: "The processor's record, in our terms; null if it is not known yet or does not exist.",
    }),
    detail: z
      .string()
      .nullable()
      .meta({ description: 'Further details.', example: 'captured in the dashboard' }),
    since: timestamp.meta({ description: 'When the drift began.' }),
    age_s: z.int().nonnegative().meta({ description: 'The age of the drift in seconds.', example: 42 }),
    checked_at: timestamp.nullable().meta({ description: 'When the processor was last queried.' }),
    created_at: timestamp.meta({ description: 'When the drift was detected: the cursor of lists.' }),
  })
  .meta({ id: 'Drift', description: "A difference between our books and the processor's." })

export type Drift = z.output<typeof driftSchema>

export type DriftFilters = ListPage & {
  state?: Drift['state']
  subject?: Drift['subject']
  payment_id?: string
}

/** The open drifts that a key may read, newest first. */
export async function listDrifts(
  sql: Sql,
  { tenant_id, scopes }: Pick<Credentials, 'tenant_id' | 'scopes'>,
  filters: DriftFilters,
): Promise<Drift[]> {
  const { state = null, subject = null, payment_id = null, limit } = filters
  const readable = PROVIDER_RESOURCE_NAMES.filter((resource) =>
    scopes.has(providerResourceOf(resource).at_provider.scope),
  )
  // The detail of an unknown job may be the text of an exception, which is only for operators.
  return await sql<Drift[]>`
    select id, tenant_id, subject, subject_id, payment_id, state, ours, theirs,
      case when state = 'unknown'
        then split_part(detail, ': ', 1) || ': whether it took effect is not known' else detail end as detail,
      since, greatest(0, floor(extract(epoch from now() - since)))::integer as age_s, checked_at, created_at
    from drifts
    where tenant_id = ${tenant_id} and resolved_at is null and ${createdWithin(sql, filters)}
      and state = coalesce(${state}, state) and subject = coalesce(${subject}, subject)
      and subject = any(${readable}::text[])
      and (${payment_id}::uuid is null or payment_id = ${payment_id})
    order by created_at desc limit ${limit}`
}

/** The number of open drifts of live tenants by state, and the age of the oldest in seconds. */
export async function countDrifts(
  sql: Sql,
): Promise<{ state: Drift['state']; count: number; oldest_s: number }[]> {
  return await sql<{ state: Drift['state']; count: number; oldest_s: number }[]>`
    select state, count(*), extract(epoch from now() - min(since))::float8 as oldest_s from drifts
    where resolved_at is null and ${isOfMode(sql, sql`drifts.tenant_id`, true)} group by state`
}

/** The provider's id of the object from which the row differs; null without an open drift. */
export async function findDriftingReference(
  sql: Sql,
  { tenant_id, resource, id }: { tenant_id: string; resource: ProviderResourceName; id: string },
): Promise<string | null> {
  const [drift] = await sql<{ reference: string | null }[]>`
    select coalesce(theirs ->> 'processor_reference', theirs ->> 'provider_reference') as reference from drifts
    where tenant_id = ${tenant_id} and subject = ${resource} and subject_id = ${id} and state = 'differs'
      and resolved_at is null`
  return drift?.reference ?? null
}

/** A row of a resource that a provider keeps records of. */
export type ComparedRow = { tenant_id: string; resource: ProviderResourceName; resource_id: string }

/**
 * Opens a drift, or updates the open one with the processor's present state. `as_of`: when the processor was
 * queried, by the database's clock. Returns false and writes nothing if a later answer has been written.
 */
export async function openDrift(
  sql: Sql | Tx,
  of: ComparedRow,
  drift: {
    as_of: string
    payment_id: string | null
    state: 'stale' | 'differs'
    ours: Side
    theirs: Side | null
    detail: string | null
    since: string
  },
): Promise<boolean> {
  const { tenant_id, resource, resource_id } = of
  const written = await sql`
    insert into drifts (tenant_id, id, subject, subject_id, payment_id, state, ours, theirs, detail, since, checked_at)
    select ${tenant_id}::uuid, ${newId()}::uuid, ${resource}, ${resource_id}::uuid, ${drift.payment_id}::uuid,
      ${drift.state}, ${sql.json(drift.ours)}::jsonb, nullif(${sql.json(drift.theirs)}::jsonb, 'null'),
      ${drift.detail}, ${drift.since}::timestamptz, now()
    where not exists (
      select from drifts closed
      where closed.tenant_id = ${tenant_id} and closed.subject = ${resource} and closed.subject_id = ${resource_id}
        and closed.resolved_at > ${drift.as_of}::timestamptz)
    on conflict (tenant_id, subject, subject_id) where resolved_at is null do update set state = excluded.state,
      ours = excluded.ours, theirs = excluded.theirs, detail = excluded.detail, checked_at = excluded.checked_at
      where ${isBefore(sql, sql`drifts.checked_at`, drift.as_of)}
    returning id`
  return written.length > 0
}

/**
 * Closes the drift of a row. `agreed`: our side, and when the processor was queried, by the database's clock. The
 * drift stays open if it was written after that query, or if the resource's `closesDrift` does not accept the answer.
 * Without `agreed`: the provider has no record of the row and never will.
 */
export async function closeDrift(
  sql: Sql | Tx,
  { tenant_id, resource, resource_id }: ComparedRow,
  agreed?: { ours: Side; as_of: string },
): Promise<void> {
  const closes =
    agreed === undefined
      ? sql`true`
      : sql`${isBefore(sql, sql`checked_at`, agreed.as_of)}
          and ${providerResourceOf(resource).at_provider.closesDrift?.(sql, agreed.ours) ?? sql`true`}`
  await sql`
    update drifts set resolved_at = now(), checked_at = now()
    where tenant_id = ${tenant_id} and subject = ${resource} and subject_id = ${resource_id} and resolved_at is null
      and ${closes}`
}

/**
 * Whether a drift was last written before the query at `as_of`. Also true if the drift shows no answer (`checked_at` is
 * null).
 */
function isBefore(sql: Sql | Tx, checked_at: Fragment, as_of: string): Fragment {
  return sql`coalesce(${checked_at} <= ${as_of}::timestamptz, true)`
}

/** A snapshot of our row for the comparison. */
export type RowSnapshot = {
  ours: Side
  reference: string | null
  payment_id: string | null
  since: string
  /** When the snapshot was read, by the database's clock. */
  read_at: string
  has_open_drift: boolean
  has_open_job: boolean
  /**
   * The row's parked notifications that need an operator, or that have been parked as `does_not_fit` for longer than
   * `PROVIDER_LEAD_MS`.
   */
  parked: ParkedEvent[]
}

/** The amount and currency of the notification's object; null if the object has none. */
type ParkedEvent = {
  object_id: string
  reason: string
  amount_minor: number | null
  currency: string | null
}

/** The time by which the processor may be ahead of us without a drift. */
export const PROVIDER_LEAD_MS = 5_000

/** A snapshot of our row, or undefined. `except_id`: a notification that does not count as parked. */
export async function findRowSnapshot(
  sql: Sql | Tx,
  { tenant_id, resource, resource_id, except_id = null }: ComparedRow & { except_id?: string | null },
): Promise<RowSnapshot | undefined> {
  const { table, at_provider } = providerResourceOf(resource)
  const [row] = await sql<RowSnapshot[]>`
    select ${sideOf(sql, 'p', at_provider.side)} as ours, ${sql(`p.${at_provider.reference}`)} as reference,
      ${paymentOf(sql, resource, 'p')} as payment_id, p.updated_at as since, clock_timestamp() as read_at,
      exists (
        select from drifts d
        where d.tenant_id = p.tenant_id and d.subject = ${resource} and d.subject_id = p.id and d.resolved_at is null
      ) as has_open_drift,
      ${parkedEvents(sql, resource, except_id)} as parked,
      exists (
        select from jobs j
        where j.tenant_id = p.tenant_id and j.resource_id = p.${sql(rootIdColumn(resource))} and j.finished_at is null
      ) as has_open_job
    from ${sql(table)} p where p.tenant_id = ${tenant_id} and p.id = ${resource_id}`
  return row
}

/** The notifications in `RowSnapshot.parked` for the row `p`, except the notification with the id `ignored`. */
export function parkedEvents(
  sql: Sql | Tx,
  resource: ProviderResourceName,
  ignored: string | null,
): Fragment {
  const amount = sql`n.payload #> '{data,object,amount}'`
  return sql`(
    select coalesce(jsonb_agg(jsonb_build_object('object_id', n.object_id, 'reason', n.reason,
      'amount_minor', case when jsonb_typeof(${amount}) = 'number' then ${amount} end,
      'currency', n.payload #>> '{data,object,currency}')), '[]')
    -- The offset forces a lookup by index: a plan that was made while nothing was parked would later read every
    -- parked row.
    from (select * from notifications where tenant_id = p.tenant_id and resource_id = p.id offset 0) n
    where n.resource = ${resource} and n.state = 'parked' and n.id is distinct from ${ignored}::uuid
      and (n.reason in ('poison', 'duplicate')
        or (n.reason = 'does_not_fit' and n.parked_at <= now() - ${PROVIDER_LEAD_MS} * interval '1 millisecond')))`
}

/** The compared columns of `row` as JSON. */
export function sideOf(sql: Sql | Tx, row: string, { shape }: SideSchema): Fragment {
  return objectOf(sql, row, Object.keys(shape))
}

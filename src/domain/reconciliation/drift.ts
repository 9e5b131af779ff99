// Drifts: rows whose state at their provider differs from ours, or is not known.
import { z } from 'zod'
import { newId } from '#core/ids.ts'
import { timestamp } from '#core/time.ts'
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import type { Credentials } from '../api-keys.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import {
  filedBy,
  NOUNS,
  objectOf,
  paymentOf,
  PROVIDER_NOUNS,
  providerSubjectOf,
  statusesOfCalls,
  subjectOf,
  type ProviderNoun,
} from '../subjects.ts'
import { AMOUNT_SIDE, type Side, type SideSchema } from './side.ts'

export const DRIFT_STATES = ['unknown', 'stale', 'differs'] as const

/** The states and subjects of drifts, as fields and as filters. */
export const driftState = z.enum(DRIFT_STATES).meta({
  id: 'DriftState',
  description:
    '`unknown`: it is not known whether a call to the processor took effect. `stale`: it is in progress here, and not at the processor. `differs`: it ended differently on both sides, or the processor did something that we cannot apply; `detail` says what.',
  example: 'differs',
})
export const driftSubject = z
  .enum(PROVIDER_NOUNS)
  .meta({ id: 'DriftSubject', description: 'What differs.', example: 'payment' })

const sides = PROVIDER_NOUNS.map((noun) => providerSubjectOf(noun).at_provider.side.shape)
const isOfAll = (column: string) => sides.every((side) => column in side)
/** What is compared of any noun; columns that only some nouns have are optional. */
const sideSchema: z.ZodType<Side> = z
  .object({
    ...Object.fromEntries(
      sides
        .flatMap((side) => Object.entries(side))
        .map(([column, value]) => [column, isOfAll(column) ? value : value.optional()]),
    ),
    status: AMOUNT_SIDE.status,
  })
  .meta({ id: 'DriftSide', description: 'The record of one side.' })

/** A drift in answers. */
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
      description: 'The row that differs.',
      example: '0198f6f0-1234-7000-8000-123456789abc',
    }),
    payment_id: z.uuid().nullable().meta({
      description: 'The payment; null if it belongs to none.',
      example: '0198f6f0-1234-7000-8000-123456789abc',
    }),
    state: driftState,
    ours: sideSchema.meta({ description: 'Our record.' }),
    theirs: sideSchema.nullable().meta({
      description: "The processor's record, in our terms; null while it is not known, or if it has none.",
    }),
    detail: z
      .string()
      .nullable()
      .meta({ description: 'What else is known.', example: 'captured in the dashboard' }),
    since: timestamp.meta({ description: 'When the drift began.' }),
    age_s: z.int().nonnegative().meta({ description: 'For how many seconds it has existed.', example: 42 }),
    checked_at: timestamp.nullable().meta({ description: 'When the processor was last asked.' }),
    created_at: timestamp.meta({ description: 'When it was noticed: the cursor of lists.' }),
  })
  .meta({ id: 'Drift', description: "A difference between our books and the processor's." })

export type Drift = z.output<typeof driftSchema>

export type DriftFilters = ListPage & {
  state?: Drift['state']
  subject?: Drift['subject']
  payment_id?: string
}

/** The open drifts of what a key may read, newest first. */
export async function listDrifts(
  sql: Sql,
  { tenant_id, scopes }: Pick<Credentials, 'tenant_id' | 'scopes'>,
  filters: DriftFilters,
): Promise<Drift[]> {
  const { state = null, subject = null, payment_id = null, limit } = filters
  const readable = PROVIDER_NOUNS.filter((noun) => scopes.has(providerSubjectOf(noun).at_provider.scope))
  // The detail of an unknown job may be the text of an exception, which is only for operators.
  return await sql<Drift[]>`
    select id, tenant_id, subject, subject_id, payment_id, state, ours, theirs,
      case when state = 'unknown'
        then split_part(detail, ': ', 1) || ': whether it took effect is not known' else detail end as detail,
      since, greatest(0, floor(extract(epoch from now() - since)))::integer as age_s, checked_at, created_at
    from drifts
    where tenant_id = ${tenant_id} and mended_at is null and ${createdWithin(sql, filters)}
      and state = coalesce(${state}, state) and subject = coalesce(${subject}, subject)
      and subject = any(${readable}::text[])
      and (${payment_id}::uuid is null or payment_id = ${payment_id})
    order by created_at desc limit ${limit}`
}

/** How many drifts are open, by state, and the age of the oldest in seconds. */
export async function countDrifts(
  sql: Sql,
): Promise<{ state: Drift['state']; count: number; oldest_s: number }[]> {
  return await sql<{ state: Drift['state']; count: number; oldest_s: number }[]>`
    select state, count(*), extract(epoch from now() - min(since))::float8 as oldest_s from drifts
    where mended_at is null group by state`
}

/** A row of a noun that a provider keeps records of. */
export type ComparedRow = { tenant_id: string; subject: ProviderNoun; subject_id: string }

/** Opens a drift, or updates the open one with what the processor says now. */
export async function openDrift(
  sql: Sql | Tx,
  of: ComparedRow,
  drift: {
    payment_id: string | null
    state: 'stale' | 'differs'
    ours: Side
    theirs: Side | null
    detail: string | null
    since: string
  },
): Promise<void> {
  await sql`
    insert into drifts (tenant_id, id, subject, subject_id, payment_id, state, ours, theirs, detail, since, checked_at)
    values (${of.tenant_id}, ${newId()}, ${of.subject}, ${of.subject_id}, ${drift.payment_id}, ${drift.state},
      ${sql.json(drift.ours)}, nullif(${sql.json(drift.theirs)}::jsonb, 'null'), ${drift.detail}, ${drift.since}, now())
    on conflict (tenant_id, subject, subject_id) where mended_at is null do update set state = excluded.state,
      ours = excluded.ours, theirs = excluded.theirs, detail = excluded.detail, checked_at = excluded.checked_at`
}

/** Closes the drift of a row on which both sides agree, unless its noun keeps it open. */
export async function mendDrift(
  sql: Sql,
  { tenant_id, subject, subject_id }: ComparedRow,
  ours: Side,
): Promise<void> {
  const { at_provider } = providerSubjectOf(subject)
  await sql`
    update drifts set mended_at = now(), checked_at = now()
    where tenant_id = ${tenant_id} and subject = ${subject} and subject_id = ${subject_id} and mended_at is null
      and ${at_provider.closesDrift?.(sql, ours) ?? sql`true`}`
}

/** Closes the drift of a row that its provider has no record of, and never will. */
export async function closeDrift(
  sql: Sql | Tx,
  { tenant_id, subject, subject_id }: ComparedRow,
): Promise<void> {
  await sql`
    update drifts set mended_at = now()
    where tenant_id = ${tenant_id} and subject = ${subject} and subject_id = ${subject_id} and mended_at is null`
}

/**
 * Brings the drifts in state `unknown` in line with the jobs: one is open for each job whose effect is unknown, and
 * closed when it is known. (These jobs look again by themselves.) A drift in state `differs` is left alone, because
 * it may outlast the job. Returns the names of unknown jobs whose noun is not compared with a provider, so that no
 * drift can be opened for them, and does not say by itself that it is unknown.
 */
export async function followUnknownJobs(sql: Sql): Promise<string[]> {
  const ours = PROVIDER_NOUNS.map((noun) => {
    const { table, at_provider } = providerSubjectOf(noun)
    return sql`
      select u.*, ${paymentOf(sql, noun, 'r')} as payment_id, ${sideOf(sql, 'r', at_provider.side)} as ours
      from unknown u join ${sql(table)} r on r.tenant_id = u.tenant_id and r.id = u.subject_id
      where u.subject = ${noun}`
  })
  // The jobs of a part are filed under what it is a part of.
  const whole = PROVIDER_NOUNS.flatMap((noun) => {
    const { table, part_of } = providerSubjectOf(noun)
    if (part_of === undefined) return []
    return sql`
      select r.${sql(part_of.by)} from ${sql(table)} r
      where d.subject = ${noun} and r.tenant_id = d.tenant_id and r.id = d.subject_id`
  })
  const saying = NOUNS.filter((noun) => statusesOfCalls(noun).includes('unknown')).map(
    (noun) => sql`
      select from ${sql(subjectOf(noun).table)} r
      where unknown.subject = ${noun} and r.tenant_id = unknown.tenant_id and r.id = unknown.subject_id
        and r.status = 'unknown'`,
  )
  const rows = await sql<{ name: string }[]>`
    with unknown as (
      select distinct on (j.tenant_id, subject, subject_id) j.tenant_id, j.name, j.unknown_since as since,
        split_part(j.name, '.', 1) as subject,
        u.subject_id::uuid as subject_id,
        j.name || ': ' || (j.last_error ->> 'message') as detail
      from jobs j cross join lateral (select j.payload ->> (split_part(j.name, '.', 1) || '_id') as subject_id) u
      where j.finished_at is null and j.unknown_since is not null and j.subject_id is not null
        and pg_input_is_valid(u.subject_id, 'uuid')
      order by j.tenant_id, subject, subject_id, j.unknown_since
    ), mended as (
      update drifts d set mended_at = now()
      where d.mended_at is null and d.state = 'unknown' and not exists (
        select from jobs j
        where j.tenant_id = d.tenant_id and j.subject_id = coalesce((${unionAll(sql, whole)}), d.subject_id)
          and j.finished_at is null and j.unknown_since is not null
          and split_part(j.name, '.', 1) = d.subject and j.payload ->> (d.subject || '_id') = d.subject_id::text)
    ), ours as (${unionAll(sql, ours)}),
    opened as (
      insert into drifts as d (tenant_id, id, subject, subject_id, payment_id, state, ours, detail, since)
      select tenant_id, gen_random_uuid(), subject, subject_id, payment_id, 'unknown', ours, detail, since from ours
      on conflict (tenant_id, subject, subject_id) where mended_at is null do update
        set state = 'unknown', ours = excluded.ours, detail = coalesce(excluded.detail, d.detail)
        where d.state <> 'differs'
          and (d.state, d.detail) is distinct from ('unknown', coalesce(excluded.detail, d.detail))
    )
    select distinct name from unknown
    where subject <> all(${[...PROVIDER_NOUNS]}::text[]) and not exists (${unionAll(sql, saying)}) order by name`
  return rows.map(({ name }) => name)
}

/**
 * Our side of a row, the provider's id of it, its payment, since when it has been so, whether a job works on it, and
 * notifications that do not fit into our books.
 */
export type Ours = {
  ours: Side
  reference: string | null
  payment_id: string | null
  since: string
  worked_on: boolean
  /** Notifications about it that wait for an operator, or that have not fitted for more than `WAITS_MS`. */
  parked: ParkedNews[]
}

/** The amount and currency are those of its object, null where the notification has none. */
type ParkedNews = { object_id: string; reason: string; amount_minor: number | null; currency: string | null }

/** For this long the processor may be ahead of us without a drift. */
export const WAITS_MS = 5_000

/**
 * Our side of a row as it is now; undefined when there is no such row. `news`: a notification that does not count as
 * parked.
 */
export async function findOurs(
  sql: Sql | Tx,
  { tenant_id, subject, subject_id, news = null }: ComparedRow & { news?: string | null },
): Promise<Ours | undefined> {
  const { table, at_provider } = providerSubjectOf(subject)
  const [row] = await sql<Ours[]>`
    select ${sideOf(sql, 'p', at_provider.side)} as ours, ${sql(`p.${at_provider.reference}`)} as reference,
      ${paymentOf(sql, subject, 'p')} as payment_id, p.updated_at as since,
      ${parkedNews(sql, subject, news)} as parked,
      exists (
        select from jobs j
        where j.tenant_id = p.tenant_id and j.subject_id = p.${sql(filedBy(subject))} and j.finished_at is null
      ) as worked_on
    from ${sql(table)} p where p.tenant_id = ${tenant_id} and p.id = ${subject_id}`
  return row
}

/** The parked notifications about the row `p` that do not fit into our books, except `besides`. */
export function parkedNews(sql: Sql | Tx, subject: ProviderNoun, besides: string | null): Fragment {
  const amount = sql`n.payload #> '{data,object,amount}'`
  return sql`(
    select coalesce(jsonb_agg(jsonb_build_object('object_id', n.object_id, 'reason', n.reason,
      'amount_minor', case when jsonb_typeof(${amount}) = 'number' then ${amount} end,
      'currency', n.payload #>> '{data,object,currency}')), '[]')
    -- The offset keeps this a look-up: a plan that was made while nothing was parked would later read every parked row.
    from (select * from notifications where tenant_id = p.tenant_id and subject_id = p.id offset 0) n
    where n.subject = ${subject} and n.state = 'parked' and n.id is distinct from ${besides}::uuid
      and (n.reason in ('poison', 'second')
        or (n.reason = 'does_not_fit' and n.parked_at <= now() - ${WAITS_MS} * interval '1 millisecond')))`
}

// Our side of the row `row` as JSON.
function sideOf(sql: Sql | Tx, row: string, { shape }: SideSchema): Fragment {
  return objectOf(sql, row, Object.keys(shape))
}

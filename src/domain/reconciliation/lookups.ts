// Lookups by the reconciler: finds rows that have been in one state for too long, and schedules queries to
// their provider.
import { z } from 'zod'
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'
import { LOOKUP_DELAYS_MS } from '#jobs/job.ts'
import { isOfMode } from '../modes.ts'
import {
  LOOKUP_KIND,
  notificationOf,
  type Notification,
  type ProviderMode,
} from '../notifications/notification.ts'
import type { Arrival } from '../notifications/store.ts'
import { worksOn } from '../resource.ts'
import {
  rootIdColumn,
  PROVIDER_RESOURCE_NAMES,
  providerResourceOf,
  statusesUnderWay,
  type ResourceName,
  type ProviderResourceName,
} from '../resources.ts'

/**
 * The ages at which an unchanged row is looked up: the same delays as for an unknown job. Later it is looked up every
 * day.
 */
const LOOKUP_DELAYS_S = LOOKUP_DELAYS_MS.map((delay_ms) => delay_ms / 1000)
const DAY_S = 24 * 3600
/**
 * The number of rows read at once. It may be large: most of the rows are open payments on hold, which need no lookup.
 */
const BATCH_SIZE = 10_000

type StaleRow = {
  tenant_id: string
  resource: ProviderResourceName
  provider: string
  /** Lookups of a tenant in test mode query the provider of test mode. */
  livemode: boolean
  reference: string | null
  /** The time since which the row's state has not changed; `age_s`: the seconds since then. */
  since: string
  age_s: number
}

/** The position of a scan in the rows of all tenants; null at the beginning of the scan. */
export type Cursor = { tenant_id: string; created_at: string } | null

/** The stale rows in one batch of a scan, and the position of the next batch; null after the last batch. */
export type Stage = { stale: StaleRow[]; cursor: Cursor }

/**
 * Rows in progress, here or at the provider, that have no open job: the provider is slow, or its notification was lost.
 */
export async function findStale(sql: Sql, resource: ProviderResourceName, cursor: Cursor): Promise<Stage> {
  const { table, under_way, at_provider } = providerResourceOf(resource)
  const open = under_way.open(sql)
  const rows = sql`${sql(table)} p where ${under_way.eligible_for_lookup?.(sql) ?? open}`
  const stage = await findStage(sql, rows, cursor)
  const is_job_of_row = sql`j.tenant_id = p.tenant_id and j.resource_id = ${sql(`p.${rootIdColumn(resource)}`)}`
  const stale = await sql<StaleRow[]>`
    select p.tenant_id, ${resource} as resource, ${sql(`p.${at_provider.provider}`)} as provider,
      ${isOfMode(sql, sql`p.tenant_id`, true)} as livemode, coalesce(${sql(`p.${at_provider.reference}`)}, (
        select c.provider_reference from all_jobs j cross join lateral (
          select c.provider_reference from all_provider_calls c
          where c.tenant_id = j.tenant_id and c.job_id = j.id offset 0) c
        where ${is_job_of_row} and ${worksOn(sql, resource, sql`p.id`)} and c.provider_reference is not null
          limit 1)) as reference,
      p.updated_at as since, extract(epoch from now() - p.updated_at)::float8 as age_s
    from ${rows} and ${stage.within} and (p.status = any(${statusesUnderWay(resource)}::text[]) or not ${open})
      and p.updated_at <= now() - ${LOOKUP_DELAYS_S[0]!} * interval '1 second'
      and not exists (select from jobs j where ${is_job_of_row} and j.finished_at is null)`
  return { stale, cursor: stage.cursor }
}

/**
 * Rows with an open drift. Their lookups start again after each change of the row, because any change may have ended
 * the drift. If the drift is about an object that never belonged to our row, that object is looked up.
 */
export async function findDrifting(sql: Sql, cursor: Cursor): Promise<Stage> {
  const stage = await findStage(sql, sql`drifts p where p.resolved_at is null`, cursor)
  const rows = PROVIDER_RESOURCE_NAMES.map((resource) => {
    const { table, at_provider } = providerResourceOf(resource)
    const { provider, reference } = at_provider
    return sql`
      select ${sql(`o.${provider}`)} as provider,
        coalesce(${sql(`o.${reference}`)}, p.theirs ->> ${reference}::text) as reference,
        greatest(p.since, o.updated_at) as since
      from ${sql(table)} o
      where p.subject = ${resource} and o.tenant_id = p.tenant_id and o.id = p.subject_id`
  })
  const stale = await sql<StaleRow[]>`
    select p.tenant_id, p.subject as resource, s.provider, ${isOfMode(sql, sql`p.tenant_id`, true)} as livemode,
      s.reference, s.since, extract(epoch from now() - s.since)::float8 as age_s
    from drifts p cross join lateral (${unionAll(sql, rows)}) s
    where p.resolved_at is null and ${stage.within} and p.state <> 'unknown'`
  return { stale, cursor: stage.cursor }
}

/**
 * The next batch of `rows` in the order of tenant and creation time, for which an index must exist. `rows`: a source
 * and a condition, with the alias `p`. Returns the condition on the rows of the batch (`within`) and the position of
 * the next batch.
 */
export async function findStage(
  sql: Sql,
  rows: Fragment,
  cursor: Cursor,
): Promise<{ within: Fragment; cursor: Cursor }> {
  const { tenant_id, created_at } = cursor ?? {
    tenant_id: LOWEST_ID,
    created_at: '-infinity',
  }
  const after = sql`(p.tenant_id, p.created_at) > (${tenant_id}, ${created_at})`
  const [last] = await sql<NonNullable<Cursor>[]>`
    select p.tenant_id, p.created_at from ${rows} and ${after}
    order by p.tenant_id, p.created_at offset ${BATCH_SIZE - 1} limit 1`
  if (last === undefined) return { within: after, cursor: null }
  const { tenant_id: last_tenant_id, created_at: last_created_at } = last
  return {
    within: sql`${after} and (p.tenant_id, p.created_at) <= (${last_tenant_id}, ${last_created_at})`,
    cursor: last,
  }
}

/**
 * The latest due lookup of each row, according to the age of the row. The id of a lookup is derived from its row and
 * its number, so a repeated request stores no second lookup.
 */
export function lookupsOf(stale: StaleRow[]): Arrival[] {
  return stale.flatMap(({ tenant_id, resource, provider, livemode, reference, since, age_s }) => {
    if (reference === null || age_s < LOOKUP_DELAYS_S[0]!) return []
    const lookup = LOOKUP_DELAYS_S.filter((after_s) => after_s <= age_s).length + Math.floor(age_s / DAY_S)
    return [requestLookup({ provider, livemode }, { resource, reference, tenant_id }, `${since}:${lookup}`)]
  })
}

const lookupSchema = z.object({
  resource: z.string(),
  reference: z.string(),
  /** The tenant of the row, whose sandbox may be its provider; absent if the object has no row. */
  tenant_id: z.uuid().nullish(),
})

/**
 * A lookup of a provider's object, as a notification. `name` distinguishes the lookup from other lookups of the same
 * object.
 */
export function requestLookup(
  of: ProviderMode,
  lookup: { resource: ResourceName; reference: string; tenant_id: string | null },
  name: string,
): Arrival {
  const notification = notificationOf(of, {
    account: '',
    event_id: `lookup:${lookup.reference}:${name}`,
    kind: LOOKUP_KIND,
    object_id: lookup.reference,
    payload: lookup,
  })
  return { ...notification, is_relevant: true, reported: null, will_wake: false, request_id: null }
}

/**
 * A part of a statement: requests lookups of objects of a resource, which are stored when the statement commits.
 * `lookups` selects `provider, reference, name` as for `requestLookup`, and the `tenant_id` of the row. Each is stored
 * as a waiting notification without a reported status: when it is compared, it gets its job, and the mode of its
 * tenant.
 */
export function requestingLookups(sql: Sql | Tx, resource: ResourceName, lookups: Fragment): Fragment {
  return sql`
    lookup as (
      insert into notifications (id, provider, event_id, kind, object_id, payload, state, reported, due_at)
      select uuidv7(), provider, 'lookup:' || reference || ':' || name, ${LOOKUP_KIND}, reference,
        jsonb_build_object('resource', ${resource}::text, 'reference', reference, 'tenant_id', tenant_id), 'waiting',
        '{}', now()
      from (${lookups}) requested order by provider, reference, name
      on conflict do nothing
    )`
}

/** The object of a lookup; undefined if it cannot be parsed. The resource may be known only to another version. */
export function lookupOf({
  payload,
}: Pick<Notification, 'payload'>): z.output<typeof lookupSchema> | undefined {
  return lookupSchema.safeParse(payload).data
}

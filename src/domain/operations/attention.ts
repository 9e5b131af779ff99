// The problems of a tenant that need a person: for each kind the count and the oldest ones, found by indexes.
import { z } from 'zod'
import { PAYMENTS, PROVIDER_FACTS, TEST_SUFFIX } from '#core/config/providers.ts'
import { unionAll, type Fragment, type Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'
import { CALLS } from '#jobs/index.ts'
import type { RetryingJobs } from '../jobs/retrying.ts'
import { isLiveTenant } from '../modes.ts'
import { RESOURCE_NAMES, resourceNameOf, type ResourceName } from '../resources.ts'
import { BUCKETS } from '../webhook-endpoints/numbers.ts'
import { outageFields, outageText } from './outage-texts.ts'
import { concernsCall, findOutages } from './provider-outages.ts'

/** The maximum number of problems that are counted of each kind. */
export const MAX_COUNTED = 1000
const EXAMPLES = 3
/** The length of the period whose failed deliveries are reported, in hours. */
const DELIVERIES_H = 24

/** The kinds found in rows of the tenant. */
const ROW_KINDS = [
  'hold_lapses',
  'effect_unknown',
  'drift',
  'deliveries_failed',
  'endpoint_disabled',
  'endpoint_failing',
  'verification_open',
  'dispute_needs_response',
] as const
type RowKind = (typeof ROW_KINDS)[number]

const outageSchema = z.object({
  provider: z.string().meta({ description: 'Its name.', example: PAYMENTS.provider }),
  title: z.string().meta({
    description: 'The display name of the provider.',
    example: PROVIDER_FACTS[PAYMENTS.provider]!.title,
  }),
  ...outageFields,
  waiting: z
    .array(
      z.object({
        resource: z.enum(RESOURCE_NAMES).meta({ description: 'The waiting resource.', example: 'payment' }),
        count: z.int().meta({ description: 'The number of its waiting jobs.', example: 12 }),
      }),
    )
    .meta({ description: 'The jobs of this tenant that wait for it.' }),
})

export const attentionSchema = z
  .object({
    kind: z.enum(['provider_outage', 'schedule_failing', 'proposal_undecided', ...ROW_KINDS]).meta({
      description:
        '`provider_outage`: a provider does not answer, and its jobs wait. `schedule_failing`: kinds of recurring work whose last run failed, for operators. `proposal_undecided`: proposals that another operator must confirm or reject, for operators. `hold_lapses`: payments whose hold lapses within a day. `effect_unknown`: jobs with an unknown effect. `drift`: differences between the books and the processor. `deliveries_failed`: failed deliveries of the last day. `endpoint_disabled`: automatically disabled endpoints. `endpoint_failing`: endpoints whose attempts currently all fail. `verification_open`: verifications whose last check failed and that are undecided. `dispute_needs_response`: disputes that wait for a response.',
      example: 'hold_lapses',
    }),
    count: z.int().meta({ description: 'The count, at most 1,000.', example: 3 }),
    is_more: z.boolean().meta({ description: 'Whether there are more.', example: false }),
    oldest_at: timestamp.meta({
      description: 'The start of the oldest problem; for holds, the time at which the first hold lapses.',
    }),
    examples: z.array(z.uuid()).meta({
      description:
        'The ids of up to three, oldest first: payments, jobs, drifts, endpoints, verifications or disputes.',
    }),
    outage: outageSchema.nullable().meta({ description: 'Only for `provider_outage`; null otherwise.' }),
  })
  .meta({ id: 'Attention', description: 'A problem that needs a person.' })
export type Attention = z.output<typeof attentionSchema>

/**
 * The current problems; kinds without problems are omitted. `retrying`: the retrying jobs of the tenant.
 * `for_operator`: includes the problems of the installation: outages that affect no job of this tenant, failing
 * recurring work of live mode, and undecided proposals of all tenants. A tenant in test mode sees outages of test mode.
 */
export async function findAttention(
  sql: Sql,
  tenant_id: string,
  { retrying, for_operator }: { retrying: RetryingJobs[]; for_operator: boolean },
): Promise<Attention[]> {
  const counted = ROW_KINDS.map(
    (kind) => sql`
      select ${kind} as kind, least(coalesce(sum(f.weight), 0), ${MAX_COUNTED})::bigint as count,
        coalesce(sum(f.weight), 0) > ${MAX_COUNTED} as is_more, min(f.since) as oldest_at,
        to_jsonb((array_agg(f.id order by f.since, f.id))[1:${EXAMPLES}]) as examples
      from (${FINDERS[kind](sql, tenant_id)}) f`,
  )
  const schedules = sql`
    select 'schedule_failing' as kind, count(*) as count, false as is_more, min(failing_since) as oldest_at,
      '[]'::jsonb as examples
    from recurring_work where failing_since is not null and name not like ${`%${TEST_SUFFIX}`}`
  const proposals = sql`
    select 'proposal_undecided' as kind, count(*) as count, false as is_more, min(created_at) as oldest_at,
      '[]'::jsonb as examples
    from proposals where decision is null and expires_at > now()`
  const rows = await sql<Attention[]>`
    select *, null::jsonb as outage
    from (${unionAll(sql, for_operator ? [schedules, proposals, ...counted] : counted)}) found where count > 0`
  const of = { livemode: await isLiveTenant(sql, tenant_id), all: for_operator }
  return [...(await findOutagesOf(sql, retrying, of)), ...rows]
}

async function findOutagesOf(
  sql: Sql,
  retrying: RetryingJobs[],
  { livemode, all }: { livemode: boolean; all: boolean },
): Promise<Attention[]> {
  const outages = await findOutages(sql, livemode)
  return outages.flatMap((outage) => {
    const { provider, title, problem, operations, since } = outage
    const jobs = retrying.filter(({ name }) =>
      CALLS.some((call) => call.job === name && concernsCall(outage, call, livemode)),
    )
    if (jobs.length === 0 && !all) return []
    const count = jobs.reduce((sum, each) => sum + each.count, 0)
    const waiting = new Map<ResourceName, number>()
    for (const { name, count: of_name } of jobs) {
      const resource = resourceNameOf(name)
      if (resource !== undefined) waiting.set(resource, (waiting.get(resource) ?? 0) + of_name)
    }
    return [
      {
        kind: 'provider_outage' as const,
        count: Math.min(count, MAX_COUNTED),
        is_more: count > MAX_COUNTED,
        oldest_at: since,
        examples: jobs.flatMap(({ examples }) => examples).slice(0, EXAMPLES),
        outage: {
          provider,
          title,
          problem,
          text: outageText(provider, problem, operations),
          operations,
          waiting: Array.from(waiting, ([resource, of_resource]) => ({ resource, count: of_resource })),
        },
      },
    ]
  })
}

const countLimit = (sql: Sql) => sql`limit ${MAX_COUNTED + 1}`

/**
 * The query of each kind of problem. It selects `id, since, weight`; `weight` is the number of problems that the row
 * stands for.
 */
const FINDERS: Record<RowKind, (sql: Sql, tenant_id: string) => Fragment> = {
  // Expiring holds are found by the events that warn of the expiry, because the index of holds spans all tenants.
  hold_lapses: (sql, tenant_id) => sql`
    select p.id, p.capture_before as since, 1 as weight
    from (
      select e.subject_id from feed_entries f cross join lateral (
        select e.subject_id from events e
        where e.sequenced and e.tenant_id = f.tenant_id and e.id = f.event_id and e.created_at = f.created_at
        offset 0) e
      where f.tenant_id = ${tenant_id} and f.type = 'payment.capture_expiring'
        and f.created_at > now() - interval '25 hours'
      order by f.sequence desc ${countLimit(sql)}
    ) warned
    join payments p on p.tenant_id = ${tenant_id} and p.id = warned.subject_id
    where p.status = 'authorized' and p.capture_before > now()`,
  effect_unknown: (sql, tenant_id) => sql`
    select id, unknown_since as since, 1 as weight from jobs
    where tenant_id = ${tenant_id} and finished_at is null and unknown_since is not null ${countLimit(sql)}`,
  drift: (sql, tenant_id) => sql`
    select id, since, 1 as weight from drifts
    where tenant_id = ${tenant_id} and resolved_at is null order by created_at ${countLimit(sql)}`,
  deliveries_failed: (sql, tenant_id) => sql`
    select s.endpoint_id as id, min(s.hour) as since, sum(s.count)::bigint as weight
    from webhook_stats s join webhook_endpoints p on p.tenant_id = s.tenant_id and p.id = s.endpoint_id
    where s.tenant_id = ${tenant_id} and s.bucket = ${BUCKETS.undelivered}
      and s.hour > now() - ${DELIVERIES_H} * interval '1 hour' and p.tenant_id = ${tenant_id} and p.deleted_at is null
    group by s.endpoint_id`,
  endpoint_disabled: (sql, tenant_id) => sql`
    select id, coalesce(disabled_at, updated_at) as since, 1 as weight from webhook_endpoints
    where tenant_id = ${tenant_id} and deleted_at is null and status = 'disabled'
      and disabled_reason in ('gone', 'failing')`,
  endpoint_failing: (sql, tenant_id) => sql`
    select id, failing_since as since, 1 as weight from webhook_endpoints
    where tenant_id = ${tenant_id} and deleted_at is null and status = 'enabled'
      and failing_since is not null`,
  // Only verifications whose last check failed: the others wait for the person or the provider and need no act of the
  // tenant.
  verification_open: (sql, tenant_id) => sql`
    select id, updated_at as since, 1 as weight from verifications
    where tenant_id = ${tenant_id} and status = 'requires_input' and failure is not null
    order by updated_at ${countLimit(sql)}`,
  dispute_needs_response: (sql, tenant_id) => sql`
    select id, opened_at as since, 1 as weight from disputes
    where tenant_id = ${tenant_id} and status = 'needs_response' order by opened_at ${countLimit(sql)}`,
}

// The timeline of a row: its attempts, provider calls, notifications, postings and events, in chronological order.
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import { anyJson } from '#core/json.ts'
import { timestamp } from '#core/time.ts'
import { isoText, unionAll, type Fragment, type Sql } from '#core/db.ts'
import { childrenOf, rootOf, type ResourceKey } from './resources.ts'

const OUTCOME_DESCRIPTION = `How it ended; null while it is in progress.
- An attempt: \`done\`; \`declined\`: refused, final; \`retry\`: this attempt had no effect, and another attempt follows; \`ambiguous\`: it may have had an effect, and another attempt sends it again with the same key or looks it up; \`unknown\`: it is looked up, and sent again only if it had no effect; \`misconfigured\`: credentials were refused; \`returned\`: nothing was sent, another attempt follows; \`parked\`: it waits for an operator; \`discarded\`, \`resolved\`: an operator ended it. Also null if the worker failed.
- A call: \`done\`, \`declined\`, \`discarded\`, or \`rotated\`: it failed and was replaced by a call with a new key.
- A notification: \`received\`, \`applied\`, \`parked\` until the object it names exists, \`ignored\`.
- Postings and events have no outcome.`

const DETAILS_DESCRIPTION = `Details by kind.
- An attempt: \`job_id\`; \`attempt\`, its number; \`ended_at\`; \`in_doubt\`, whether an earlier attempt with the same key may have had an effect; \`rotated\`, whether the call had no effect and the next attempt sends it with a new key; \`error\`, with \`code\` and \`message\`, or null; if a provider refused, also the provider's answer.
- A call: \`job_id\`; \`generation\`, which rises with each new key; \`last_sent_at\` (\`at\` is when it was first sent); \`provider_reference\`, the provider's id of the object.
- A notification: \`provider\`; \`event_id\` and \`object_id\`, its ids at the provider; \`applied_at\`.
- A posting: \`transfer_id\`; \`subject_id\`, the resource that caused it, for example the refund; \`debit_account\` and \`credit_account\`; \`amount_minor\` and \`currency\`.
- An event: \`event_id\`; for a manual decision also \`decided_by_key_id\`, the API key; \`failure\`, the code of the failure, if any.`

/** Example details of a call that created this object at the provider, for the documentation. */
export const exampleOfCall = (provider_reference: string) => ({
  job_id: '0198f6f0-7a11-7000-8000-123456789abc',
  generation: 1,
  last_sent_at: '2026-11-20T10:15:30.123456Z',
  provider_reference,
})

export const timelineEntrySchema = z
  .object({
    at: timestamp.meta({ description: 'When it happened or began.' }),
    kind: z.enum(['attempt', 'provider_call', 'notification', 'posting', 'event']).meta({
      id: 'TimelineKind',
      description:
        '`attempt`: one try at a job. `provider_call`: a call to the provider. `notification`: a notification from the provider. `posting`: an entry in the ledger. `event`: an event of the feed.',
      example: 'provider_call',
    }),
    name: z.string().meta({
      description: `For an attempt, the job (\`payment.capture\`); for a call, the operation (\`capture\`); for a notification, its type (\`${PAYMENTS.examples.kind}\`); for a posting, its kind (\`capture\`, \`payout_paid\`); for an event, its type (\`payment.captured\`).`,
      example: 'capture',
    }),
    outcome: z.string().nullable().meta({ description: OUTCOME_DESCRIPTION, example: 'done' }),
    details: z.record(z.string(), anyJson).meta({
      description: DETAILS_DESCRIPTION,
      example: exampleOfCall(PAYMENTS.examples.payment),
    }),
  })
  .meta({
    id: 'TimelineEntry',
    description: 'One entry in the timeline of a payment, payout, top-up, verification or message.',
  })

export type TimelineEntry = z.output<typeof timelineEntrySchema>

/** The error that tenants see instead of an attempt's internal error, which only operators see. */
const HIDDEN_ERROR = { code: 'processor_error', message: 'The attempt ended without a result.' }

/**
 * The timeline of a row and its children, oldest first: the last `limit` entries before `before`. Entries of the same
 * time are never split between pages, so the time can be the cursor, and a page may have a few more entries than
 * `limit`.
 */
export async function listTimeline(
  sql: Sql,
  { tenant_id, resource, resource_id }: ResourceKey,
  { before = 'infinity', limit }: { before?: string; limit: number },
): Promise<TimelineEntry[]> {
  const children = childrenOf(resource).map(
    ({ table, id_column }) => sql`
      select r.id from ${sql(table)} r where r.tenant_id = ${tenant_id} and ${sql(`r.${id_column}`)} = ${resource_id}`,
  )
  const ids = unionAll(sql, [sql`select ${resource_id}::uuid as id`, ...children])
  const iso = (at: Fragment) => isoText(sql, at)
  // As in the resource's answers: upper case for payments, lower case for all other resources.
  const currency = rootOf(resource) === 'payment' ? sql`t.currency` : sql`lower(t.currency)`
  // A message is sent at most once per key. Later calls with this key are lookups.
  const last_sent_at = resource === 'message' ? sql`first_sent_at` : sql`last_sent_at`
  return await sql<TimelineEntry[]>`
    with job as (
      select id, name from all_jobs where tenant_id = ${tenant_id} and resource_id = ${resource_id}
    ), attempt as (
      select job.name, a.* from job cross join lateral (
        select * from all_job_attempts a where a.tenant_id = ${tenant_id} and a.job_id = job.id offset 0) a
    ), call as (
      select c.* from job cross join lateral (
        select * from all_provider_calls c where c.tenant_id = ${tenant_id} and c.job_id = job.id offset 0) c
    ), entry as (
      -- The tenant sees only errors that the provider reported: a final refusal, or the reason why a message is not
      -- sent yet.
      select started_at as at, 1 as rank, 'attempt' as kind, name, outcome, jsonb_build_object(
        'job_id', job_id, 'attempt', attempt, 'ended_at', ${iso(sql`ended_at`)},
        'in_doubt', in_doubt, 'rotated', rotated,
        'error', case
          when outcome = 'declined' or (outcome = 'retry' and error ? 'provider_message') then error
          when error is not null then ${sql.json(HIDDEN_ERROR)}::jsonb end) as details
      from attempt
      union all
      select first_sent_at, 2, 'provider_call', operation, outcome, jsonb_build_object(
        'job_id', job_id, 'generation', generation, 'last_sent_at', ${iso(last_sent_at)},
        'provider_reference', provider_reference)
      from call where first_sent_at is not null
      union all
      select n.received_at, 3, 'notification', n.kind, n.state, jsonb_build_object(
        'provider', n.provider, 'event_id', n.event_id, 'object_id', n.object_id,
        'applied_at', ${iso(sql`n.applied_at`)})
      from all_notifications n
      where n.tenant_id = ${tenant_id} and n.resource = ${resource} and n.resource_id = ${resource_id}
      union all
      select t.created_at, 4, 'posting', t.kind, null, jsonb_build_object(
        'transfer_id', t.id, 'subject_id', t.subject_id, 'debit_account', t.debit_account,
        'credit_account', t.credit_account, 'currency', ${currency}, 'amount_minor', t.amount_minor)
      from ledger_transfers t
      where t.tenant_id = ${tenant_id} and t.subject_id in (${ids})
      union all
      select e.created_at, 5, 'event', e.type, null, jsonb_strip_nulls(jsonb_build_object('event_id', e.id,
        'decided_by_key_id', e.data -> 'decided_by_key_id', 'failure', e.data #> '{failure,code}'))
      from events e where e.tenant_id = ${tenant_id} and e.subject_id = ${resource_id}
    ), page as (
      select * from entry where at < ${before} order by at desc fetch first ${limit} rows with ties
    )
    select at, kind, name, outcome, details from page order by at, rank`
}

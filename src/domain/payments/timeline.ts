// A payment explained: what was asked, tried, answered, told, posted and announced, in order.
import { z } from 'zod'
import { anyJson } from '#core/json.ts'
import { timestamp } from '#core/time.ts'
import type { Sql } from '#core/db.ts'

export const timelineEntrySchema = z
  .object({
    at: timestamp,
    kind: z.enum(['attempt', 'provider_call', 'notification', 'posting', 'event']),
    /** `payment.capture`, `capture`, `payment_intent.succeeded`, `refund`, `payment.captured`, ... */
    name: z.string(),
    outcome: z.string().nullable(),
    details: z.record(z.string(), anyJson),
  })
  .meta({ id: 'TimelineEntry' })

export type TimelineEntry = z.output<typeof timelineEntrySchema>

/** Instead of what an attempt ran into on our side, which its row keeps for the operators. */
const UNTOLD = { code: 'processor_error', message: 'The attempt did not come to an end that is known.' }

/**
 * What happened to a payment and its refunds, oldest first: the last `limit` entries before `before`. Entries of one moment stay
 * together, so that the moment is a cursor: there may be a few more.
 */
export async function listTimeline(
  sql: Sql,
  tenant_id: string,
  payment_id: string,
  { before = 'infinity', limit }: { before?: string; limit: number },
): Promise<TimelineEntry[]> {
  return await sql<TimelineEntry[]>`
    with job as (
      select id, name from jobs where tenant_id = ${tenant_id} and subject_id = ${payment_id}
    ), entry as (
      -- Of errors only those of a definitive refusal are meant for the tenant.
      select a.started_at as at, 1 as rank, 'attempt' as kind, job.name, a.outcome, jsonb_build_object(
        'job_id', job.id, 'attempt', a.attempt, 'ended_at', a.ended_at,
        'error', case when a.outcome = 'declined' then a.error when a.error is not null then ${sql.json(UNTOLD)}::jsonb end) as details
      from job join job_attempts a on a.tenant_id = ${tenant_id} and a.job_id = job.id
      union all
      select c.first_sent_at, 2, 'provider_call', c.operation, c.outcome, jsonb_build_object(
        'job_id', job.id, 'generation', c.generation, 'last_sent_at', c.last_sent_at, 'provider_reference', c.provider_reference)
      from job join provider_calls c on c.tenant_id = ${tenant_id} and c.job_id = job.id where c.first_sent_at is not null
      union all
      select n.received_at, 3, 'notification', n.kind, n.state, jsonb_build_object(
        'provider', n.provider, 'event_id', n.event_id, 'object_id', n.object_id, 'applied_at', n.applied_at)
      from notifications n where n.tenant_id = ${tenant_id} and n.subject_id = ${payment_id}
      union all
      select t.created_at, 4, 'posting', t.kind, null, jsonb_build_object('transaction_id', t.id, 'subject_id', t.subject_id)
      from ledger_transactions t
      where t.tenant_id = ${tenant_id} and t.subject_id in (
        select ${payment_id}::uuid union all select r.id from refunds r where r.tenant_id = ${tenant_id} and r.payment_id = ${payment_id})
      union all
      select e.created_at, 5, 'event', e.type, null, jsonb_build_object('event_id', e.id)
      from events e where e.tenant_id = ${tenant_id} and e.subject_id = ${payment_id}
    ), page as (
      select * from entry where at < ${before} order by at desc fetch first ${limit} rows with ties
    )
    select at, kind, name, outcome, case when kind <> 'posting' then details else details || jsonb_build_object('entries', (
      select jsonb_agg(jsonb_build_object('account', e.account, 'currency', e.currency, 'amount_minor', e.amount_minor) order by e.account)
      from ledger_entries e where e.tenant_id = ${tenant_id} and e.transaction_id = (details ->> 'transaction_id')::uuid)) end as details
    from page order by at, rank`
}

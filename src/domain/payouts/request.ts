// Requests to create and cancel payouts, each in one statement. `fail.ts` has manual failures.
import type { Fragment, Json, Sql } from '#core/db.ts'
import { cancelPayout, createPayout } from '#jobs/payouts.ts'
import { requestJson } from '#jobs/job.ts'
import { insertingEvents, type EventType } from '../events.ts'
import {
  isKeyUsed,
  jobRequestColumns,
  keyColumns,
  storingKeys,
  type IdempotentRequest,
  type JobRequest,
} from '../idempotency.ts'
import { enqueuingJobs } from '../jobs/request.ts'
import { freeing, reserving } from '../ledger.ts'
import { providerMetadata } from '../provider-metadata.ts'
import { hasUnknownDestination } from '../recovered/parties.ts'
import { payoutsWait } from '../switches/holds.ts'
import { payoutColumns } from './find.ts'
import type { Payout } from './payout.ts'

export type PayoutRequest = JobRequest & {
  payout_id: string
  amount_minor: number
  /**
   * Whether the amount can be settled in its currency. Checked in the statement, because errors of the recipient take
   * precedence.
   */
  exact: boolean
  /** In lower case. */
  currency: string
  recipient_id: string
  description: string | null
  metadata: Json
  processor: string
}

/** The result of a request. */
export type PayoutResult = {
  result:
    | 'accepted'
    | 'key_used'
    | 'recipient_not_found'
    | 'recipient_archived'
    | 'recipient_lost'
    | 'other_currency'
    | 'recipient_rejected'
    | 'too_precise'
    | 'insufficient_balance'
  /** The available balance at the decision; null if the request was refused earlier. */
  available_minor: number | null
  /** The accepted payout; undefined if it was refused. */
  payout: Payout | undefined
}

/**
 * Creates payouts, reserves their amounts and inserts their jobs. The available balance is read from the locked row of
 * the account. Requests for one account are decided in the order of `requests`. Returns the result by payout id. Throws
 * a unique violation, and writes nothing, when another request uses one of the keys at the same time.
 */
export async function requestPayouts(
  sql: Sql,
  requests: PayoutRequest[],
): Promise<Map<string, PayoutResult>> {
  const items = requests.map((request, nth) => ({ ...request, nth }))
  // The keys have the same order in every statement, so that statements with the same keys cannot deadlock.
  const keys = sql`
    select tenant_id, idempotency_key, route, fingerprint, payout_id as resource_id, job_id from accepted
    order by tenant_id, idempotency_key, route`
  const new_events = sql`
    select p.*, a.event_id, ${'payout.created' satisfies EventType} as event from p join accepted a
      on a.payout_id = p.id`
  const request = requestJson(sql, createPayout, {
    destination: sql`destination`,
    amount_minor: sql`amount_minor`,
    currency: sql`currency`,
    description: sql`description`,
    metadata: providerMetadata(sql, 'payout', ['recipient_id']),
  })
  const rows = await sql<(Payout & Omit<PayoutResult, 'payout'> & { payout_id: string })[]>`
    with recursive requests as (
      select a.*, r.destination, case
          when ${isKeyUsed(sql, 'payout')} then 'key_used'
          when r.id is null then 'recipient_not_found'
          when r.archived_at is not null then 'recipient_archived'
          when ${hasUnknownDestination(sql)} then 'recipient_lost'
          when r.currency <> a.currency then 'other_currency'
          when r.kyc_status = 'rejected' then 'recipient_rejected'
          when not a.exact then 'too_precise' end as result
      from jsonb_to_recordset(${sql.json(items)}) as a(
        ${jobRequestColumns(sql)}, nth integer, payout_id uuid, amount_minor bigint, exact boolean, currency text,
        recipient_id uuid, description text, metadata jsonb, processor text)
      left join lateral (
        select * from recipients r where r.tenant_id = a.tenant_id and r.id = a.recipient_id offset 0) r on true
    ), ${reserving(sql, sql`select * from requests where result is null`)},
    accepted as (
      select * from decided where reserved
    ), p as (
      insert into payouts (tenant_id, id, idempotency_key, amount_minor, currency, recipient_id, description, metadata,
        processor)
      select tenant_id, payout_id, idempotency_key, amount_minor, currency, recipient_id, description,
        coalesce(metadata, 'null'), processor
      from accepted order by tenant_id, idempotency_key
      returning *
    ),
    stored_keys as (${storingKeys(sql, 'payout', keys)}),
    event as (${insertingEvents(sql, 'payout', new_events)}),
    job as (${enqueuingJobs(sql, createPayout, 'payout', sql`accepted`, request)})
    select result.*, p.*
    from (
      select payout_id, available_minor, case when reserved then 'accepted' else 'insufficient_balance' end as result
      from decided
      union all
      select payout_id, null, result from requests where result is not null
    ) result
    left join (select ${payoutColumns(sql)} from p) p on p.id = result.payout_id`
  return new Map(
    rows.map(({ payout_id, result, available_minor, ...payout }) => [
      payout_id,
      { result, available_minor, payout: result === 'accepted' ? payout : undefined },
    ]),
  )
}

export type PayoutCancelRequest = JobRequest & { payout_id: string }

/**
 * Requests cancellations of payouts. `canceled`: the payout certainly has not reached the processor. `canceling`: a
 * job cancels the payout at the processor. `recorded`: the payout's call is in progress or unknown, and its outcome
 * decides. Returns the accepted payouts by id.
 */
export async function requestPayoutCancels(
  sql: Sql,
  requests: PayoutCancelRequest[],
): Promise<Map<string, 'canceled' | 'canceling' | 'recorded'>> {
  const guard = sql`
    p.cancel_requested_at is null and p.fail_requested_at is null
    and (p.status = 'pending' or (p.status = 'processing' and p.processor_reference is not null))`
  const canceled = sql`select * from p where accepted = 'canceled'`
  const keys = sql`
    select tenant_id, request_key as idempotency_key, route, fingerprint, payout_id as resource_id,
      case when accepted = 'canceling' then job_id end as job_id
    from p`
  const new_events = sql`select e.*, ${'payout.canceled' satisfies EventType} as event from (${canceled}) e`
  const canceling = sql`(select * from p where accepted = 'canceling') p`
  const request = requestJson(sql, cancelPayout, { reference: sql`processor_reference` })
  const rows = await sql<{ id: string; accepted: 'canceled' | 'canceling' | 'recorded' }[]>`
    with locked as (
      select a.*, a.idempotency_key as request_key, p.accepted, p.status_before from (
        select * from jsonb_to_recordset(${sql.json(requests)}) as a(
          ${jobRequestColumns(sql)}, payout_id uuid)
        where not ${isKeyUsed(sql)}
        order by tenant_id, payout_id
      ) a
      cross join lateral (
        select case when p.status = 'processing' then 'canceling'
          when p.call_started_at is null and not ${payoutsWait(sql)} then 'canceled'
          else 'recorded' end as accepted, p.status as status_before
        from payouts p where p.tenant_id = a.tenant_id and p.id = a.payout_id and ${guard} for update
      ) p
    ), p as (
      update payouts p set status = case when l.accepted = 'canceled' then 'canceled' else l.status_before end,
        cancel_requested_at = case when l.accepted <> 'canceled' then clock_timestamp() end,
        canceled_at = case when l.accepted = 'canceled' then clock_timestamp() end,
        updated_at = clock_timestamp()
      from locked l where p.tenant_id = l.tenant_id and p.id = l.payout_id
      returning p.*, l.payout_id, l.accepted, l.job_id, l.event_id, l.will_wake, l.route, l.fingerprint, l.request_id,
        l.request_key
    ),
    stored_keys as (${storingKeys(sql, 'payout', keys)}),
    event as (${insertingEvents(sql, 'payout', new_events)}),
    job as (${enqueuingJobs(sql, cancelPayout, 'payout', canceling, request)}),
    ${freeing(sql, canceled)}
    select id, accepted from p`
  return new Map(rows.map(({ id, accepted }) => [id, accepted]))
}

/**
 * Joins the cancellation or manual failure of an open payout that was accepted before: stores the idempotency key
 * with `job` (a job id or null). Undefined when there is no such cancellation or failure. Call it after the request
 * itself was refused.
 */
export async function joinPayoutEnd(
  sql: Sql,
  request: IdempotentRequest & { payout_id: string },
  job: Fragment,
): Promise<{ job_id: string | null } | undefined> {
  const [joined] = await sql<{ job_id: string | null }[]>`
    with joined as (
      select a.*, p.id as resource_id, ${job} as job_id
      from jsonb_to_recordset(${sql.json([request])}) as a(
        ${keyColumns(sql)}, tenant_id uuid, payout_id uuid)
      join payouts p on p.tenant_id = a.tenant_id and p.id = a.payout_id and p.open
        and (p.cancel_requested_at is not null or p.fail_requested_at is not null)
      where not ${isKeyUsed(sql)}
    ), stored_keys as (${storingKeys(sql, 'payout', sql`select * from joined`)})
    select job_id from joined`
  return joined
}

/**
 * Joins a cancellation or manual failure that is in progress or recorded. `job_id`: the job of the cancellation, null
 * while it is recorded.
 */
export async function joinPayoutCancel(
  sql: Sql,
  request: IdempotentRequest & { payout_id: string },
): Promise<{ job_id: string | null } | undefined> {
  return await joinPayoutEnd(sql, request, cancellationJobOf(sql))
}

/** The open job that cancels the payout of the request `a` at the processor. */
function cancellationJobOf(sql: Sql): Fragment {
  return sql`(
    select j.id from jobs j
    where j.tenant_id = a.tenant_id and j.resource_id = a.payout_id and j.name = ${cancelPayout.name}
      and j.finished_at is null
    order by j.created_at desc limit 1)`
}

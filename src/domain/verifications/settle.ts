// Settles verifications by what their provider says: one statement moves the verification on and ends the job.
// The status of who is verified follows by a trigger.
import { newId } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { cancelDuplicateVerification } from '#jobs/verifications.ts'
import { announce } from '../events.ts'
import { finishing, holding, settleJobs, type FailedRow, type Settlement } from '../jobs/settle.ts'
import { filing, waking } from '../notifications/settle.ts'
import { CANCELLATIONS, cancelSessions } from './cancel.ts'

/**
 * What became known of a verification.
 * - `requires_input`, `processing`, `verified`, `canceled`: how its session stands at the provider;
 * - `refused`: the provider did not take it, and has no session;
 * - `kept`: the provider has not let go of the session; it is asked again when the session is heard of again.
 */
export type VerificationTold = {
  tenant_id: string
  kyc_id: string
  said: 'requires_input' | 'processing' | 'verified' | 'canceled' | 'refused' | 'kept'
  /** The database's time before the provider was asked; null: it may have answered so long ago. */
  as_of: string | null
  provider_reference: string | null
  failure: { code: string; message: string } | null
  /** A link that nobody has seen, sealed for the job, and for how long it is good. */
  link: { sealed: string; lives_ms: number } | null
}

/** A report that says nothing of the verification but how it stands. */
export const nothingReportedOfVerification = {
  as_of: null,
  provider_reference: null,
  failure: null,
  link: null,
} as const

/** The settlement of a job with what it was told, and with the notification that brought this, if one did. */
export type VerificationSettlement = Settlement & { told: VerificationTold; notification_id: string | null }

/** So many links that nobody has taken are kept of one verification. */
const MOST_LINKS = 20

/**
 * Settles jobs that were told something of a verification, in one statement. No two settlements of one call may be of the
 * same verification. `requires_input` and `processing` follow each other in both directions: of two answers the one
 * that was asked for later holds. What is decided stays so, whatever is told. Returns the ids of the jobs whose lease
 * was still ours; for the others nothing was written.
 */
export async function settleVerifications(
  sql: Sql | Tx,
  settlements: VerificationSettlement[],
): Promise<Set<string>> {
  const items = settlements.map(({ told, notification_id, ...settlement }) => ({
    ...settlement,
    change: {
      ...told,
      notification_id,
      event_id: newId(),
      cancel_job_id: newId(),
    },
  }))
  const announced = sql`
    select v.*, 'kyc.' || v.status as event from v
    where v.status <> v.before or v.failure is distinct from v.failure_before`
  const known = sql`select provider, provider_reference as reference from v`
  const canceled = sql`
    select tenant_id, kyc_id, provider_reference, cancel_job_id as job_id, request_id from v where to_cancel`
  const rows = await sql<{ id: string }[]>`
    with ${holding(sql, items)},
    told as (
      select held.job_id, held.request_id, c.* from held cross join lateral jsonb_to_record(held.change) as c(
        tenant_id uuid, kyc_id uuid, said text, as_of timestamptz, provider_reference text, failure jsonb, link jsonb,
        event_id uuid, cancel_job_id uuid, notification_id uuid)
    ), ${stepping(sql)},
    v as (
      update verifications v set status = s.becomes,
        failure = case when s.applies then s.failure else (s.was).failure end,
        provider_reference = coalesce((s.was).provider_reference, s.provider_reference),
        told_as_of = greatest((s.was).told_as_of, s.as_of),
        decision = case when s.decides then s.becomes else (s.was).decision end,
        decided_by = case when s.decides then 'provider' else (s.was).decided_by end,
        decided_at = case when s.decides then clock_timestamp() else (s.was).decided_at end,
        cancel_requested_at = case when s.to_cancel then clock_timestamp()
          when s.said not in ('processing', 'kept') then (s.was).cancel_requested_at end,
        cancellation_reason = case
          when (s.was).cancellation_reason = 'subject_gone' or s.said not in ('processing', 'kept')
            then (s.was).cancellation_reason end,
        links = case when s.becomes <> 'requires_input' then '{}'
          when s.link is not null then ${keptLinks(sql)} || jsonb_build_object(s.job_id, jsonb_build_object(
            'sealed', s.link ->> 'sealed', 'until', s.link_until))
          else (s.was).links end,
        links_until = case when s.becomes = 'requires_input' then greatest((s.was).links_until, s.link_until) end,
        updated_at = case when s.becomes <> s.before or (s.applies and s.failure is distinct from (s.was).failure)
            or ((s.was).provider_reference is null and s.provider_reference is not null)
            -- One that is abandoned is asked for again after the same time. Where the subject is gone each look asks,
            -- and looks at what stays as it is become rare.
            or (s.said = 'kept' and (s.was).open and (s.was).cancellation_reason is distinct from 'subject_gone')
          then clock_timestamp() else (s.was).updated_at end
      from step s where v.tenant_id = s.tenant_id and v.id = s.kyc_id
      returning v.*, s.kyc_id, s.before, (s.was).failure as failure_before, s.event_id, s.to_cancel, s.cancel_job_id,
        s.request_id
    ),
    event as (${announce(sql, 'kyc', announced)}),
    canceling as (${cancelSessions(sql, canceled)}),
    ${filing(sql, 'kyc')},
    ${waking(sql, known)},
    ${finishing(sql)}
    select id from job`
  return new Set(rows.map(({ id }) => id))
}

/** The parts `locked` and `step`: the rows that were told of, whether that `applies`, and what each becomes. */
function stepping(sql: Sql | Tx): Fragment {
  return sql`
    locked as (
      select told.*, v.was, v.status as before,
        -- One that was rejected without a decision: its call failed, as was said, and nobody gets the session's page.
        (v.decided_by = 'manual' or (v.open and v.cancellation_reason = 'subject_gone')
            or (v.status = 'rejected' and v.decided_by is null))
          and told.said = 'requires_input' and v.cancel_requested_at is null as to_cancel,
        case told.said
          when 'kept' then false
          when 'refused' then v.status = 'pending'
          when 'verified' then v.open
          when 'canceled' then v.open
          else v.status = 'pending'
            or (v.open and told.as_of > coalesce(v.told_as_of, '-infinity')) end as applies,
        case when told.said = 'canceled'
          then ${sql.json(CANCELLATIONS)}::jsonb -> coalesce(v.cancellation_reason, 'canceled')
          else told.failure end as fault,
        now() + (told.link ->> 'lives_ms')::float8 * interval '1 millisecond' as link_until
      from (select * from told order by tenant_id, kyc_id) told
      cross join lateral (
        select v as was, v.* from verifications v where v.tenant_id = told.tenant_id and v.id = told.kyc_id for update
      ) v
    ), step as (
      select job_id, request_id, tenant_id, kyc_id, said, as_of, provider_reference, fault as failure, link, link_until,
        event_id, cancel_job_id, notification_id, was, before, coalesce(to_cancel, false) as to_cancel,
        coalesce(applies, false) as applies,
        coalesce(applies, false) and said in ('verified', 'canceled') as decides,
        case when applies is not true then before
          when said = 'verified' then 'approved'
          when said in ('canceled', 'refused') then 'rejected'
          else said end as becomes
      from locked
    )`
}

/** The links of the locked row that are kept beside a new one. */
function keptLinks(sql: Sql | Tx): Fragment {
  return sql`
    case when (select count(*) from jsonb_object_keys((s.was).links)) < ${MOST_LINKS}
      then (s.was).links else '{}' end`
}

/** Settles a verification whose call never took effect: one that was not begun is rejected. */
export async function settleVerificationAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: kyc_id, operation, failure }: FailedRow,
): Promise<void> {
  if (operation === cancelDuplicateVerification.call.operation)
    return void (await settleJobs(tx, [settlement]))
  const said = operation === 'verify' ? 'refused' : 'kept'
  const told: VerificationTold = { ...nothingReportedOfVerification, tenant_id, kyc_id, said, failure }
  await settleVerifications(tx, [{ ...settlement, told, notification_id: null }])
}

// Settles updates of verifications: one statement updates the verification, inserts events and ends the job. A trigger
// updates the subject's `kyc_status`.
import { newId } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { cancelDuplicateVerification } from '#jobs/verifications.ts'
import { insertingEvents } from '../events.ts'
import { finishing, fencing, settleJobs, type FailedRow, type Settlement } from '../jobs/settle.ts'
import { assigning, resuming } from '../notifications/settle.ts'
import { CANCELLATION_FAILURES, cancelingSessions } from './cancel.ts'

/**
 * A reported update of a verification.
 * - `requires_input`, `processing`, `verified`, `canceled`: the status of its session at the provider;
 * - `refused`: the provider did not accept it, and has no session;
 * - `cancel_refused`: the provider did not cancel the session; the next report of the session repeats the request.
 */
export type VerificationUpdate = {
  tenant_id: string
  kyc_id: string
  reported: 'requires_input' | 'processing' | 'verified' | 'canceled' | 'refused' | 'cancel_refused'
  /** The database's time before the query to the provider; null: unknown, so any other answer may be newer. */
  as_of: string | null
  provider_reference: string | null
  failure: { code: string; message: string } | null
  /** The fingerprint of the content for which the session was opened; null: not known. */
  marks: { subject_fingerprint: string | null } | null
  /** A new link, sealed for the job, and its lifetime. */
  link: { sealed: string; valid_ms: number } | null
}

/** The optional fields of an update, all empty. */
export const emptyVerificationUpdate = {
  as_of: null,
  provider_reference: null,
  failure: null,
  marks: null,
  link: null,
} as const

/** The settlement of a job with an update of a verification, and with the notification that reported it, if any. */
export type VerificationSettlement = Settlement & {
  update: VerificationUpdate
  notification_id: string | null
}

/** The maximum number of unused links per verification. */
const MAX_STORED_LINKS = 20

/**
 * Settles jobs with updates of verifications, in one statement. The settlements of one call must be of different
 * verifications. `requires_input` and `processing` can follow each other in both directions: of two answers, the
 * answer to the later query wins. Decisions are final. An outdated verification ends rejected and without a decision:
 * its session was opened for other content of its party, or its party has a later verification. Returns the ids of the
 * jobs that passed the fence; for others nothing is written.
 */
export async function settleVerifications(
  sql: Sql | Tx,
  settlements: VerificationSettlement[],
): Promise<Set<string>> {
  const items = settlements.map(({ update, notification_id, ...settlement }) => ({
    ...settlement,
    change: {
      ...update,
      notification_id,
      event_id: newId(),
      cancel_job_id: newId(),
    },
  }))
  const new_events = sql`
    select v.*, 'kyc.' || v.status as event from v
    where v.status <> v.status_before or v.failure is distinct from v.failure_before`
  const references = sql`select provider, provider_reference as reference from v`
  const canceled = sql`
    select tenant_id, kyc_id, provider_reference, cancel_job_id as job_id, request_id from v where to_cancel`
  const rows = await sql<{ id: string }[]>`
    with ${fencing(sql, items)},
    updates as (
      select fenced.job_id, fenced.request_id, c.* from fenced cross join lateral jsonb_to_record(fenced.change) as c(
        tenant_id uuid, kyc_id uuid, reported text, as_of timestamptz, provider_reference text, failure jsonb,
          marks jsonb, link jsonb,
        event_id uuid, cancel_job_id uuid, notification_id uuid)
    ), ${computingTransitions(sql)},
    v as (
      update verifications v set status = s.status_after, outdated = s.outdated_after,
        failure = case when s.applies then s.failure else (s.row_before).failure end,
        provider_reference = coalesce((s.row_before).provider_reference, s.provider_reference),
        reported_as_of = greatest((s.row_before).reported_as_of, s.as_of),
        decision = case when s.decides then s.status_after else (s.row_before).decision end,
        decided_by = case when s.decides then 'provider' else (s.row_before).decided_by end,
        decided_at = case when s.decides then clock_timestamp() else (s.row_before).decided_at end,
        cancel_requested_at = case when s.to_cancel then clock_timestamp()
          when s.reported not in ('processing', 'cancel_refused') then (s.row_before).cancel_requested_at end,
        cancellation_reason = case
          when (s.row_before).cancellation_reason = 'subject_gone' or s.reported not in ('processing', 'cancel_refused')
            then (s.row_before).cancellation_reason end,
        links = case when s.status_after <> 'requires_input' then '{}'
          when s.link is not null and not s.outdated_after
            then ${storedLinks(sql)} || jsonb_build_object(s.job_id, jsonb_build_object(
              'sealed', s.link ->> 'sealed', 'until', s.link_until))
          else (s.row_before).links end,
        links_until = case when s.status_after = 'requires_input'
          then greatest((s.row_before).links_until, s.link_until) end,
        updated_at = case when s.status_after <> s.status_before
            or (s.applies and s.failure is distinct from (s.row_before).failure)
            or ((s.row_before).provider_reference is null and s.provider_reference is not null)
            -- A refused cancellation changes the update time, so an abandoned verification waits for its full time
            -- again before the next cancellation. If the subject was removed or the verification is outdated, the
            -- update time does not change: each lookup repeats the cancellation, and an unchanged row is looked up less
            -- and less often.
            or (s.reported = 'cancel_refused' and (s.row_before).open and not s.outdated_after
              and (s.row_before).cancellation_reason is distinct from 'subject_gone')
          then clock_timestamp() else (s.row_before).updated_at end
      from transition s where v.tenant_id = s.tenant_id and v.id = s.kyc_id
      returning v.*, s.kyc_id, s.status_before, (s.row_before).failure as failure_before, s.event_id, s.to_cancel,
        s.cancel_job_id, s.request_id
    ),
    event as (${insertingEvents(sql, 'kyc', new_events)}),
    canceling as (${cancelingSessions(sql, canceled)}),
    ${assigning(sql, 'kyc')},
    ${resuming(sql, references)},
    ${finishing(sql, settlements)}
    select id from job`
  return new Set(rows.map(({ id }) => id))
}

/** The parts `locked` and `transition`: the updates, whether each `applies` to its row, and the row's new values. */
function computingTransitions(sql: Sql | Tx): Fragment {
  return sql`
    locked as (
      select updates.*, v.row_before, v.outdated_after, v.status as status_before,
        -- A verification that is rejected without a decision was settled as failed. The page of its session is never
        -- shown to the person, so the session is canceled.
        (v.decided_by = 'manual' or (v.open and (v.cancellation_reason = 'subject_gone' or v.outdated_after))
            or (v.status = 'rejected' and v.decided_by is null))
          and updates.reported = 'requires_input' and v.cancel_requested_at is null as to_cancel,
        case updates.reported
          when 'cancel_refused' then false
          when 'refused' then v.status = 'pending'
          when 'verified' then v.open
          when 'canceled' then v.open
          else v.status = 'pending'
            or (v.open and updates.as_of > coalesce(v.reported_as_of, '-infinity')) end as applies,
        case when updates.reported in ('verified', 'canceled') and v.outdated_after
          then ${sql.json(CANCELLATION_FAILURES)}::jsonb -> 'outdated'
          when updates.reported = 'canceled'
          then ${sql.json(CANCELLATION_FAILURES)}::jsonb -> coalesce(v.cancellation_reason, 'canceled')
          else updates.failure end as reported_failure,
        now() + (updates.link ->> 'valid_ms')::float8 * interval '1 millisecond' as link_until
      from (select * from updates order by tenant_id, kyc_id) updates
      cross join lateral (
        select v as row_before, v.*, v.outdated or (v.open and updates.marks is not null
          and updates.marks ->> 'subject_fingerprint' is distinct from v.subject_fingerprint) as outdated_after
        from verifications v
        where v.tenant_id = updates.tenant_id and v.id = updates.kyc_id for update
      ) v
    ), transition as (
      select job_id, request_id, tenant_id, kyc_id, reported, as_of, provider_reference,
        reported_failure as failure, link, link_until, event_id, cancel_job_id, notification_id, row_before,
          status_before, outdated_after, coalesce(to_cancel, false) as to_cancel,
        coalesce(applies, false) as applies,
        coalesce(applies, false) and reported in ('verified', 'canceled') and not outdated_after as decides,
        case when applies is not true then status_before
          when reported = 'verified' and not outdated_after then 'approved'
          when reported in ('verified', 'canceled', 'refused') then 'rejected'
          else reported end as status_after
      from locked
    )`
}

/** The stored links of the locked row that remain when a new link is added. */
function storedLinks(sql: Sql | Tx): Fragment {
  return sql`
    case when (select count(*) from jsonb_object_keys((s.row_before).links)) < ${MAX_STORED_LINKS}
      then (s.row_before).links else '{}' end`
}

/** Settles a verification whose call had no effect: a verification without a session is rejected. */
export async function settleVerificationAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: kyc_id, operation, failure }: FailedRow,
): Promise<void> {
  if (operation === cancelDuplicateVerification.call.operation)
    return void (await settleJobs(tx, [settlement]))
  const reported = operation === 'verify' ? 'refused' : 'cancel_refused'
  const update: VerificationUpdate = {
    ...emptyVerificationUpdate,
    tenant_id,
    kyc_id,
    reported,
    failure,
  }
  await settleVerifications(tx, [{ ...settlement, update, notification_id: null }])
}

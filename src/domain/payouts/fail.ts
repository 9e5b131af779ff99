// Manual failures of payouts. A payout fails at once if it cannot be paid any more, otherwise as soon as that is
// certain. Operators can force a failure.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { cancelPayout } from '#jobs/payouts.ts'
import { requestJson } from '#jobs/job.ts'
import { insertingEvents, type EventType } from '../events.ts'
import {
  isKeyUsed,
  jobRequestColumns,
  storingKeys,
  type IdempotentRequest,
  type JobRequest,
} from '../idempotency.ts'
import { enqueuingJobs } from '../jobs/request.ts'
import { freeing } from '../ledger.ts'
import { payoutsWait } from '../switches/holds.ts'
import { payoutColumns } from './find.ts'
import type { Payout } from './payout.ts'
import { joinPayoutEnd } from './request.ts'

const MANUAL_FAILURE_CODE = 'failed_manually'

export type FailRequest = JobRequest & { payout_id: string; reason: string }

/**
 * How a manual failure was accepted. `failed`: nothing was sent, and the payout has failed. `canceling`: the
 * request's job cancels the payout at the processor. `recorded`: the outcome of the job `job_id` decides.
 */
type AcceptedFail = { accepted: 'failed' | 'canceling' | 'recorded'; job_id: string | null }

/**
 * Fails a payout manually. If no call can have reached the processor, the payout fails at once, its amount is freed,
 * and its job sends nothing. Otherwise the request is recorded on the row until the payout cannot be paid any more.
 * Returns `key_used` when the key was used before; undefined when the payout is not open, or a failure was requested
 * before.
 */
export async function requestPayoutFail(
  sql: Sql,
  request: FailRequest,
): Promise<AcceptedFail | 'key_used' | undefined> {
  const keys = sql`
    select tenant_id, request_key as idempotency_key, route, fingerprint, id as resource_id, awaited_job_id as job_id
    from p`
  const failed = sql`select * from p where accepted = 'failed'`
  const new_events = sql`select f.*, ${'payout.failed' satisfies EventType} as event from (${failed}) f`
  const canceling = sql`(select * from p where accepted = 'canceling') p`
  const cancel = requestJson(sql, cancelPayout, { reference: sql`processor_reference` })
  const [row] = await sql<(AcceptedFail & { key_used: boolean })[]>`
    with requests as (
      select a.*, ${isKeyUsed(sql)} as key_used from jsonb_to_recordset(${sql.json([request])}) as a(
        ${jobRequestColumns(sql)}, payout_id uuid, reason text)
    ), locked as (
      select a.*, p.status_before, p.accepted,
        case p.accepted when 'canceling' then a.job_id when 'recorded' then ${latestJobOf(sql)} end as awaited_job_id
      from requests a
      cross join lateral (
        select p.status as status_before, case
          when p.status = 'pending' and p.call_started_at is null and not ${payoutsWait(sql)} then 'failed'
          when p.status = 'processing' and p.cancel_requested_at is null then 'canceling'
          else 'recorded' end as accepted
        from payouts p
        where p.tenant_id = a.tenant_id and p.id = a.payout_id and p.open and p.fail_requested_at is null
        for update
      ) p
      where not a.key_used
    ), p as (
      update payouts p set updated_at = clock_timestamp(),
        status = case l.accepted when 'failed' then 'failed' else l.status_before end,
        failed_at = case l.accepted when 'failed' then clock_timestamp() end,
        fail_requested_at = case when l.accepted <> 'failed' then clock_timestamp() end,
        failure = ${manualFailure(sql, sql`l.reason`)}
      from locked l where p.tenant_id = l.tenant_id and p.id = l.payout_id
      returning p.*, l.payout_id, l.accepted, l.job_id, l.awaited_job_id, l.event_id, l.will_wake, l.route,
        l.fingerprint,
        l.request_id, l.idempotency_key as request_key
    ),
    stored_keys as (${storingKeys(sql, 'payout', keys)}),
    event as (${insertingEvents(sql, 'payout', new_events)}),
    job as (${enqueuingJobs(sql, cancelPayout, 'payout', canceling, cancel)}),
    ${freeing(sql, failed)}
    select g.key_used, p.accepted, p.awaited_job_id as job_id from requests g left join p on true`
  const { key_used, ...fail } = row!
  if (key_used) return 'key_used'
  // If the request was refused, the left join returns a row of nulls.
  return fail.accepted === null ? undefined : fail
}

/** Joins a manual failure or cancellation that was accepted before: see `joinPayoutEnd`. */
export async function joinPayoutFail(
  sql: Sql,
  request: IdempotentRequest & { payout_id: string },
): Promise<{ job_id: string | null } | undefined> {
  return await joinPayoutEnd(sql, request, latestJobOf(sql))
}

/**
 * Fails an open payout regardless of the processor, and frees its amount. Two operators must approve this, because the
 * processor may still pay it. Returns the payout; undefined when it is not open.
 */
export async function forcePayoutFail(
  tx: Tx,
  { tenant_id, payout_id, reason }: { tenant_id: string; payout_id: string; reason: string },
): Promise<(Payout & { may_be_paid: boolean }) | undefined> {
  const new_events = tx`
    select p.*, ${newId()}::uuid as event_id, ${'payout.failed' satisfies EventType} as event from p`
  const [payout] = await tx<(Payout & { may_be_paid: boolean })[]>`
    with p as (
      update payouts p set status = 'failed', failed_at = clock_timestamp(), updated_at = clock_timestamp(),
        cancel_requested_at = null, failure = ${manualFailure(tx, tx`${reason}::text`)}
      where p.tenant_id = ${tenant_id} and p.id = ${payout_id} and p.open
      returning *
    ),
    event as (${insertingEvents(tx, 'payout', new_events)}),
    ${freeing(tx, tx`select * from p`)}
    select ${payoutColumns(tx)}, call_started_at is not null or processor_reference is not null as may_be_paid from p`
  return payout
}

function manualFailure(sql: Sql | Tx, reason: Fragment): Fragment {
  return sql`jsonb_build_object('code', ${MANUAL_FAILURE_CODE}::text, 'message', ${reason}, 'manual', true)`
}

/**
 * The open job of the payout of the request `a`, or else its latest job. A caller who waits for the payout waits for
 * this job.
 */
function latestJobOf(sql: Sql): Fragment {
  return sql`(
    select j.id from all_jobs j where j.tenant_id = a.tenant_id and j.resource_id = a.payout_id
    order by j.finished_at is not null, j.created_at desc limit 1)`
}

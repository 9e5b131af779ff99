// Settles updates of payouts: one statement updates the payout, posts ledger transfers, frees reservations, inserts
// events and ends the job.
import { newId, newIdsInOrder } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { cancelPayout } from '#jobs/payouts.ts'
import { enqueuing, requestJson } from '#jobs/job.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { finishing, fencing, type FailedRow, type Settlement } from '../jobs/settle.ts'
import { postings } from '../ledger.ts'
import { assigning, resuming } from '../notifications/settle.ts'
import { closeDrift } from '../reconciliation/drift.ts'
import { requestingLookups } from '../reconciliation/lookups.ts'
import { exceptDuplicates } from '../reconciliation/except-duplicates.ts'

/**
 * A reported update of a payout.
 * - `processing`, `paid`, `failed`, `canceled`: its status at the processor;
 * - `refused`: the processor did not accept it, and has no record of it;
 * - `unsent`: certainly no call has reached the processor so far;
 * - `absent`: the processor has no record of it, and no call can create one any more;
 * - `cancel_refused`: the processor did not cancel it, so the request to cancel it has ended.
 */
export type PayoutUpdate = {
  tenant_id: string
  payout_id: string
  reported: 'processing' | 'paid' | 'failed' | 'canceled' | 'refused' | 'unsent' | 'absent' | 'cancel_refused'
  processor_reference: string | null
  arrival_date: string | null
  /** The paid amount that came back: the whole amount when the payout `failed`. */
  returned_minor: number
  /** Present if the payout failed or was refused. */
  failure: { code: string; message: string } | null
}

/** The optional fields of an update, all empty. */
export const emptyPayoutUpdate = {
  processor_reference: null,
  arrival_date: null,
  returned_minor: 0,
  failure: null,
} as const

/** The settlement of a job with an update of a payout, and with the notification that reported the update, if any. */
export type PayoutSettlement = Settlement & { update: PayoutUpdate; notification_id: string | null }

/**
 * The processor's statuses in ascending order: a stored status only moves forward. Only an existing object has a
 * status.
 */
const PROCESSOR_STATUS_ORDER = ['processing', 'paid', 'failed', 'canceled']
/** The reports that the processor has no record of a payout, at least so far. */
const UNSENT_REPORTS: PayoutUpdate['reported'][] = ['refused', 'unsent', 'absent']

/**
 * Settles jobs with updates of payouts, in one statement. The settlements of one call must be of different payouts.
 * Transfers follow the processor's movements of money, but a payout that operators failed, or that was canceled before
 * it was sent, keeps its status. If its status contradicts the processor's, a lookup is requested, which opens a drift.
 * Returns the ids of the jobs that passed the fence; for other jobs nothing is written.
 */
export async function settlePayouts(sql: Sql | Tx, settlements: PayoutSettlement[]): Promise<Set<string>> {
  // A separate statement closes the drift: the settling statement may wait for the row, and not see a drift that is
  // opened meanwhile.
  if ('begin' in sql && settlements.some(({ update }) => UNSENT_REPORTS.includes(update.reported)))
    return await sql.begin(async (tx) => await settlePayouts(tx, settlements))
  const references = sql`select processor as provider, processor_reference as reference from p`
  const rows = await sql<SettledRow[]>`
    with ${fencing(sql, settlements.map(changeOf))},
    updates as (
      select fenced.job_id, fenced.request_id, fenced.started_at as as_of,
        fenced.never_sent or fenced.rotate as never_sent, c.*
      from fenced cross join lateral jsonb_to_record(fenced.change) as c(
        tenant_id uuid, payout_id uuid, reported text, rank integer, processor_reference text, arrival_date text,
        returned_minor bigint, failure jsonb, status_event_id uuid, overtaken_event_id uuid, paid_transfer_id uuid,
        returned_transfer_id uuid, follow_up_job_id uuid, notification_id uuid)
    ), ${computingTransitions(sql)},
    p as (${updatingPayouts(sql)}),
    event as (${insertingEvents(sql, 'payout', newEvents(sql))}),
    ${postings(sql, newTransfers(sql), releasedReservations(sql), { by_reference: true })},
    follow_up as (${followUp(sql)}),
    ${assigning(sql, 'payout')},
    ${resuming(sql, references)},
    ${requestingLookups(sql, 'payout', contradictions(sql))},
    ${finishing(sql, settlements, retryDelay(sql))}
    select job.id, p.tenant_id, p.id as resource_id,
      p.status_before = 'failed' and p.not_sent and p.processor_reference is null as never_created
    from job left join p on p.job_id = job.id`
  for (const { never_created, ...row } of rows) {
    // Operators failed this payout while its call could still take effect. Now no call can: the drift is closed.
    if (never_created === true) await closeDrift(sql, { ...row, resource: 'payout' })
  }
  return new Set(rows.map(({ id }) => id))
}

/** The settlement as input of its statement, with ids for the rows that it may insert. */
function changeOf({ update, notification_id, ...settlement }: PayoutSettlement) {
  // The transfers of one statement are numbered in the order of their ids. Ordinary ids of one millisecond have no
  // order.
  const [paid_transfer_id, returned_transfer_id] = newIdsInOrder(2)
  const [status_event_id, overtaken_event_id] = newIdsInOrder(2)
  const ids = {
    status_event_id,
    overtaken_event_id,
    paid_transfer_id,
    returned_transfer_id,
    follow_up_job_id: newId(),
  }
  return {
    ...settlement,
    change: { ...update, rank: PROCESSOR_STATUS_ORDER.indexOf(update.reported) + 1, notification_id, ...ids },
  }
}

type SettledRow = { id: string; tenant_id: string; resource_id: string; never_created: boolean | null }

/**
 * The parts from `seen` to `transition`: the updated rows and their new values. `row_before` is the locked row; the
 * statement's snapshot may be older. `end_status`: the status when the payout cannot be paid any more. The first
 * accepted request decides it: a cancellation after a manual failure is not recorded. `paid` and `returned`: the
 * amounts after this update.
 */
function computingTransitions(sql: Sql | Tx): Fragment {
  const rankOf = sql`coalesce(array_position(${PROCESSOR_STATUS_ORDER}::text[], (p.row_before).processor_status), 0)`
  return sql`
    seen as (
      select updates.*, p.row_before, (p.row_before).status as status_before, (p.row_before).processor,
        (p.row_before).processor_reference as stored_reference,
        (p.row_before).open and (p.row_before).fail_requested_at is not null as is_failing,
        reported in ('refused', 'absent') or (reported = 'unsent' and never_sent) as not_sent,
        updates.rank > ${rankOf} as advances
      from (select * from updates order by tenant_id, payout_id) updates
      cross join lateral (
        select p as row_before from payouts p
        where p.tenant_id = updates.tenant_id and p.id = updates.payout_id for update
      ) p
    ), ${exceptDuplicates(sql)}, wanted as (
      select l.*, case when (row_before).open and (row_before).cancel_requested_at is not null then 'canceled'
          when is_failing then 'failed' end as end_status
      from locked l
    ), outcome as (
      select w.*, case when advances then reported else (row_before).processor_status end as processor_status_after,
        -- The arrival date may change: the answer to the attempt that began last wins.
        case when as_of > coalesce((row_before).reported_as_of, '-infinity')
            then coalesce(arrival_date, (row_before).arrival_date)
          else coalesce((row_before).arrival_date, arrival_date) end as arrival_date_after,
        case when advances and reported = 'paid' then (row_before).amount_minor
          else (row_before).paid_minor end as paid,
        case
          when advances and status_before in ('pending', 'processing', 'paid')
            then case reported when 'canceled' then coalesce(end_status, reported) else reported end
          when reported = 'refused' and status_before = 'pending' then 'failed'
          when not_sent and status_before = 'pending' then coalesce(end_status, status_before)
          else status_before end as status_after
      from wanted w
    ), transition as (
      select s.*, case
          when paid = 0 then 0
          when advances and reported in ('failed', 'canceled') then paid
          when reported = 'paid' and processor_status_after = 'paid'
            then greatest((row_before).returned_minor, least(returned_minor, paid))
          else (row_before).returned_minor end as returned
      from outcome s
    )`
}

/** Updates each payout to the new values in `transition`. */
function updatingPayouts(sql: Sql | Tx): Fragment {
  return sql`
    update payouts p set status = s.status_after,
      processor_status = s.processor_status_after,
      processor_reference = coalesce(s.stored_reference, s.processor_reference),
      paid_minor = s.paid, returned_minor = s.returned,
      call_started_at = case when not s.not_sent then (s.row_before).call_started_at end,
      cancel_requested_at = case when s.status_after in ('pending', 'processing') and s.reported <> 'cancel_refused'
        then (s.row_before).cancel_requested_at end,
      fail_requested_at = (s.row_before).fail_requested_at,
      arrival_date = s.arrival_date_after, reported_as_of = greatest((s.row_before).reported_as_of, s.as_of),
      failure = case when s.status_after = 'failed' and s.status_before <> 'failed' and not s.is_failing
          then s.failure || '{"manual": false}'
        when s.status_after in ('pending', 'processing', 'failed') then (s.row_before).failure end,
      processing_at = case when s.rank > 0 then coalesce((s.row_before).processing_at, clock_timestamp())
        else (s.row_before).processing_at end,
      paid_at = case when s.status_after = 'paid' then coalesce((s.row_before).paid_at, clock_timestamp())
        else (s.row_before).paid_at end,
      failed_at = case when s.status_after = 'failed' then coalesce((s.row_before).failed_at, clock_timestamp()) end,
      canceled_at = case when s.status_after = 'canceled'
        then coalesce((s.row_before).canceled_at, clock_timestamp()) end,
      updated_at = case when s.status_after <> s.status_before
          or s.processor_status_after is distinct from (s.row_before).processor_status
          or s.returned <> (s.row_before).returned_minor or s.reported = 'cancel_refused'
          or s.arrival_date_after is distinct from (s.row_before).arrival_date
        then clock_timestamp() else (s.row_before).updated_at end
    from transition s where p.tenant_id = s.tenant_id and p.id = s.payout_id
    returning p.*, s.status_before, (s.row_before).open as was_open, s.is_failing, s.not_sent,
      (s.row_before).paid_minor as paid_before, (s.row_before).returned_minor as returned_before, s.status_event_id,
      s.overtaken_event_id, s.paid_transfer_id, s.returned_transfer_id, s.follow_up_job_id, s.request_id, s.job_id`
}

/** The events of a new status, and of a payout that was paid although its failure was requested. */
function newEvents(sql: Sql | Tx): Fragment {
  return sql`
    select p.*, event.id as event_id, event.type as event
    from p cross join lateral (values
      (p.status_event_id, 'payout.' || p.status, p.status <> p.status_before),
      (p.overtaken_event_id, ${'payout.fail_overtaken' satisfies EventType}, p.is_failing and p.status = 'paid')
    ) event(id, type, happened)
    where event.happened`
}

/** The ledger transfers of paid and returned amounts. */
function newTransfers(sql: Sql | Tx): Fragment {
  return sql`
    select tenant_id, paid_transfer_id as transfer_id, 'payout_paid' as kind, id as subject_id,
      'available' as debit_account, 'processor_clearing' as credit_account, upper(currency) as currency, amount_minor,
        '' as reference
    from p where paid_minor > paid_before
    union all
    select tenant_id, returned_transfer_id, 'payout_returned', id, 'processor_clearing', 'available', upper(currency),
      returned_minor - returned_before, returned_before::text
    from p where returned_minor > returned_before`
}

/** The reservations of payouts that are no longer open. */
function releasedReservations(sql: Sql | Tx): Fragment {
  return sql`
    select tenant_id, upper(currency) as currency, 'available' as account, -amount_minor as reserved_delta
    from p where was_open and not open`
}

/**
 * Lookups of duplicates and of payouts that contradict their processor, one per contradiction. A notification of the
 * processor would cause the same lookup a little later.
 */
function contradictions(sql: Sql | Tx): Fragment {
  return sql`
    select * from duplicate
    union all
    select tenant_id, processor, processor_reference, status || ' here, ' || processor_status || ' there' from p
    where status in ('failed', 'canceled') and processor_status in ('processing', 'paid')
      and processor_reference is not null`
}

/**
 * The jobs of cancellations and manual failures that were recorded during the call, if the payout can still be
 * canceled. A payout to a connected account cannot be canceled, because it is paid as soon as it is accepted.
 */
function followUp(sql: Sql | Tx): Fragment {
  const request = requestJson(sql, cancelPayout, { reference: sql`p.processor_reference` })
  return enqueuing(
    sql,
    cancelPayout,
    sql`
      select p.follow_up_job_id as job_id, p.tenant_id, p.id as resource_id,
        jsonb_build_object('payout_id', p.id) as payload, false as will_wake, null::text as dedupe_key, p.request_id,
        ${request} as request
      from p where p.status_before = 'pending' and p.status = 'processing'
        and (p.cancel_requested_at is not null or p.is_failing)`,
  )
}

/** The delay of a job. A job whose payout has ended is due at once, because its next attempt ends the job. */
function retryDelay(sql: Sql | Tx): Fragment {
  return sql`
    case when fenced.job_id in (select job_id from p where not open)
      then 0 else fenced.delay_ms end`
}

/**
 * Settles a payout whose call had no effect: a payout that was not created fails, and a payout that was not canceled
 * continues.
 */
export async function settlePayoutAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: payout_id, operation, failure }: FailedRow,
): Promise<void> {
  const reported = operation === 'payout' ? 'refused' : 'cancel_refused'
  const update: PayoutUpdate = { ...emptyPayoutUpdate, tenant_id, payout_id, reported, failure }
  await settlePayouts(tx, [{ ...settlement, update, notification_id: null }])
}

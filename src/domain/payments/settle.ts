// Settles updates of payments: one statement updates the payment, posts ledger transfers, inserts events and ends the
// job.
import { newId } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { cancelDuplicatePayment, cancelPayment } from '#jobs/payments.ts'
import { enqueuing, requestJson } from '#jobs/job.ts'
import { finishing, fencing, settleJobs, type FailedRow, type Settlement } from '../jobs/settle.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { postings } from '../ledger.ts'
import { assigning, resuming } from '../notifications/settle.ts'
import { requestingLookups } from '../reconciliation/lookups.ts'
import { exceptDuplicates } from '../reconciliation/except-duplicates.ts'
import type { PaymentStatus } from './payment.ts'

/**
 * The statuses from which a payment may change to each status. In other statuses an update has no effect: a payment
 * never moves backwards.
 */
const ALLOWED_FROM: Record<PaymentUpdate['status'], PaymentStatus[]> = {
  requires_action: ['pending'],
  authorized: ['pending', 'requires_action'],
  captured: ['pending', 'requires_action', 'authorized', 'capturing', 'canceling'],
  canceled: ['pending', 'requires_action', 'authorized', 'capturing', 'canceling'],
  failed: ['pending', 'requires_action'],
}
/** The status of a payment while an operation is in progress. */
const STATUS_OF_OPERATION = { capture: 'capturing', cancel: 'canceling' } as const

/** An update of a payment by its processor. An amount of null leaves the stored amount unchanged. */
export type PaymentUpdate = {
  tenant_id: string
  payment_id: string
  status: 'requires_action' | 'authorized' | 'captured' | 'canceled' | 'failed'
  /** The operation that failed for good and left the payment in `status`. */
  failed_operation: 'capture' | 'cancel' | null
  processor_reference: string | null
  amount_capturable_minor: number | null
  amount_captured_minor: number | null
  /** Sealed. */
  client_secret: string | null
  capture_before: string | null
  /** When the processor authorized a payment that it has canceled since. */
  authorized_at: string | null
  cancellation_reason: string | null
  failure: { code: string; message: string; decline_code?: string | null } | null
}

/** The optional fields of an update, all empty. */
export const emptyPaymentUpdate: Omit<PaymentUpdate, 'tenant_id' | 'payment_id' | 'status'> = {
  failed_operation: null,
  processor_reference: null,
  amount_capturable_minor: null,
  amount_captured_minor: null,
  client_secret: null,
  capture_before: null,
  authorized_at: null,
  cancellation_reason: null,
  failure: null,
}

/** The settlement of a job with an update of a payment, and with the notification that reported the update, if any. */
export type PaymentSettlement = Settlement & {
  update: PaymentUpdate
  notification_id: string | null
}

/**
 * Settles jobs with updates of payments, in one statement. The settlements of one call must be of different payments.
 * Returns the ids of the jobs that passed the fence; for other jobs nothing is written.
 */
export async function settlePayments(sql: Sql | Tx, settlements: PaymentSettlement[]): Promise<Set<string>> {
  const new_events = sql`select * from p where event is not null`
  // The update is too late: a job ended the payment after the row was read and before it was locked.
  const too_late = sql`"to" in ('requires_action', 'authorized', 'captured')
    and status_before in ('failed', 'canceled')`
  const references = sql`select processor as provider, processor_reference as reference from p`
  const rows = await sql<{ id: string }[]>`
    with ${fencing(sql, settlements.map(changeOf))},
    updates as (
      select fenced.job_id, fenced.started_at as as_of, c.*
      from fenced cross join lateral jsonb_to_record(fenced.change) as c(
        tenant_id uuid, payment_id uuid, "to" text, "from" text[], processor_reference text,
        amount_capturable_minor bigint, amount_captured_minor bigint, client_secret text, capture_before timestamptz,
        authorized_at timestamptz, cancellation_reason text, failure jsonb, event text, event_id uuid,
        transfer_id uuid, follow_up_job_id uuid, notification_id uuid)
    ), seen as (
      -- Only single columns are passed on: the whole row would take 5% of the time of a capture.
      select updates.*, p.* from (select * from updates order by tenant_id, payment_id) updates
      cross join lateral (
        select p.processor, p.processor_reference as stored_reference, p.status as status_before,
          p.failure as failure_before,
          p.reported_as_of as previously_reported_as_of, p.amount_capturable_minor as capturable_minor_before,
          p.amount_captured_minor as captured_minor_before, p.client_secret as client_secret_before,
          p.capture_before as stored_capture_before, p.cancellation_reason as cancellation_reason_before,
          p.cancel_requested_at as cancel_requested_at_before, p.authorized_at as authorized_at_before
        from payments p where p.tenant_id = updates.tenant_id and p.id = updates.payment_id for update
      ) p
    ), ${exceptDuplicates(sql, too_late)},
    p as (${updatingPayments(sql)}),
    event as (${insertingEvents(sql, 'payment', new_events)}),
    ${optionalParts(sql, settlements)}
    ${resuming(sql, references)},
    ${requestingLookups(sql, 'payment', sql`select * from duplicate`)},
    ${finishing(sql, settlements)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** The parts that some settlements need. A part costs time even if it has no rows. */
function optionalParts(sql: Sql | Tx, settlements: PaymentSettlement[]): Fragment {
  const reports = (...statuses: PaymentUpdate['status'][]) =>
    settlements.some(({ update }) => statuses.includes(update.status))
  const captured = reports('captured') ? sql`${postings(sql, captureTransfers(sql))},` : sql``
  const held = reports('authorized', 'requires_action')
    ? sql`follow_up as (${enqueuing(sql, cancelPayment, cancellationJobs(sql))}),`
    : sql``
  const notified = settlements.some(({ notification_id }) => notification_id !== null)
    ? sql`${assigning(sql, 'payment')},`
    : sql``
  return sql`${captured} ${held} ${notified}`
}

/** The settlement as input of its statement, with ids for the rows that it may insert. */
function changeOf({ update, notification_id, ...settlement }: PaymentSettlement) {
  const { from, event } = transitionOf(update, notification_id !== null)
  const ids = { event_id: newId(), transfer_id: newId(), follow_up_job_id: newId() }
  return { ...settlement, change: { ...update, notification_id, to: update.status, from, event, ...ids } }
}

/** Updates each payment whose status may change to the reported one. */
function updatingPayments(sql: Sql | Tx): Fragment {
  return sql`
    update payments p set
      status = case when ${cancelsHold(sql)} then 'canceling' else l."to" end,
      processor_reference = coalesce(l.stored_reference, l.processor_reference),
      amount_capturable_minor = case when l."to" = 'authorized'
        then coalesce(l.amount_capturable_minor, l.capturable_minor_before) else 0 end,
      amount_captured_minor = case when l."to" = 'captured'
        then l.amount_captured_minor else l.captured_minor_before end,
      client_secret = case when l."to" = 'requires_action'
        then coalesce(l.client_secret, l.client_secret_before) end,
      capture_before = coalesce(l.capture_before, l.stored_capture_before),
      failure = l.failure, reported_as_of = greatest(l.previously_reported_as_of, l.as_of),
      cancellation_reason = case when l."to" = 'canceled'
        then coalesce(l.cancellation_reason_before, l.cancellation_reason)
        when l.status_before <> 'canceling' then l.cancellation_reason_before end,
      cancel_requested_at = case when l."to" = 'canceled' or l.status_before <> 'canceling'
        then l.cancel_requested_at_before end,
      authorized_at = case when l."to" in ('authorized', 'captured')
        then coalesce(l.authorized_at_before, clock_timestamp())
        else coalesce(l.authorized_at_before, l.authorized_at) end,
      captured_at = case when l."to" = 'captured' then clock_timestamp() end,
      canceled_at = case when l."to" = 'canceled' then clock_timestamp() end,
      updated_at = clock_timestamp()
    from locked l
    where p.tenant_id = l.tenant_id and p.id = l.payment_id and l.status_before = any(l."from")
      -- A buyer may be declined several times: the answer of the attempt that began last wins.
      and (l.status_before <> l."to" or (l.failure_before is distinct from l.failure
        and l.as_of > coalesce(l.previously_reported_as_of, '-infinity')))
    returning p.*, l."to", l.event, l.event_id, l.transfer_id, l.follow_up_job_id`
}

/** The ledger transfers of captures. */
function captureTransfers(sql: Sql | Tx): Fragment {
  return sql`
    select tenant_id, transfer_id, 'capture' as kind, id as subject_id, 'processor_clearing' as debit_account,
      'available' as credit_account, currency, amount_captured_minor as amount_minor
    from p where p."to" = 'captured'`
}

/** The jobs of cancellations that were requested during the authorization: the new hold must be released. */
function cancellationJobs(sql: Sql | Tx): Fragment {
  const cancel_request = requestJson(sql, cancelPayment, {
    reference: sql`p.processor_reference`,
    reason: sql`nullif(p.cancellation_reason, 'expired')`,
  })
  return sql`
    select p.follow_up_job_id as job_id, p.tenant_id, p.id as resource_id,
      jsonb_build_object('payment_id', p.id) as payload, false as will_wake, null::text as dedupe_key,
        fenced.request_id,
      ${cancel_request} as request
    from p
    join updates on updates.follow_up_job_id = p.follow_up_job_id
    join fenced on fenced.job_id = updates.job_id
    where p.status = 'canceling'`
}

/** Settles a payment whose operation had no effect. An existing hold remains. */
export async function settlePaymentAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: payment_id, operation, failure }: FailedRow,
): Promise<void> {
  if (operation === cancelDuplicatePayment.call.operation) return void (await settleJobs(tx, [settlement]))
  const [payment] = await tx<{ is_authorized: boolean }[]>`
    select authorized_at is not null as is_authorized from payments where tenant_id = ${tenant_id}
      and id = ${payment_id}`
  const update: PaymentUpdate = {
    ...emptyPaymentUpdate,
    tenant_id,
    payment_id,
    // A failed capture or cancellation returns the payment to its previous status.
    status:
      operation === 'authorize'
        ? 'failed'
        : payment?.is_authorized === true
          ? 'authorized'
          : 'requires_action',
    failed_operation: operation === 'capture' || operation === 'cancel' ? operation : null,
    failure,
  }
  await settlePayments(tx, [{ ...settlement, update, notification_id: null }])
}

/** The statuses from which an update changes the payment, and the type of the event. */
function transitionOf(
  { status, failed_operation, failure }: PaymentUpdate,
  from_notification: boolean,
): { from: PaymentStatus[]; event: EventType | null } {
  if (failed_operation !== null)
    return { from: [STATUS_OF_OPERATION[failed_operation]], event: `payment.${failed_operation}_failed` }
  // While the payment is pending, only its own job knows whether the buyer may still act, because a declined card has
  // the same status at the processor. So a notification changes only a payment that requires action already: it reports
  // an attempt of the buyer.
  if (from_notification && status === 'requires_action')
    return {
      from: ['requires_action'],
      event: failure === null ? null : 'payment.authorization_failed',
    }
  return { from: ALLOWED_FROM[status], event: `payment.${status}` }
}

/** Whether a cancellation was requested during the authorization, so the new hold must be released. */
function cancelsHold(sql: Sql | Tx): Fragment {
  return sql`(
    l."to" in ('authorized', 'requires_action') and l.status_before in ('pending', 'requires_action')
    and l.cancel_requested_at_before is not null)`
}

// Settles updates of refunds, and imports refunds that were made at the processor.
import { newId } from '#core/ids.ts'
import { violatedConstraint, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { finishing, fencing, type FailedRow, type Settlement } from '../jobs/settle.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { postings } from '../ledger.ts'
import { assigning, resuming } from '../notifications/settle.ts'
import { placeholderKey, type ObjectMarks } from '../provider-metadata.ts'
import { storingRecoveredKey } from '../recovered/row.ts'
import { findRefundByReference } from './find.ts'

/** An update of a refund by its processor. */
export type RefundUpdate = {
  tenant_id: string
  payment_id: string
  refund_id: string
  status: 'pending' | 'succeeded' | 'failed'
  processor_reference: string | null
  failure: { code: string; message: string } | null
}

/** The optional fields of an update, all empty. */
export const emptyRefundUpdate = { processor_reference: null, failure: null } as const

export type RefundSettlement = Settlement & { update: RefundUpdate; notification_id: string | null }

/** The processor's statuses in ascending order: a stored status only moves forward. */
const PROCESSOR_STATUS_ORDER = ['pending', 'succeeded', 'failed']

/**
 * Settles jobs with updates of refunds, in one statement. A refund moves from pending to succeeded or failed, or from
 * succeeded to failed, which returns the money to the tenant. Transfers follow the processor: a refund that an
 * operator resolved as failed keeps its status, but if the processor made it, it is posted and counted on its
 * payment, and a drift shows the contradiction. The settlements of one call must be of different payments. Returns
 * the ids of the jobs that passed the fence; for other jobs nothing is written.
 */
export async function settleRefunds(sql: Sql | Tx, settlements: RefundSettlement[]): Promise<Set<string>> {
  const new_events = sql`select * from changed`
  const references = sql`
    select processor as provider, unnest(array[processor_reference, payment_reference]) as reference from r`
  const rows = await sql<{ id: string }[]>`
    with ${fencing(sql, settlements.map(changeOf))},
    updates as (
      select fenced.job_id, c.* from fenced cross join lateral jsonb_to_record(fenced.change) as c(
        tenant_id uuid, payment_id uuid, refund_id uuid, status text, rank integer, processor_reference text,
        failure jsonb, event text, event_id uuid, transfer_id uuid, notification_id uuid)
    ), locked as (
      select updates.*, r as row_before, r.status as status_before, p.amount_refunded_minor,
        p.amount_refund_reserved_minor, p.amount_captured_minor, p.processor_reference as payment_reference,
        rank > coalesce(array_position(${PROCESSOR_STATUS_ORDER}::text[], r.processor_status), 0) as advances
      from updates
      join payments p on p.tenant_id = updates.tenant_id and p.id = updates.payment_id
      join refunds r on r.tenant_id = updates.tenant_id and r.id = updates.refund_id
      order by p.tenant_id, p.id
      for update of p, r
    ), transition as (
      select l.*, (row_before).out_minor as out_minor_before,
        case when status_before = 'pending' or (status_before = 'succeeded' and status = 'failed') then status
          else status_before end as status_after,
        case when status = 'failed' and (advances or status_before <> 'failed') then 0
          when status = 'succeeded' and (status_before = 'pending' or (status_before = 'failed' and advances
            -- If less than the amount is left to refund, another refund has reserved it. The processor must refuse that
            -- refund first.
            and amount_refund_reserved_minor + (row_before).amount_minor <= amount_captured_minor))
            then (row_before).amount_minor
          else (row_before).out_minor end as out_minor_after
      from locked l
    ), r as (
      update refunds r set updated_at = clock_timestamp(), status = s.status_after,
        failure = case when s.status_after = s.status_before and s.status_after = 'failed'
          then (s.row_before).failure else s.failure end,
        processor_reference = coalesce((s.row_before).processor_reference, s.processor_reference),
        processor_status = case when s.advances then s.status else (s.row_before).processor_status end,
        out_minor = s.out_minor_after
      from transition s
      where r.tenant_id = s.tenant_id and r.id = s.refund_id
        and (s.status_before = 'pending' or s.status_after <> s.status_before
          or s.out_minor_after <> s.out_minor_before)
      returning r.*, s.status_before, s.out_minor_before, s.amount_refunded_minor, s.amount_refund_reserved_minor,
        s.event, s.event_id, s.transfer_id, s.payment_reference
    ), changed as (
      select * from r where status <> status_before
    ), p as (
      update payments p set updated_at = clock_timestamp(),
        amount_refunded_minor = c.amount_refunded_minor + c.out_minor - c.out_minor_before,
        amount_refund_reserved_minor = c.amount_refund_reserved_minor
          + case when c.status <> 'failed' or c.out_minor > 0 then c.amount_minor else 0 end
          - case when c.status_before <> 'failed' or c.out_minor_before > 0 then c.amount_minor else 0 end
      from r c
      where p.tenant_id = c.tenant_id and p.id = c.payment_id
        and (c.status <> c.status_before or c.out_minor <> c.out_minor_before)
    ),
    event as (${insertingEvents(sql, 'refund', new_events)}),
    ${postings(sql, newTransfers(sql))},
    ${assigning(sql, 'payment')},
    ${resuming(sql, references)},
    ${finishing(sql, settlements)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** The settlement as input of its statement, with ids for the rows that it may insert. */
function changeOf({ update, notification_id, ...settlement }: RefundSettlement) {
  // Without a reference, the processor has no record of the refund.
  const rank = update.processor_reference === null ? 0 : PROCESSOR_STATUS_ORDER.indexOf(update.status) + 1
  // The event of a pending refund was inserted when the refund was created.
  const event = update.status === 'pending' ? null : (`refund.${update.status}` satisfies EventType)
  const ids = { event_id: newId(), transfer_id: newId() }
  return { ...settlement, change: { ...update, rank, event, notification_id, ...ids } }
}

/** The ledger transfers of money to buyers, and of money that came back. */
function newTransfers(sql: Sql | Tx): Fragment {
  return sql`
    select tenant_id, transfer_id, 'refund' as kind, id as subject_id, 'available' as debit_account,
      'processor_clearing' as credit_account, currency, amount_minor
    from r where out_minor > out_minor_before
    union all
    select tenant_id, transfer_id, 'refund_failed', id, 'processor_clearing', 'available', currency, amount_minor
    from r where out_minor < out_minor_before`
}

/** Settles a refund whose call had no effect, which frees its reserved amount. */
export async function settleRefundAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: refund_id, root_id: payment_id, failure }: FailedRow,
): Promise<void> {
  const update = { ...emptyRefundUpdate, tenant_id, payment_id, refund_id, failure }
  await settleRefunds(tx, [{ ...settlement, update: { ...update, status: 'failed' }, notification_id: null }])
}

/**
 * Inserts a refund that exists at the processor, as pending; the caller settles it next. `own`: the refund was created
 * here, and its row was lost; null: it was made at the processor. A failed refund is inserted as failed and reserves
 * nothing. `row_key`: the idempotency key of its row. An existing refund does not change. Returns the id of the refund.
 * `exists`: the row of the own refund was inserted meanwhile, or belongs to another refund of the processor. Undefined
 * when the payment is not captured here yet, or if other refunds have reserved the amount: the processor must refuse
 * them first, so retry later.
 */
export async function importRefund(
  sql: Sql,
  refund: {
    tenant_id: string
    payment_id: string
    processor: string
    processor_reference: string
    amount_minor: number
    /** The failure of the refund; null if the refund has not failed. */
    failure: { code: string; message: string } | null
    own: (ObjectMarks & { reason: string | null }) | null
  },
  row_key = refund.own?.idempotency_key ?? null,
): Promise<{ id: string } | 'exists' | undefined> {
  const status = refund.failure === null ? 'pending' : 'failed'
  const reserved_minor = refund.failure === null ? refund.amount_minor : 0
  const { own } = refund
  const event: EventType = own === null ? 'refund.created' : 'refund.recovered'
  const new_events = sql`
    select r.*, ${newId()}::uuid as event_id, ${event} as event from r
    union all
    select r.*, ${newId()}::uuid, ${'refund.failed' satisfies EventType} from r where status = 'failed'`
  const references = sql`
    select r.processor as provider, unnest(array[r.processor_reference, locked.processor_reference]) as reference
    from r cross join locked`
  const keyed = sql`(
    select r.tenant_id, r.id, r.payment_id, ${own?.idempotency_key ?? null}::text as idempotency_key,
      ${own?.fingerprint ?? null}::text as fingerprint from r) keyed`
  const route = sql`'POST /v1/payments/:id/refunds ' || payment_id`
  try {
    const [row] = await sql<{ id: string }[]>`
      with locked as (
        select p.* from payments p
        where p.tenant_id = ${refund.tenant_id} and p.id = ${refund.payment_id} and p.status = 'captured'
          and p.amount_refund_reserved_minor + ${reserved_minor} <= p.amount_captured_minor
        for update of p
      ), r as (
        insert into refunds (tenant_id, id, payment_id, imported, idempotency_key, reason, amount_minor, currency,
          processor, processor_reference, status, processor_status, failure, recovered_at)
        select tenant_id, ${own?.id ?? newId()}::uuid, id, ${own === null}, ${row_key}::text,
          ${own?.reason ?? null}::text, ${refund.amount_minor}::bigint, currency, ${refund.processor},
          ${refund.processor_reference}, ${status}, ${status}, nullif(${sql.json(refund.failure)}::jsonb, 'null'),
          case when ${own !== null} then clock_timestamp() end
        from locked returning *
      ),
      stored_keys as (${storingRecoveredKey(sql, 'refund', keyed, route)}),
      p as (
        update payments p set updated_at = clock_timestamp(),
          amount_refund_reserved_minor = p.amount_refund_reserved_minor + ${reserved_minor}
        from r where p.tenant_id = r.tenant_id and p.id = r.payment_id
      ),
      event as (${insertingEvents(sql, 'refund', new_events)}),
      ${resuming(sql, references)}
      select id from r`
    return row
  } catch (error) {
    // Another notification of the same refund was settled at the same time, or its request was repeated; nothing is
    // written here.
    const constraint = violatedConstraint(error)
    // The key of the lost refund was used again at another payment: the amount must be posted all the same.
    if (own !== null && constraint === 'refunds_idempotency' && row_key !== placeholderKey(own.id))
      return await importRefund(sql, refund, placeholderKey(own.id))
    if (own !== null && constraint?.startsWith('refunds_') === true && !constraint.endsWith('_created_at'))
      return 'exists'
    if (constraint !== 'refunds_processor_reference') throw error
    return await findRefundByReference(sql, refund.processor, refund.processor_reference)
  }
}

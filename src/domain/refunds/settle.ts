// Settles refunds by what their processor says, and imports refunds that were made there.
import { newId } from '#core/ids.ts'
import { violatedConstraint, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { finishing, holding, type FailedRow, type Settlement } from '../jobs/settle.ts'
import { announce, type EventType } from '../events.ts'
import { postings } from '../ledger.ts'
import { filing, waking } from '../notifications/settle.ts'
import { findRefundByReference } from './find.ts'

/** What the processor said of a refund of ours. */
export type RefundTold = {
  tenant_id: string
  payment_id: string
  refund_id: string
  status: 'pending' | 'succeeded' | 'failed'
  processor_reference: string | null
  failure: { code: string; message: string } | null
}

/** A report that says nothing of the refund but how it stands. */
export const nothingReportedOfRefund = { processor_reference: null, failure: null } as const

export type RefundSettlement = Settlement & { told: RefundTold; notification_id: string | null }

/** How far the processor has come: what it says of a refund moves only forward. */
const FURTHER = ['pending', 'succeeded', 'failed']

/**
 * Settles jobs that were told something of a refund: it moves from pending to succeeded or failed, or from succeeded to
 * failed, which gives the money back to the tenant. What the processor did and what the refund is here are two facts:
 * one that an operator resolved as failed stays so, but if the processor made it, it is posted, and its payment counts
 * it; a drift names both. No two settlements of one call may be of the same payment. Returns the ids of the jobs whose
 * lease was still ours; for the others nothing was written.
 */
export async function settleRefunds(sql: Sql | Tx, settlements: RefundSettlement[]): Promise<Set<string>> {
  const announced = sql`select * from changed`
  const known = sql`
    select processor as provider, unnest(array[processor_reference, payment_reference]) as reference from r`
  const rows = await sql<{ id: string }[]>`
    with ${holding(sql, settlements.map(changeOf))},
    told as (
      select held.job_id, c.* from held cross join lateral jsonb_to_record(held.change) as c(
        tenant_id uuid, payment_id uuid, refund_id uuid, status text, rank integer, processor_reference text,
        failure jsonb, event text, event_id uuid, transfer_id uuid, notification_id uuid)
    ), locked as (
      select told.*, r as was, r.status as before, p.amount_refunded_minor, p.amount_refund_reserved_minor,
        p.amount_captured_minor, p.processor_reference as payment_reference,
        rank > coalesce(array_position(${FURTHER}::text[], r.processor_status), 0) as moves
      from told
      join payments p on p.tenant_id = told.tenant_id and p.id = told.payment_id
      join refunds r on r.tenant_id = told.tenant_id and r.id = told.refund_id
      order by p.tenant_id, p.id
      for update of p, r
    ), step as (
      select l.*, (was).out_minor as out_before,
        case when before = 'pending' or (before = 'succeeded' and status = 'failed') then status else before end
          as becomes,
        case when status = 'failed' and (moves or before <> 'failed') then 0
          when status = 'succeeded' and (before = 'pending' or (before = 'failed' and moves
            -- Else a refund that reserves the amount must first be refused.
            and amount_refund_reserved_minor + (was).amount_minor <= amount_captured_minor)) then (was).amount_minor
          else (was).out_minor end as out
      from locked l
    ), r as (
      update refunds r set updated_at = clock_timestamp(), status = s.becomes,
        failure = case when s.becomes = s.before and s.becomes = 'failed' then (s.was).failure else s.failure end,
        processor_reference = coalesce((s.was).processor_reference, s.processor_reference),
        processor_status = case when s.moves then s.status else (s.was).processor_status end, out_minor = s.out
      from step s
      where r.tenant_id = s.tenant_id and r.id = s.refund_id
        and (s.before = 'pending' or s.becomes <> s.before or s.out <> s.out_before)
      returning r.*, s.before, s.out_before, s.amount_refunded_minor, s.amount_refund_reserved_minor, s.event,
        s.event_id, s.transfer_id, s.payment_reference
    ), changed as (
      select * from r where status <> before
    ), p as (
      update payments p set updated_at = clock_timestamp(),
        amount_refunded_minor = c.amount_refunded_minor + c.out_minor - c.out_before,
        amount_refund_reserved_minor = c.amount_refund_reserved_minor
          + case when c.status <> 'failed' or c.out_minor > 0 then c.amount_minor else 0 end
          - case when c.before <> 'failed' or c.out_before > 0 then c.amount_minor else 0 end
      from r c
      where p.tenant_id = c.tenant_id and p.id = c.payment_id and (c.status <> c.before or c.out_minor <> c.out_before)
    ),
    event as (${announce(sql, 'refund', announced)}),
    ${postings(sql, posting(sql))},
    ${filing(sql, 'payment')},
    ${waking(sql, known)},
    ${finishing(sql)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** The settlement as its statement takes it, with the ids of what it may write. */
function changeOf({ told, notification_id, ...settlement }: RefundSettlement) {
  // What has no record there was never made.
  const rank = told.processor_reference === null ? 0 : FURTHER.indexOf(told.status) + 1
  // A pending refund was announced when it was created.
  const event = told.status === 'pending' ? null : (`refund.${told.status}` satisfies EventType)
  const ids = { event_id: newId(), transfer_id: newId() }
  return { ...settlement, change: { ...told, rank, event, notification_id, ...ids } }
}

// The ledger entries for money that went to the buyer, and for money that came back.
function posting(sql: Sql | Tx): Fragment {
  return sql`
    select tenant_id, transfer_id, 'refund' as kind, id as subject_id, 'available' as debit_account,
      'processor_clearing' as credit_account, currency, amount_minor
    from r where out_minor > out_before
    union all
    select tenant_id, transfer_id, 'refund_failed', id, 'processor_clearing', 'available', currency, amount_minor
    from r where out_minor < out_before`
}

/** Settles a refund that was never made, which frees what it reserved. */
export async function settleRefundAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: refund_id, filed_under: payment_id, failure }: FailedRow,
): Promise<void> {
  const told = { ...nothingReportedOfRefund, tenant_id, payment_id, refund_id, failure }
  await settleRefunds(tx, [{ ...settlement, told: { ...told, status: 'failed' }, notification_id: null }])
}

/**
 * Imports a refund that was made at the processor, as pending; settling it is the next step. A refund that has
 * already failed is imported as failed and reserves nothing; one that is known here already stays as it is. Returns
 * its id. Undefined when the payment is not captured here yet, or the amount is reserved by refunds that the
 * processor will have to refuse: then try again later.
 */
export async function importRefund(
  sql: Sql,
  refund: {
    tenant_id: string
    payment_id: string
    processor: string
    processor_reference: string
    amount_minor: number
    /** Null unless it failed. */
    failure: { code: string; message: string } | null
  },
): Promise<{ id: string } | undefined> {
  const status = refund.failure === null ? 'pending' : 'failed'
  const reserved_minor = refund.failure === null ? refund.amount_minor : 0
  const announced = sql`
    select r.*, ${newId()}::uuid as event_id, ${'refund.created' satisfies EventType} as event from r
    union all
    select r.*, ${newId()}::uuid, ${'refund.failed' satisfies EventType} from r where status = 'failed'`
  const known = sql`
    select r.processor as provider, unnest(array[r.processor_reference, locked.processor_reference]) as reference
    from r cross join locked`
  try {
    const [row] = await sql<{ id: string }[]>`
      with locked as (
        select p.* from payments p
        where p.tenant_id = ${refund.tenant_id} and p.id = ${refund.payment_id} and p.status = 'captured'
          and p.amount_refund_reserved_minor + ${reserved_minor} <= p.amount_captured_minor
        for update of p
      ), r as (
        insert into refunds (tenant_id, id, payment_id, imported, amount_minor, currency, processor,
          processor_reference, status, processor_status, failure)
        select tenant_id, ${newId()}::uuid, id, true, ${refund.amount_minor}::bigint, currency, ${refund.processor},
          ${refund.processor_reference}, ${status}, ${status}, nullif(${sql.json(refund.failure)}::jsonb, 'null')
        from locked returning *
      ), p as (
        update payments p set updated_at = clock_timestamp(),
          amount_refund_reserved_minor = p.amount_refund_reserved_minor + ${reserved_minor}
        from r where p.tenant_id = r.tenant_id and p.id = r.payment_id
      ),
      event as (${announce(sql, 'refund', announced)}),
      ${waking(sql, known)}
      select id from r`
    return row
  } catch (error) {
    // Another notification of the same refund was faster; nothing was written here.
    if (violatedConstraint(error) !== 'refunds_processor_reference') throw error
    return await findRefundByReference(sql, refund.processor, refund.processor_reference)
  }
}

// Settles refunds by what their processor says, and imports refunds that were made there.
import { newId } from '#core/ids.ts'
import { violatedConstraint, type Sql, type Tx } from '#core/db.ts'
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

export type RefundSettlement = Settlement & { told: RefundTold; notification_id: string | null }

/**
 * Settles jobs that were told something of a refund: it moves from pending to succeeded or failed, or from succeeded
 * to failed, which gives the money back to the tenant. No two settlements of one call may be of the same payment.
 * Returns the ids of the jobs whose lease was still ours; for the others nothing was written.
 */
export async function settleRefunds(sql: Sql | Tx, settlements: RefundSettlement[]): Promise<Set<string>> {
  const items = settlements.map(({ told, notification_id, ...settlement }) => ({
    ...settlement,
    change: {
      ...told,
      notification_id,
      // A pending refund was announced when it was created.
      event: told.status === 'pending' ? null : (`refund.${told.status}` satisfies EventType),
      event_id: newId(),
      transfer_id: newId(),
    },
  }))
  const announced = sql`select * from changed`
  const to_post = sql`
    select tenant_id, transfer_id, 'refund' as kind, id as subject_id, 'available' as debit_account,
      'processor_clearing' as credit_account, currency, amount_minor
    from changed where status = 'succeeded'
    union all
    select tenant_id, transfer_id, 'refund_failed', id, 'processor_clearing', 'available', currency, amount_minor
    from changed where before = 'succeeded'`
  const known = sql`
    select processor as provider, unnest(array[processor_reference, payment_reference]) as reference from r`
  const rows = await sql<{ id: string }[]>`
    with ${holding(sql, items)},
    told as (
      select held.job_id, c.* from held cross join lateral jsonb_to_record(held.change) as c(
        tenant_id uuid, payment_id uuid, refund_id uuid, status text, processor_reference text, failure jsonb,
        event text, event_id uuid, transfer_id uuid, notification_id uuid)
    ), locked as (
      select told.*, r.status as before, r.processor_reference as known_reference, p.amount_refunded_minor,
        p.amount_refund_reserved_minor, p.processor_reference as payment_reference
      from told
      join payments p on p.tenant_id = told.tenant_id and p.id = told.payment_id
      join refunds r on r.tenant_id = told.tenant_id and r.id = told.refund_id
      order by p.tenant_id, p.id
      for update of p, r
    ), r as (
      update refunds r set status = l.status, failure = l.failure, updated_at = clock_timestamp(),
        processor_reference = coalesce(l.known_reference, l.processor_reference)
      from locked l
      where r.tenant_id = l.tenant_id and r.id = l.refund_id
        and (l.before = 'pending' or (l.before = 'succeeded' and l.status = 'failed'))
      returning r.*, l.before, l.amount_refunded_minor, l.amount_refund_reserved_minor, l.event, l.event_id,
        l.transfer_id, l.payment_reference
    ), changed as (
      select * from r where r.status <> r.before
    ), p as (
      update payments p set updated_at = clock_timestamp(),
        amount_refunded_minor = c.amount_refunded_minor + case
          when c.status = 'succeeded' then c.amount_minor
          when c.before = 'succeeded' then -c.amount_minor
          else 0 end,
        amount_refund_reserved_minor = c.amount_refund_reserved_minor
          - case when c.status = 'failed' then c.amount_minor else 0 end
      from changed c where p.tenant_id = c.tenant_id and p.id = c.payment_id
    ),
    event as (${announce(sql, 'refund', announced)}),
    ${postings(sql, to_post)},
    ${filing(sql, 'payment')},
    ${waking(sql, known)},
    ${finishing(sql)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** Settles a refund that was never made, which frees what it reserved. */
export async function settleRefundAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: refund_id, filed_under: payment_id, failure }: FailedRow,
): Promise<void> {
  const told = { tenant_id, payment_id, refund_id, processor_reference: null, failure }
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
          processor_reference, status, failure)
        select tenant_id, ${newId()}::uuid, id, true, ${refund.amount_minor}::bigint, currency, ${refund.processor},
          ${refund.processor_reference}, ${status}, nullif(${sql.json(refund.failure)}::jsonb, 'null')
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

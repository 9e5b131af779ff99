// Refunds: reserved on the payment's own row when asked for, settled as the processor tells, imported when made there.
import { z } from 'zod'
import { metadataJson } from '#core/json.ts'
import { newId } from '#core/ids.ts'
import { amountMinor, currencyCode } from '#core/money.ts'
import { timestamp } from '#core/time.ts'
import { violatedConstraint, type Fragment, type Json, type Sql, type Tx } from '#core/db.ts'
import { createRefund } from '#jobs/payments.ts'
import { enqueue } from '#jobs/job.ts'
import { recordCall } from '../jobs/calls.ts'
import { findWithJobs, type AskedFor, type Found } from '../jobs/found.ts'
import { isKnown, remember, type IdempotentRequest } from '../idempotency.ts'
import { finishing, holding, type Settlement } from '../jobs/settle.ts'
import { postings } from '../ledger.ts'
import { noted, waking } from '../notifications.ts'

/** A refund as it is answered. */
export const refundSchema = z
  .object({
    id: z
      .uuid()
      .meta({ description: 'The id of the refund.', example: '0198f6f1-4ef0-7000-8000-123456789abc' }),
    tenant_id: z
      .uuid()
      .meta({ description: 'Whose it is.', example: '0198f6ef-9a00-7000-8000-00000000ac3e' }),
    payment_id: z.uuid().meta({
      description: 'The payment that it gives back.',
      example: '0198f6f0-1234-7000-8000-123456789abc',
    }),
    idempotency_key: z.string().nullable().meta({
      description: "The key that it was created with; null for a refund made in the processor's dashboard.",
      example: 'order-17-refund',
    }),
    status: z.enum(['pending', 'succeeded', 'failed']).meta({
      id: 'RefundStatus',
      description:
        '`pending`: under way. `succeeded`: on its way to the buyer. `failed`: the money stays; also a refund that succeeded can fail, up to 30 days later.',
      example: 'succeeded',
    }),
    amount_minor: amountMinor,
    currency: currencyCode,
    reason: z
      .string()
      .nullable()
      .meta({ description: 'Why, if it was said.', example: 'requested_by_customer' }),
    imported: z
      .boolean()
      .meta({ description: "Whether it was made in the processor's dashboard.", example: false }),
    processor: z.string().meta({ description: 'Who moves the money.', example: 'stripe' }),
    processor_reference: z
      .string()
      .nullable()
      .meta({ description: 'The refund at the processor.', example: 're_3SV0Zw2eZvKYlo2C0aBcDeFg' }),
    failure: z
      .object({
        code: z.string().meta({ description: 'What went wrong.', example: 'processor_error' }),
        message: z
          .string()
          .meta({ description: 'The same for people.', example: 'The card was lost or stolen.' }),
      })
      .meta({ id: 'RefundFailure', description: 'Why a refund failed.' })
      .nullable()
      .meta({ description: 'Why it failed; null while it has not.', example: null }),
    metadata: metadataJson,
    created_at: timestamp.meta({ description: 'Unique among your refunds: the cursor of lists.' }),
    updated_at: timestamp.meta({ description: 'When it last changed.' }),
  })
  .meta({ id: 'Refund', description: 'Money that goes back.' })

export type Refund = z.output<typeof refundSchema>

export type RefundRequest = IdempotentRequest & {
  tenant_id: string
  payment_id: string
  refund_id: string
  job_id: string
  event_id: string
  rung: boolean
  /** Null: all that is left. */
  amount_minor: number | null
  reason: string | null
  metadata: Json
}

/**
 * Reserves refunds on captured payments and asks for them. The guard reads only the row it locks. Answers by id the refunds
 * `accepted`, and those whose key was `known`. No two requests of one call may be of the same payment or have the same key.
 */
export async function requestRefunds(
  sql: Sql,
  requests: RefundRequest[],
): Promise<Map<string, 'accepted' | 'known'>> {
  const rows = await sql<{ id: string; became: 'accepted' | 'known' }[]>`
    with given as (
      select a.*, ${isKnown(sql, 'refunds')} as known from jsonb_to_recordset(${sql.json(requests)}) as a(
        tenant_id uuid, payment_id uuid, refund_id uuid, job_id uuid, event_id uuid, rung boolean, idempotency_key text, scope text,
        fingerprint text, request_id text, amount_minor bigint, reason text, metadata jsonb)
    ), locked as (
      select a.*, p.amount_captured_minor - p.amount_refund_reserved_minor as left_minor
      from (select * from given where not known) a
      join payments p on p.tenant_id = a.tenant_id and p.id = a.payment_id
      where p.status = 'captured' and p.amount_refund_reserved_minor + coalesce(a.amount_minor, 1) <= p.amount_captured_minor
      order by p.tenant_id, p.id
      for update of p
    ), p as (
      update payments p set updated_at = clock_timestamp(),
        amount_refund_reserved_minor = p.amount_refund_reserved_minor + coalesce(l.amount_minor, l.left_minor)
      from locked l where p.tenant_id = l.tenant_id and p.id = l.payment_id
      returning l.*, p.currency, p.processor, p.processor_reference
    ), r as (
      insert into refunds (tenant_id, id, payment_id, idempotency_key, amount_minor, currency, reason, processor, metadata)
      select tenant_id, refund_id, payment_id, idempotency_key, coalesce(amount_minor, left_minor), currency, reason, processor,
        coalesce(metadata, 'null')
      from p
      returning *
    ), remembered as (${remember(sql, 'refund', sql`select *, refund_id as resource_id from p`)}
    ), event as (
      insert into events (tenant_id, id, type, subject_id, data)
      select r.tenant_id, p.event_id, 'refund.created', r.payment_id, to_jsonb(r) from r join p on p.refund_id = r.id
    ), job as (${enqueue(
      sql,
      createRefund,
      sql`
      select job_id, tenant_id, payment_id as subject_id, rung, null::text as dedupe_key, request_id,
        jsonb_build_object('payment_id', payment_id, 'refund_id', refund_id) as payload from p`,
    )}
    ), call as (${recordCall(
      sql,
      'refund',
      sql`
      select p.tenant_id, p.job_id, jsonb_build_object(
        'payment_reference', p.processor_reference,
        'amount_minor', r.amount_minor,
        'reason', r.reason,
        'metadata', jsonb_build_object(
          'sluice_refund_id', r.id, 'sluice_payment_id', r.payment_id, 'sluice_tenant_id', r.tenant_id)) as request
      from p join r on r.id = p.refund_id`,
    )}
    )
    select id, 'accepted' as became from r union all select refund_id, 'known' from given where known`
  return new Map(rows.map(({ id, became }) => [id, became]))
}

/** What the processor said of a refund that we know. */
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
 * Settles jobs that learnt something of a refund: pending to succeeded or failed, and succeeded to failed, which gives the
 * money back to the tenant. No two settlements of one call may be of the same payment. Answers the ids still ours.
 */
export async function settleRefunds(sql: Sql | Tx, settlements: RefundSettlement[]): Promise<Set<string>> {
  const items = settlements.map(({ told, notification_id, ...settlement }) => ({
    ...settlement,
    change: {
      ...told,
      // What goes on is not applied yet.
      notification_id: settlement.state === 'running' ? null : notification_id,
      event_id: newId(),
      transaction_id: newId(),
    },
  }))
  const rows = await sql<{ id: string }[]>`
    with ${holding(sql, items)},
    told as (
      select held.job_id, c.* from held cross join lateral jsonb_to_record(held.change) as c(
        tenant_id uuid, payment_id uuid, refund_id uuid, status text, processor_reference text, failure jsonb, event_id uuid,
        transaction_id uuid, notification_id uuid)
    ), locked as (
      select told.*, r.status as before, r.amount_minor, r.currency, p.processor_reference as payment_reference
      from told
      join payments p on p.tenant_id = told.tenant_id and p.id = told.payment_id
      join refunds r on r.tenant_id = told.tenant_id and r.id = told.refund_id
      order by p.tenant_id, p.id
      for update of p, r
    ), r as (
      update refunds r set status = l.status, failure = l.failure, updated_at = clock_timestamp(),
        processor_reference = coalesce(r.processor_reference, l.processor_reference)
      from locked l
      where r.tenant_id = l.tenant_id and r.id = l.refund_id
        and (r.status = 'pending' or (r.status = 'succeeded' and l.status = 'failed'))
      returning r.*, l.before, l.event_id, l.transaction_id, l.payment_reference
    ), moved_on as (
      select * from r where r.status <> r.before
    ), p as (
      update payments p set updated_at = clock_timestamp(),
        amount_refunded_minor = p.amount_refunded_minor + case
          when m.status = 'succeeded' then m.amount_minor
          when m.before = 'succeeded' then -m.amount_minor
          else 0 end,
        amount_refund_reserved_minor = p.amount_refund_reserved_minor - case when m.status = 'failed' then m.amount_minor else 0 end
      from moved_on m where p.tenant_id = m.tenant_id and p.id = m.payment_id
    ), event as (
      insert into events (tenant_id, id, type, subject_id, data)
      select m.tenant_id, m.event_id, 'refund.' || m.status, m.payment_id,
        to_jsonb(m) - array['before', 'event_id', 'transaction_id', 'payment_reference']
      from moved_on m
    ), ${postings(
      sql,
      sql`
      select tenant_id, transaction_id, case when status = 'succeeded' then 'refund' else 'refund_failed' end as kind, id as subject_id,
        currency, case when status = 'succeeded' then -amount_minor else amount_minor end as to_available
      from moved_on where status = 'succeeded' or before = 'succeeded'`,
    )},
    ${noted(sql)},
    ${waking(
      sql,
      sql`
      select processor as provider, unnest(array[processor_reference, payment_reference]) as reference from r`,
    )},
    ${finishing(sql)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/**
 * Takes in a refund that was made outside, as pending: settling it is the next step. One that has failed by now is taken
 * in as failed and reserves nothing. One that is known already stays as it is. Answers whose it is, or undefined when the
 * payment is not captured here yet or the amount is still reserved by refunds that the processor will have to refuse: then
 * it must be tried again.
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
  try {
    const [row] = await sql<{ id: string }[]>`
      with locked as (
        select p.* from payments p
        where p.tenant_id = ${refund.tenant_id} and p.id = ${refund.payment_id} and p.status = 'captured'
          and p.amount_refund_reserved_minor + ${reserved_minor} <= p.amount_captured_minor
        for update of p
      ), r as (
        insert into refunds (tenant_id, id, payment_id, imported, amount_minor, currency, processor, processor_reference, status, failure)
        select tenant_id, ${newId()}::uuid, id, true, ${refund.amount_minor}::bigint, currency, ${refund.processor},
          ${refund.processor_reference}, ${status}, nullif(${sql.json(refund.failure)}::jsonb, 'null')
        from locked returning *
      ), p as (
        update payments p set updated_at = clock_timestamp(),
          amount_refund_reserved_minor = p.amount_refund_reserved_minor + ${reserved_minor}
        from r where p.tenant_id = r.tenant_id and p.id = r.payment_id
      ), event as (
        insert into events (tenant_id, id, type, subject_id, data)
        select tenant_id, ${newId()}::uuid, 'refund.created', payment_id, to_jsonb(r) from r
        union all
        select tenant_id, ${newId()}::uuid, 'refund.failed', payment_id, to_jsonb(r) from r where status = 'failed'
      ), ${waking(
        sql,
        sql`
        select r.processor as provider, unnest(array[r.processor_reference, locked.processor_reference]) as reference
        from r cross join locked`,
      )}
      select id from r`
    return row
  } catch (error) {
    // Another notification of the same refund was faster; the whole step left no trace.
    if (violatedConstraint(error) !== 'refunds_processor_reference') throw error
    return await findRefundByReference(sql, refund.processor, refund.processor_reference)
  }
}

/** Whose a refund is and how it stands, for what a processor tells. */
export type KnownRefund = Pick<Refund, 'tenant_id' | 'payment_id' | 'id' | 'status'>

/** The refund that a processor knows by `reference`, whoever's it is. */
export async function findRefundByReference(
  sql: Sql,
  processor: string,
  reference: string,
): Promise<KnownRefund | undefined> {
  const [row] = await sql<KnownRefund[]>`
    select tenant_id, payment_id, id, status from refunds where processor = ${processor} and processor_reference = ${reference}`
  return row
}

/** The refund of these ids, unless it is known to the processor by another reference. */
export async function findRefundByIds(
  sql: Sql,
  { tenant_id, payment_id, id }: { tenant_id: string; payment_id: string; id: string },
  reference: string,
): Promise<KnownRefund | undefined> {
  const [row] = await sql<KnownRefund[]>`
    select tenant_id, payment_id, id, status from refunds
    where tenant_id = ${tenant_id} and id = ${id} and payment_id = ${payment_id}
      and coalesce(processor_reference, ${reference}) = ${reference}`
  return row
}

/** Refunds with the jobs that are asked about, in the order asked. */
export async function findRefunds(sql: Sql, asked: AskedFor[]): Promise<(Found<Refund> | undefined)[]> {
  return await findWithJobs<Refund>(sql, 'refunds', columns(sql), asked)
}

/** The refunds of a payment, newest first. */
export async function listRefunds(
  sql: Sql,
  tenant_id: string,
  payment_id: string,
  { before = 'infinity', limit }: { before?: string; limit: number },
): Promise<Refund[]> {
  return await sql<Refund[]>`
    select ${columns(sql)} from refunds
    where tenant_id = ${tenant_id} and payment_id = ${payment_id} and created_at < ${before}
    order by created_at desc limit ${limit}`
}

function columns(sql: Sql | Tx): Fragment {
  return sql`id, tenant_id, payment_id, idempotency_key, status, amount_minor, currency, reason, imported, processor,
    processor_reference, failure, metadata, created_at, updated_at`
}

// Reads payments: lists, single payments with their jobs, and payments by processor reference.
import { PAYMENTS } from '#core/config/providers.ts'
import { columnList, type Fragment, type Sql } from '#core/db.ts'
import { findWithJobs, type RequestedRow, type ResourceWithJob } from '../jobs/find-with-jobs.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { FINAL_PAYMENT_STATUSES, paymentSchema, type Payment, type PaymentStatus } from './payment.ts'

type PaymentFilters = ListPage & {
  status?: PaymentStatus
  customer_id?: string
  merchant_id?: string
  currency?: string
  processor_reference?: string
  amount_min?: number
  amount_max?: number
  /** Only payments whose hold expires before this time. */
  capture_before_to?: string
  metadata: Record<string, string>
}

/** The payments of a tenant, newest first. */
export async function listPayments(sql: Sql, tenant_id: string, filters: PaymentFilters): Promise<Payment[]> {
  const { status, customer_id, merchant_id, currency, amount_min = 0 } = filters
  const { processor_reference, amount_max = Number.MAX_SAFE_INTEGER, capture_before_to } = filters
  // Only filters with an index (open payments, customer, merchant, reference) change the statement's text, because each
  // connection must plan every distinct text.
  const expiring = capture_before_to !== undefined
  const open = expiring || (status !== undefined && !FINAL_PAYMENT_STATUSES.includes(status))
  return await sql<Payment[]>`
    select ${paymentColumns(sql)} from payments
    where tenant_id = ${tenant_id} and ${createdWithin(sql, filters)}
      ${customer_id === undefined ? sql`` : sql`and customer_id = ${customer_id}`}
      ${merchant_id === undefined ? sql`` : sql`and merchant_id = ${merchant_id}`}
      ${
        processor_reference === undefined
          ? sql``
          : sql`and processor = ${PAYMENTS.provider} and processor_reference = ${processor_reference}`
      }
      ${open ? sql`and open` : sql``}
      ${expiring ? sql`and capture_before < ${capture_before_to}` : sql``}
      and status = coalesce(${status ?? null}, status)
      and currency = coalesce(${currency?.toUpperCase() ?? null}, currency)
      and amount_minor between ${amount_min} and ${amount_max}
      and not exists (
        select from jsonb_each_text(${sql.json(filters.metadata)}) wanted
        where metadata ->> wanted.key is distinct from wanted.value)
    order by created_at desc limit ${filters.limit}`
}

/** Payments with the requested jobs, in the order of `requested`. */
export async function findPayments(
  sql: Sql,
  requested: RequestedRow[],
): Promise<(ResourceWithJob<Payment> | undefined)[]> {
  return await findWithJobs<Payment>(sql, 'payment', paymentColumns(sql), requested)
}

/** One payment, or undefined. */
export async function findPayment(sql: Sql, tenant_id: string, id: string): Promise<Payment | undefined> {
  const [payment] = await sql<Payment[]>`
    select ${paymentColumns(sql)} from payments where tenant_id = ${tenant_id} and id = ${id}`
  return payment
}

/** The fields of a payment that a processor's update needs. */
export type ExistingPayment = Pick<
  Payment,
  | 'tenant_id'
  | 'id'
  | 'status'
  | 'amount_minor'
  | 'amount_capturable_minor'
  | 'amount_captured_minor'
  | 'amount_refunded_minor'
  | 'currency'
  | 'processor_reference'
> & { amount_refund_reserved_minor: number; cancel_requested_at: string | null }

/** The payment, of any tenant, with this `reference` at the processor. */
export async function findPaymentByReference(
  sql: Sql,
  processor: string,
  reference: string,
): Promise<ExistingPayment | undefined> {
  const [payment] = await sql<ExistingPayment[]>`
    select ${existingColumns(sql)} from payments where processor = ${processor} and processor_reference = ${reference}`
  return payment
}

/** The payment with these ids. With a `reference`, undefined if the payment has another processor reference. */
export async function findPaymentByIds(
  sql: Sql,
  { tenant_id, id }: { tenant_id: string; id: string },
  reference: string | null,
): Promise<ExistingPayment | undefined> {
  const [payment] = await sql<ExistingPayment[]>`
    select ${existingColumns(sql)} from payments
    where tenant_id = ${tenant_id} and id = ${id}
      and (${reference}::text is null or coalesce(processor_reference, ${reference}) = ${reference})`
  return payment
}

function existingColumns(sql: Sql): Fragment {
  return sql`
    tenant_id, id, status, amount_minor, amount_capturable_minor, amount_captured_minor, amount_refunded_minor,
    amount_refund_reserved_minor, currency, processor_reference, cancel_requested_at`
}

/** The columns of a payment in answers. */
function paymentColumns(sql: Sql): Fragment {
  const { amount_refund_pending_minor: _computed, ...stored } = paymentSchema.shape
  return sql`
    ${columnList(sql, Object.keys(stored))},
    amount_refund_reserved_minor - amount_refunded_minor as amount_refund_pending_minor`
}

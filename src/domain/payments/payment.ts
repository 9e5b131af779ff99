// The payment: what it is in rows and answers, and how it is found.
import { z } from 'zod'
import { metadataJson } from '#core/json.ts'
import { amountMinor, currencyCode } from '#core/money.ts'
import { timestamp } from '#core/time.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { findWithJobs, type AskedFor, type Found } from '../jobs/found.ts'

const PAYMENT_STATUSES = [
  'pending',
  'requires_action',
  'authorized',
  'capturing',
  'captured',
  'canceling',
  'canceled',
  'failed',
] as const
export type PaymentStatus = (typeof PAYMENT_STATUSES)[number]

/** The status of a payment, as a field and as a filter. */
export const paymentStatus = z.enum(PAYMENT_STATUSES).meta({
  id: 'PaymentStatus',
  description:
    '`pending`: the authorization is under way. `requires_action`: the buyer has to act. `authorized`: the money is held. `capturing`, `canceling`: under way. `captured`, `canceled`, `failed`: the end.',
  example: 'authorized',
})

/** An amount in a payment. */
const moved = (description: string, example: number) => z.int().nonnegative().meta({ description, example })

/** A payment as it is answered. */
export const paymentSchema = z
  .object({
    id: z
      .uuid()
      .meta({ description: 'The id of the payment.', example: '0198f6f0-1234-7000-8000-123456789abc' }),
    tenant_id: z
      .uuid()
      .meta({ description: 'Whose it is.', example: '0198f6ef-9a00-7000-8000-00000000ac3e' }),
    idempotency_key: z
      .string()
      .meta({ description: 'The key that it was created with.', example: 'order-17-payment' }),
    status: paymentStatus,
    amount_minor: amountMinor,
    currency: currencyCode,
    method: z.literal('card').meta({ description: 'The payment method.', example: 'card' }),
    customer_id: z
      .uuid()
      .nullable()
      .meta({ description: 'Who pays, if it was said.', example: '0198f6f0-0c05-7000-8000-123456789abc' }),
    description: z.string().nullable().meta({ description: 'Your words for it.', example: 'Order 17' }),
    return_url: z.string().nullable().meta({
      description: 'Where the buyer returns to after 3-D Secure.',
      example: 'https://shop.example/orders/17',
    }),
    amount_capturable_minor: moved('What is held and can be captured.', 1000),
    amount_captured_minor: moved('What was taken.', 0),
    amount_refunded_minor: moved('What of it went back.', 0),
    processor: z.string().meta({ description: 'Who moves the money.', example: 'stripe' }),
    processor_reference: z
      .string()
      .nullable()
      .meta({ description: 'The payment at the processor.', example: 'pi_3SV0Zw2eZvKYlo2C0aBcDeFg' }),
    client_secret: z.string().nullable().meta({
      description:
        "For the processor's own front end, while the buyer has to act (`requires_action`); else null.",
      example: null,
    }),
    failure: z
      .object({
        code: z.string().meta({ description: 'As of errors.', example: 'payment_declined' }),
        message: z.string().meta({ description: 'The same for people.', example: 'Your card was declined.' }),
        decline_code: z
          .string()
          .nullish()
          .meta({ description: "The bank's reason, if it gave one.", example: 'insufficient_funds' }),
      })
      .meta({ id: 'PaymentFailure', description: 'Why a payment, or the last try at it, failed.' })
      .nullable()
      .meta({
        description:
          'Why it failed or, while it is `requires_action`, why the last try of the buyer did; else null.',
        example: null,
      }),
    cancellation_reason: z
      .string()
      .nullable()
      .meta({ description: 'Why it was canceled, if it was said.', example: 'requested_by_customer' }),
    capture_before: timestamp.nullable().meta({
      description: 'When the hold lapses. Capture before.',
      example: '2026-11-27T10:15:30.000000Z',
    }),
    authorized_at: timestamp.nullable().meta({ description: 'When the money was held.' }),
    captured_at: timestamp.nullable().meta({ description: 'When it was taken.' }),
    canceled_at: timestamp.nullable().meta({ description: 'When it was released.' }),
    metadata: metadataJson,
    created_at: timestamp.meta({ description: 'Unique among your payments: the cursor of lists.' }),
    updated_at: timestamp.meta({ description: 'When it last changed.' }),
  })
  .meta({ id: 'Payment', description: 'Money that is held, taken and perhaps given back.' })

/** A payment as its row is read. `client_secret` is sealed. */
export type Payment = z.output<typeof paymentSchema>

export type PaymentFilters = {
  status?: PaymentStatus
  customer_id?: string
  currency?: string
  amount_min?: number
  amount_max?: number
  created_from?: string
  created_to?: string
  before?: string
  metadata: Record<string, string>
  limit: number
}

/** The payments of a tenant, newest first. */
export async function listPayments(sql: Sql, tenant_id: string, filters: PaymentFilters): Promise<Payment[]> {
  const { status, customer_id, currency, amount_min = 0, amount_max = Number.MAX_SAFE_INTEGER } = filters
  const { created_from = '-infinity', created_to = 'infinity', before = 'infinity' } = filters
  // What is open is few among many and has an index of its own, as what is a customer's has. A statement of its own only for
  // these: each text costs every connection a plan.
  const open = status !== undefined && !['captured', 'canceled', 'failed'].includes(status)
  return await sql<Payment[]>`
    select ${paymentColumns(sql)} from payments
    where tenant_id = ${tenant_id} and created_at >= ${created_from} and created_at < least(${created_to}::timestamptz, ${before}::timestamptz)
      ${customer_id === undefined ? sql`` : sql`and customer_id = ${customer_id}`} ${open ? sql`and open` : sql``}
      and status = coalesce(${status ?? null}, status) and currency = coalesce(${currency?.toUpperCase() ?? null}, currency)
      and amount_minor between ${amount_min} and ${amount_max}
      and not exists (
        select from jsonb_each_text(${sql.json(filters.metadata)}) wanted where metadata ->> wanted.key is distinct from wanted.value)
    order by created_at desc limit ${filters.limit}`
}

/** Payments with the jobs that are asked about, in the order asked. */
export async function findPayments(sql: Sql, asked: AskedFor[]): Promise<(Found<Payment> | undefined)[]> {
  return await findWithJobs<Payment>(sql, 'payments', paymentColumns(sql), asked)
}

/** One payment, or undefined. */
export async function findPayment(sql: Sql, tenant_id: string, id: string): Promise<Payment | undefined> {
  const [payment] = await sql<Payment[]>`
    select ${paymentColumns(sql)} from payments where tenant_id = ${tenant_id} and id = ${id}`
  return payment
}

/** Whose a payment is and how it stands, for what a processor tells. */
export type KnownPayment = Pick<
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
> & { amount_refund_reserved_minor: number }

/** The payment that a processor knows by `reference`, whoever's it is. */
export async function findPaymentByReference(
  sql: Sql,
  processor: string,
  reference: string,
): Promise<KnownPayment | undefined> {
  const [payment] = await sql<KnownPayment[]>`
    select ${knownColumns(sql)} from payments where processor = ${processor} and processor_reference = ${reference}`
  return payment
}

/** The payment of these ids, unless it is known to the processor by another reference. */
export async function findPaymentByIds(
  sql: Sql,
  { tenant_id, id }: { tenant_id: string; id: string },
  reference: string,
): Promise<KnownPayment | undefined> {
  const [payment] = await sql<KnownPayment[]>`
    select ${knownColumns(sql)} from payments where tenant_id = ${tenant_id} and id = ${id} and coalesce(processor_reference, ${reference}) = ${reference}`
  return payment
}

function knownColumns(sql: Sql): Fragment {
  return sql`
    tenant_id, id, status, amount_minor, amount_capturable_minor, amount_captured_minor, amount_refunded_minor,
    amount_refund_reserved_minor, currency, processor_reference`
}

/** The columns that are answered, in the order of the schema. */
function paymentColumns(sql: Sql | Tx): Fragment {
  return sql`
    id, tenant_id, idempotency_key, status, amount_minor, currency, method, customer_id, description, return_url,
    amount_capturable_minor, amount_captured_minor, amount_refunded_minor, processor, processor_reference, client_secret,
    failure, cancellation_reason, capture_before, authorized_at, captured_at, canceled_at, metadata, created_at, updated_at`
}

/** What an event says of the payment `p`: the row without what only we may know. */
export function paymentEventData(sql: Sql | Tx): Fragment {
  return sql`to_jsonb(p) - array['client_secret', 'open', 'amount_refund_reserved_minor', 'cancel_requested_at', 'capture_expiry_warned_at']`
}

// Refunds: what they are, as they are answered, and how they are found.
import { z } from 'zod'
import { metadataJson } from '#core/json.ts'
import { amountMinor, currencyCode } from '#core/money.ts'
import { timestamp } from '#core/time.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { findWithJobs, type AskedFor, type Found } from '../jobs/found.ts'

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

// Reads refunds: lists, single refunds with their jobs, and refunds by processor reference.
import { PAYMENTS } from '#core/config/providers.ts'
import { columnList, type Fragment, type Sql } from '#core/db.ts'
import { findWithJobs, type RequestedRow, type ResourceWithJob } from '../jobs/find-with-jobs.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { refundSchema, type Refund } from './refund.ts'

/** The fields of a refund that a processor's update needs. */
export type ExistingRefund = Pick<
  Refund,
  'tenant_id' | 'payment_id' | 'id' | 'status' | 'amount_minor' | 'currency' | 'processor_reference'
>

/** The refund, of any tenant, with this `reference` at the processor. */
export async function findRefundByReference(
  sql: Sql,
  processor: string,
  reference: string,
): Promise<ExistingRefund | undefined> {
  const [row] = await sql<ExistingRefund[]>`
    select ${existingColumns(sql)} from refunds
    where processor = ${processor} and processor_reference = ${reference}`
  return row
}

/** The refund with these ids. With a `reference`, undefined if the refund has another processor reference. */
export async function findRefundByIds(
  sql: Sql,
  { tenant_id, payment_id, id }: { tenant_id: string; payment_id: string; id: string },
  reference: string | null,
): Promise<ExistingRefund | undefined> {
  const [row] = await sql<ExistingRefund[]>`
    select ${existingColumns(sql)} from refunds
    where tenant_id = ${tenant_id} and id = ${id} and payment_id = ${payment_id}
      and (${reference}::text is null or coalesce(processor_reference, ${reference}) = ${reference})`
  return row
}

function existingColumns(sql: Sql): Fragment {
  return sql`tenant_id, payment_id, id, status, amount_minor, currency, processor_reference`
}

/** Refunds with the requested jobs, in the order of `requested`. */
export async function findRefunds(
  sql: Sql,
  requested: RequestedRow[],
): Promise<(ResourceWithJob<Refund> | undefined)[]> {
  return await findWithJobs<Refund>(sql, 'refund', refundColumns(sql), requested)
}

/** The refunds of a payment, newest first. */
export async function listRefunds(
  sql: Sql,
  tenant_id: string,
  payment_id: string,
  page: ListPage,
): Promise<Refund[]> {
  return await sql<Refund[]>`
    select ${refundColumns(sql)} from refunds
    where tenant_id = ${tenant_id} and payment_id = ${payment_id} and ${createdWithin(sql, page)}
    order by created_at desc limit ${page.limit}`
}

type RefundFilters = ListPage & { status?: Refund['status']; currency?: string; processor_reference?: string }

/** The refunds of a tenant, newest first. */
export async function listAllRefunds(sql: Sql, tenant_id: string, filters: RefundFilters): Promise<Refund[]> {
  const { status, currency, processor_reference } = filters
  // Only filters with an index (pending refunds, the reference) change the statement's text, because each connection
  // must plan every distinct text.
  return await sql<Refund[]>`
    select ${refundColumns(sql)} from refunds
    where tenant_id = ${tenant_id} and ${createdWithin(sql, filters)}
      ${
        processor_reference === undefined
          ? sql``
          : sql`and processor = ${PAYMENTS.provider} and processor_reference = ${processor_reference}`
      }
      ${status === 'pending' ? sql`and status = 'pending'` : sql`and status = coalesce(${status ?? null}, status)`}
      and currency = coalesce(${currency?.toUpperCase() ?? null}, currency)
    order by created_at desc limit ${filters.limit}`
}

/** The columns of a refund in answers. */
function refundColumns(sql: Sql): Fragment {
  return columnList(sql, Object.keys(refundSchema.shape))
}

// Reads top-ups: lists, single top-ups with their jobs, and top-ups by processor reference.
import { columnList, type Fragment, type Sql } from '#core/db.ts'
import { findWithJobs, type RequestedRow, type ResourceWithJob } from '../jobs/find-with-jobs.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { topUpSchema, type TopUp, type TopUpStatus } from './top-up.ts'

export type TopUpFilters = ListPage & {
  status?: TopUpStatus
  currency?: string
}

/** The top-ups of a tenant, newest first. */
export async function listTopUps(sql: Sql, tenant_id: string, filters: TopUpFilters): Promise<TopUp[]> {
  const { status, currency } = filters
  // Only the filter of pending top-ups, which has an index, changes the statement's text: each connection must plan
  // every distinct text.
  return await sql<TopUp[]>`
    select ${topUpColumns(sql)} from top_ups
    where tenant_id = ${tenant_id}
      and ${createdWithin(sql, filters)}
      ${status === 'pending' ? sql`and status = 'pending'` : sql``}
      and status = coalesce(${status ?? null}, status)
      and currency = coalesce(${currency?.toLowerCase() ?? null}, currency)
    order by created_at desc limit ${filters.limit}`
}

/** Top-ups with the requested jobs, in the order of `requested`. */
export async function findTopUps(
  sql: Sql,
  requested: RequestedRow[],
): Promise<(ResourceWithJob<TopUp> | undefined)[]> {
  return await findWithJobs<TopUp>(sql, 'top_up', topUpColumns(sql), requested)
}

/** The fields of a top-up that a processor's update needs. */
export type ExistingTopUp = Pick<
  TopUp,
  'tenant_id' | 'id' | 'status' | 'amount_minor' | 'currency' | 'processor_reference'
>

/** The top-up, of any tenant, with this `reference` at the processor. */
export async function findTopUpByReference(
  sql: Sql,
  processor: string,
  reference: string,
): Promise<ExistingTopUp | undefined> {
  const [row] = await sql<ExistingTopUp[]>`
    select ${existingColumns(sql)} from top_ups where processor = ${processor} and processor_reference = ${reference}`
  return row
}

/** The top-up with these ids. With a `reference`, undefined if the top-up has another processor reference. */
export async function findTopUpByIds(
  sql: Sql,
  { tenant_id, id }: { tenant_id: string; id: string },
  reference: string | null,
): Promise<ExistingTopUp | undefined> {
  const [row] = await sql<ExistingTopUp[]>`
    select ${existingColumns(sql)} from top_ups
    where tenant_id = ${tenant_id} and id = ${id}
      and (${reference}::text is null or coalesce(processor_reference, ${reference}) = ${reference})`
  return row
}

function existingColumns(sql: Sql): Fragment {
  return sql`tenant_id, id, status, amount_minor, currency, processor_reference`
}

/** The columns of a top-up in answers. */
function topUpColumns(sql: Sql): Fragment {
  return columnList(sql, Object.keys(topUpSchema.shape))
}

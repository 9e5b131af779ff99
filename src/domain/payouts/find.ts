// Reads payouts: lists, single payouts with their jobs, and payouts by processor reference.
import { columnList, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { findWithJobs, type RequestedRow, type ResourceWithJob } from '../jobs/find-with-jobs.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { OPEN_PAYOUT_STATUSES, payoutSchema, type Payout, type PayoutStatus } from './payout.ts'

export type PayoutFilters = ListPage & {
  status?: PayoutStatus
  recipient_id?: string
  currency?: string
}

/** The payouts of a tenant, newest first. */
export async function listPayouts(sql: Sql, tenant_id: string, filters: PayoutFilters): Promise<Payout[]> {
  const { status, recipient_id, currency } = filters
  // Only filters with an index (open payouts, the recipient) change the statement's text, because each connection
  // must plan every distinct text.
  const open = status !== undefined && OPEN_PAYOUT_STATUSES.includes(status)
  return await sql<Payout[]>`
    select ${payoutColumns(sql)} from payouts
    where tenant_id = ${tenant_id}
      and ${createdWithin(sql, filters)}
      ${recipient_id === undefined ? sql`` : sql`and recipient_id = ${recipient_id}`}
      ${open ? sql`and open` : sql``}
      and status = coalesce(${status ?? null}, status)
      and currency = coalesce(${currency?.toLowerCase() ?? null}, currency)
    order by created_at desc limit ${filters.limit}`
}

/** Payouts with the requested jobs, in the order of `requested`. */
export async function findPayouts(
  sql: Sql,
  requested: RequestedRow[],
): Promise<(ResourceWithJob<Payout> | undefined)[]> {
  return await findWithJobs<Payout>(sql, 'payout', payoutColumns(sql), requested)
}

/** One payout, or undefined. */
export async function findPayout(sql: Sql, tenant_id: string, id: string): Promise<Payout | undefined> {
  const [payout] = await sql<Payout[]>`
    select ${payoutColumns(sql)} from payouts where tenant_id = ${tenant_id} and id = ${id}`
  return payout
}

/** The tenant of a payout, for operators; undefined when there is no such payout. */
export async function findPayoutTenant(sql: Sql, id: string): Promise<string | undefined> {
  const [payout] = await sql<{ tenant_id: string }[]>`select tenant_id from payouts where id = ${id}`
  return payout?.tenant_id
}

/** The fields of a payout that a processor's update needs. */
export type ExistingPayout = Pick<
  Payout,
  'tenant_id' | 'id' | 'status' | 'amount_minor' | 'currency' | 'processor_reference'
> & { cancel_requested_at: string | null; fail_requested_at: string | null; call_started_at: string | null }

/** The payout, of any tenant, with this `reference` at the processor. */
export async function findPayoutByReference(
  sql: Sql,
  processor: string,
  reference: string,
): Promise<ExistingPayout | undefined> {
  const [payout] = await sql<ExistingPayout[]>`
    select ${existingColumns(sql)} from payouts where processor = ${processor} and processor_reference = ${reference}`
  return payout
}

/** The payout with these ids. With a `reference`, undefined if the payout has another processor reference. */
export async function findPayoutByIds(
  sql: Sql,
  { tenant_id, id }: { tenant_id: string; id: string },
  reference: string | null = null,
): Promise<ExistingPayout | undefined> {
  const [payout] = await sql<ExistingPayout[]>`
    select ${existingColumns(sql)} from payouts
    where tenant_id = ${tenant_id} and id = ${id}
      and (${reference}::text is null or coalesce(processor_reference, ${reference}) = ${reference})`
  return payout
}

function existingColumns(sql: Sql): Fragment {
  return sql`
    tenant_id, id, status, amount_minor, currency, processor_reference, cancel_requested_at, fail_requested_at,
    call_started_at`
}

/** The columns of a payout in answers. */
export function payoutColumns(sql: Sql | Tx): Fragment {
  return columnList(sql, Object.keys(payoutSchema.shape))
}

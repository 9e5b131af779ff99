// Reads disputes: lists, single disputes, and disputes by the processor's reference.
import { columnList, type Fragment, type Sql } from '#core/db.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { disputeSchema, type Dispute } from './dispute.ts'

type DisputeFilters = ListPage & { status?: Dispute['status']; payment_id?: string }

/** The disputes of a tenant, newest first. */
export async function listDisputes(sql: Sql, tenant_id: string, filters: DisputeFilters): Promise<Dispute[]> {
  const { status, payment_id } = filters
  return await sql<Dispute[]>`
    select ${disputeColumns(sql)} from disputes
    where tenant_id = ${tenant_id} and ${createdWithin(sql, filters)}
      ${payment_id === undefined ? sql`` : sql`and payment_id = ${payment_id}`}
      and status = coalesce(${status ?? null}, status)
    order by created_at desc limit ${filters.limit}`
}

/** One dispute, or undefined. */
export async function findDispute(sql: Sql, tenant_id: string, id: string): Promise<Dispute | undefined> {
  const [dispute] = await sql<Dispute[]>`
    select ${disputeColumns(sql)} from disputes where tenant_id = ${tenant_id} and id = ${id}`
  return dispute
}

/** The fields of a dispute that a processor's update needs. */
export type ExistingDispute = Pick<Dispute, 'tenant_id' | 'payment_id' | 'id'> & { revision: number }

/** The dispute, of any tenant, with this `reference` at the processor. */
export async function findDisputeByReference(
  sql: Sql,
  processor: string,
  reference: string,
): Promise<ExistingDispute | undefined> {
  const [row] = await sql<ExistingDispute[]>`
    select tenant_id, payment_id, id, revision from disputes
    where processor = ${processor} and processor_reference = ${reference}`
  return row
}

/** The columns of a dispute in answers. */
function disputeColumns(sql: Sql): Fragment {
  return columnList(sql, Object.keys(disputeSchema.shape))
}

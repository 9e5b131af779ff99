// Reads customers.
import { columnList, type Fragment, type Sql } from '#core/db.ts'
import { findByKeys, type KeyedResource, type KeyOnRoute } from '../idempotency.ts'
import { findWithJobs } from '../jobs/find-with-jobs.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { customerSchema, type Customer } from './customer.ts'

type CustomerFilters = ListPage & { email?: string; external_id?: string; deleted: boolean }

/** The customers of a tenant, newest first. `deleted`: includes deleted customers. */
export async function listCustomers(
  sql: Sql,
  tenant_id: string,
  { email, external_id, deleted, ...page }: CustomerFilters,
): Promise<Customer[]> {
  // Only filters with an index change the statement's text, because each connection must plan every distinct text.
  return await sql<Customer[]>`
    select ${customerColumns(sql)} from customers
    where tenant_id = ${tenant_id} and ${createdWithin(sql, page)} and (${deleted} or deleted_at is null)
      ${email === undefined ? sql`` : sql`and email = ${email}`}
      ${external_id === undefined ? sql`` : sql`and external_id = ${external_id}`}
    order by created_at desc limit ${page.limit}`
}

/** Customers, including deleted ones, in the order of `requested`; undefined when there is none. */
export async function findCustomers(
  sql: Sql,
  requested: { tenant_id: string; id: string }[],
): Promise<(Customer | undefined)[]> {
  const without_job = requested.map((each) => ({ ...each, job_id: null }))
  const found = await findWithJobs<Customer>(sql, 'customer', customerColumns(sql), without_job)
  return found.map((each) => each?.resource)
}

/** The customers that were created with these keys, in the order of `keys`; undefined for an unused key. */
export async function findCustomersByKeys(
  sql: Sql,
  keys: KeyOnRoute[],
): Promise<(KeyedResource<Customer> | undefined)[]> {
  return await findByKeys(sql, 'customer', customerColumns(sql), keys)
}

/** The columns of a customer in answers. */
export function customerColumns(sql: Sql): Fragment {
  return columnList(sql, Object.keys(customerSchema.shape))
}

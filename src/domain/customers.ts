// Customers: created, listed, changed, and erased but for their id, which the books keep.
import { z } from 'zod'
import { metadataJson } from '#core/json.ts'
import { timestamp } from '#core/time.ts'
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import { isKnown, remember, type IdempotentRequest } from './idempotency.ts'

/** A customer as it is answered. */
export const customerSchema = z
  .object({
    id: z
      .uuid()
      .meta({ description: 'The id of the customer.', example: '0198f6f0-0c05-7000-8000-123456789abc' }),
    tenant_id: z
      .uuid()
      .meta({ description: 'Whose it is.', example: '0198f6ef-9a00-7000-8000-00000000ac3e' }),
    idempotency_key: z
      .string()
      .meta({ description: 'The key that it was created with.', example: 'customer-17' }),
    name: z.string().nullable().meta({ description: 'What they are called.', example: 'Ada Lovelace' }),
    email: z.string().nullable().meta({ description: 'As it was sent.', example: 'ada@example.com' }),
    phone: z.string().nullable().meta({ description: 'As it was sent.', example: '+442079460000' }),
    external_id: z.string().nullable().meta({ description: 'Your own identifier.', example: 'user-17' }),
    metadata: metadataJson,
    created_at: timestamp.meta({ description: 'Unique among your customers: the cursor of lists.' }),
    updated_at: timestamp.meta({ description: 'When it last changed.' }),
    deleted_at: timestamp
      .nullable()
      .meta({ description: 'When it was deleted; null while it is not.', example: null }),
  })
  .meta({ id: 'Customer', description: 'Somebody who pays.' })

export type Customer = z.output<typeof customerSchema>

export type CustomerFields = {
  name: string | null
  email: string | null
  phone: string | null
  external_id: string | null
  metadata: Json
}

export type CreateCustomer = CustomerFields &
  IdempotentRequest & { tenant_id: string; customer_id: string; event_id: string }

/**
 * Creates customers, in the order asked; `known` stands for one whose key was used before. Throws a unique violation when
 * a key is taken at the same time: the whole step has then left no trace.
 */
export async function createCustomers(sql: Sql, requests: CreateCustomer[]): Promise<(Customer | 'known')[]> {
  const rows = await sql<Customer[]>`
    with asked as (
      select * from jsonb_to_recordset(${sql.json(requests)}) as a(
        tenant_id uuid, customer_id uuid, event_id uuid, idempotency_key text, scope text, fingerprint text, name text, email text,
        phone text, external_id text, metadata jsonb)
      where not ${isKnown(sql, 'customers')}
    ), c as (
      insert into customers (tenant_id, id, idempotency_key, name, email, phone, external_id, metadata)
      select tenant_id, customer_id, idempotency_key, name, email, phone, external_id, coalesce(metadata, 'null') from asked
      returning *
    ), remembered as (${remember(sql, 'customer', sql`select *, customer_id as resource_id, null::uuid as job_id from asked`)}
    ), event as (
      insert into events (tenant_id, id, type, subject_id, data)
      select c.tenant_id, a.event_id, 'customer.created', c.id, to_jsonb(c)
      from c join asked a on a.tenant_id = c.tenant_id and a.customer_id = c.id
    )
    select ${columns(sql)} from c`
  const byId = new Map(rows.map((row) => [row.id, row]))
  return requests.map(({ customer_id }) => byId.get(customer_id) ?? 'known')
}

/** The customers of a tenant, newest first; deleted ones only on request. */
export async function listCustomers(
  sql: Sql,
  tenant_id: string,
  filters: { email?: string; external_id?: string; before?: string; deleted: boolean; limit: number },
): Promise<Customer[]> {
  const { email, external_id, before = 'infinity', deleted, limit } = filters
  // A statement of its own only for what has an index of its own: each text costs every connection a plan.
  return await sql<Customer[]>`
    select ${columns(sql)} from customers
    where tenant_id = ${tenant_id} and created_at < ${before} and (${deleted} or deleted_at is null)
      ${email === undefined ? sql`` : sql`and email = ${email}`}
      ${external_id === undefined ? sql`` : sql`and external_id = ${external_id}`}
    order by created_at desc limit ${limit}`
}

/** One customer, also a deleted one, or undefined. */
export async function findCustomer(sql: Sql, tenant_id: string, id: string): Promise<Customer | undefined> {
  const [row] = await sql<
    Customer[]
  >`select ${columns(sql)} from customers where tenant_id = ${tenant_id} and id = ${id}`
  return row
}

/** Changes the fields given (a field that is absent stays, null empties it). Undefined: there is none, or it is deleted. */
export async function updateCustomer(
  sql: Sql,
  tenant_id: string,
  id: string,
  event_id: string,
  fields: Partial<CustomerFields>,
): Promise<Customer | undefined> {
  const [row] = await sql<Customer[]>`
    with c as (
      update customers c set updated_at = clock_timestamp(),
        name = case when f ? 'name' then f ->> 'name' else c.name end,
        email = case when f ? 'email' then f ->> 'email' else c.email end,
        phone = case when f ? 'phone' then f ->> 'phone' else c.phone end,
        external_id = case when f ? 'external_id' then f ->> 'external_id' else c.external_id end,
        metadata = case when f ? 'metadata' then f -> 'metadata' else c.metadata end
      from (select ${sql.json(fields)}::jsonb as f) fields
      where c.tenant_id = ${tenant_id} and c.id = ${id} and c.deleted_at is null
      returning c.*
    ), event as (
      insert into events (tenant_id, id, type, subject_id, data)
      select tenant_id, ${event_id}, 'customer.updated', id, to_jsonb(c) from c
    )
    select ${columns(sql)} from c`
  return row
}

/**
 * Deletes: erases what is personal, keeps the id. What earlier events told is erased by `eraseNextEvents`. Deleting twice
 * answers the same. Undefined: there is none.
 */
export async function deleteCustomer(
  sql: Sql,
  tenant_id: string,
  id: string,
  event_id: string,
): Promise<Customer | undefined> {
  const [row] = await sql<Customer[]>`
    with c as (
      update customers set name = null, email = null, phone = null, metadata = '{}', updated_at = clock_timestamp(), deleted_at = clock_timestamp()
      where tenant_id = ${tenant_id} and id = ${id} and deleted_at is null
      returning *
    ), event as (
      insert into events (tenant_id, id, type, subject_id, data)
      select tenant_id, ${event_id}, 'customer.deleted', id, to_jsonb(c) from c
    ), erasure as (
      insert into erasures (tenant_id, customer_id) select tenant_id, id from c
    )
    select ${columns(sql)} from c`
  return row ?? (await findCustomer(sql, tenant_id, id))
}

/** A step of erasing what events told of deleted customers, of at most `most` events; false when nothing is left. */
export async function eraseNextEvents(sql: Sql, most: number): Promise<boolean> {
  const [row] = await sql<{ erased: number | null }[]>`select erase_next_events(${most}) as erased`
  return row!.erased !== null
}

function columns(sql: Sql | Tx): Fragment {
  return sql`id, tenant_id, idempotency_key, name, email, phone, external_id, metadata, created_at, updated_at, deleted_at`
}

// Creates, updates and deletes customers. Deletion erases personal data but not the row, because payments refer to it.
import { isRolledBack, type Json, type Sql } from '#core/db.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { isKeyUsed, keyColumns, storingKeys, type IdempotentRequest } from '../idempotency.ts'
import { cancelLateVerification, cancelingVerification } from '../verifications/cancel.ts'
import type { Customer } from './customer.ts'
import { customerColumns, findCustomers } from './find.ts'

export type CustomerFields = {
  name: string | null
  email: string | null
  phone: string | null
  external_id: string | null
  metadata: Json
}

export type CreateCustomer = CustomerFields & IdempotentRequest & { customer_id: string; event_id: string }

/**
 * Creates customers and returns them in the order of `requests`; `key_used`: the key was used before. Throws a unique
 * violation, and writes nothing, when another request uses one of the keys at the same time.
 */
export async function createCustomers(
  sql: Sql,
  requests: CreateCustomer[],
): Promise<(Customer | 'key_used')[]> {
  const keys = sql`select *, customer_id as resource_id, null::uuid as job_id from accepted`
  const new_events = sql`
    select c.*, a.event_id, ${'customer.created' satisfies EventType} as event
    from c join accepted a on a.tenant_id = c.tenant_id and a.customer_id = c.id`
  const rows = await sql<Customer[]>`
    with accepted as (
      select * from jsonb_to_recordset(${sql.json(requests)}) as a(
        ${keyColumns(sql)}, tenant_id uuid, customer_id uuid, event_id uuid, name text, email text, phone text,
        external_id text, metadata jsonb)
      where not ${isKeyUsed(sql, 'customer')}
    ), c as (
      insert into customers (tenant_id, id, idempotency_key, name, email, phone, external_id, metadata)
      select tenant_id, customer_id, idempotency_key, name, email, phone, external_id, coalesce(metadata, 'null')
      from accepted
      returning *
    ),
    stored_keys as (${storingKeys(sql, 'customer', keys)}),
    event as (${insertingEvents(sql, 'customer', new_events)})
    select ${customerColumns(sql)} from c`
  const byId = new Map(rows.map((row) => [row.id, row]))
  return requests.map(({ customer_id }) => byId.get(customer_id) ?? 'key_used')
}

/**
 * Updates the fields in `fields`; null empties a field. Equal values change nothing and create no event. Undefined
 * when the customer does not exist or is deleted.
 */
export async function updateCustomer(
  sql: Sql,
  tenant_id: string,
  id: string,
  event_id: string,
  fields: Partial<CustomerFields>,
): Promise<Customer | undefined> {
  const new_events = sql`
    select c.*, ${event_id}::uuid as event_id, ${'customer.updated' satisfies EventType} as event from c`
  const [row] = await sql<Customer[]>`
    with c as (
      update customers c set updated_at = clock_timestamp(),
        name = case when f ? 'name' then f ->> 'name' else c.name end,
        email = case when f ? 'email' then f ->> 'email' else c.email end,
        phone = case when f ? 'phone' then f ->> 'phone' else c.phone end,
        external_id = case when f ? 'external_id' then f ->> 'external_id' else c.external_id end,
        metadata = case when f ? 'metadata' then f -> 'metadata' else c.metadata end
      from (select ${sql.json(fields)}::jsonb as f) fields
      where c.tenant_id = ${tenant_id} and c.id = ${id} and c.deleted_at is null and to_jsonb(c) || f <> to_jsonb(c)
      returning c.*
    ),
    event as (${insertingEvents(sql, 'customer', new_events)})
    select ${customerColumns(sql)} from c`
  if (row !== undefined) return row
  const [existing] = await findCustomers(sql, [{ tenant_id, id }])
  return existing?.deleted_at === null ? existing : undefined
}

/**
 * Deletes a customer: erases personal data, keeps the row and cancels an open verification. `eraseNextEvents` later
 * erases the personal data in the customer's earlier events. Idempotent. Undefined when there is no such customer.
 */
export async function deleteCustomer(
  sql: Sql,
  tenant_id: string,
  id: string,
  event_id: string,
): Promise<Customer | undefined> {
  const new_events = sql`
    select c.*, ${event_id}::uuid as event_id, ${'customer.deleted' satisfies EventType} as event from c`
  const subject = { tenant_id, subject_type: 'customer', subject_id: id } as const
  const [row] = await sql<Customer[]>`
    with ${cancelingVerification(sql, subject)},
    c as (
      update customers c set name = null, email = null, phone = null, metadata = '{}', updated_at = clock_timestamp(),
        deleted_at = clock_timestamp()
      from (select count(*) from open_verification) first
      where c.tenant_id = ${tenant_id} and c.id = ${id} and c.deleted_at is null
      returning c.*
    ),
    event as (${insertingEvents(sql, 'customer', new_events)}),
    erasure as (insert into erasures (tenant_id, customer_id) select tenant_id, id from c)
    select ${customerColumns(sql)} from c`
  await cancelLateVerification(sql, subject)
  return row ?? (await findCustomers(sql, [{ tenant_id, id }]))[0]
}

/**
 * Erases personal data of deleted customers from at most `limit` events and, after the last event, from their
 * verifications. False when no data is left to erase.
 */
export async function eraseNextEvents(sql: Sql, limit: number): Promise<boolean> {
  try {
    const [row] = await sql<{ erased: number | null }[]>`select erase_next_events(${limit}) as erased`
    return row!.erased !== null
  } catch (error) {
    // An event got its sequence at the same time and moved to another partition, where the next call finds it.
    if (isRolledBack(error)) return true
    throw error
  }
}

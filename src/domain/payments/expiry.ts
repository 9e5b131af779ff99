// Finds payments with an expiring or expired hold, and payments whose buyer never acted.
import { newId } from '#core/ids.ts'
import type { Sql } from '#core/db.ts'
import { insertingEvents, type EventType } from '../events.ts'

/** Inserts one event for each hold that expires within a day. At most `limit` payments; returns the count. */
export async function warnOfExpiry(sql: Sql, limit: number): Promise<number> {
  const due = await sql<{ tenant_id: string; id: string }[]>`
    select tenant_id, id from payments
    where open and capture_before is not null and capture_before <= now() + interval '1 day' and capture_before > now()
      and status = 'authorized' and capture_expiry_warned_at is null
    order by capture_before limit ${limit}`
  if (due.length === 0) return 0
  const items = due.map(({ tenant_id, id }) => ({ tenant_id, id, event_id: newId() }))
  const new_events = sql`select p.*, ${'payment.capture_expiring' satisfies EventType} as event from p`
  const rows = await sql`
    with due as (
      select * from jsonb_to_recordset(${sql.json(items)}) as a(tenant_id uuid, id uuid, event_id uuid)
    ), p as (
      update payments p set capture_expiry_warned_at = now()
      from due a
      where p.tenant_id = a.tenant_id and p.id = a.id and p.status = 'authorized' and p.capture_expiry_warned_at is null
      returning p.*, a.event_id
    )
    ${insertingEvents(sql, 'payment', new_events)}
    returning id`
  return rows.length
}

/** Authorized payments whose hold has expired. */
export async function findExpiredHolds(
  sql: Sql,
  limit: number,
): Promise<{ tenant_id: string; id: string }[]> {
  return await sql<{ tenant_id: string; id: string }[]>`
    select tenant_id, id from payments
    where open and capture_before is not null and capture_before <= now() and status = 'authorized'
    order by capture_before limit ${limit}`
}

/** Payments that have been waiting for their buyer for `ttl_s` seconds without a change. */
export async function findAbandonedPayments(
  sql: Sql,
  ttl_s: number,
  limit: number,
): Promise<{ tenant_id: string; id: string }[]> {
  return await sql<{ tenant_id: string; id: string }[]>`
    select tenant_id, id from payments
    where open and client_secret is not null and created_at <= now() - ${ttl_s} * interval '1 second'
      and status = 'requires_action' and updated_at <= now() - ${ttl_s} * interval '1 second'
    order by created_at limit ${limit}`
}

// Finds payments with an expiring or expired hold, and payments whose buyer never acted.
import { newId } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { insertingEvents, type EventType } from '../events.ts'

export type DuePayment = { tenant_id: string; id: string }

/** How long before the end of a hold its event is inserted. */
export const WARNING_PERIOD = '1 day'

/** Inserts one event for each hold that expires within a day. At most `limit` payments; returns the count. */
export async function warnOfExpiry(sql: Sql, limit: number): Promise<number> {
  const due = await sql<DuePayment[]>`
    select tenant_id, id from payments
    where open and capture_before is not null and capture_before <= now() + ${WARNING_PERIOD}::interval
      and capture_before > now() and status = 'authorized' and capture_expiry_warned_at is null
    order by capture_before limit ${limit}`
  return await warn(sql, due)
}

async function warn(sql: Sql, due: DuePayment[]): Promise<number> {
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
export async function findExpiredHolds(sql: Sql, limit: number): Promise<DuePayment[]> {
  return await sql<DuePayment[]>`
    select tenant_id, id from payments
    where open and capture_before is not null and capture_before <= now() and status = 'authorized'
    order by capture_before limit ${limit}`
}

/** Payments that have been waiting for their buyer for `ttl_s` seconds without a change. */
export async function findAbandonedPayments(sql: Sql, ttl_s: number, limit: number): Promise<DuePayment[]> {
  return await sql<DuePayment[]>`
    select tenant_id, id from payments
    where open and client_secret is not null and created_at <= now() - ${ttl_s} * interval '1 second'
      and status = 'requires_action' and updated_at <= now() - ${ttl_s} * interval '1 second'
    order by created_at limit ${limit}`
}

/** A tenant in test mode. `processor_follows`: its processor has the clock of the tenant. */
type TestTenant = { tenant_id: string; processor_follows: boolean }

/** As `warnOfExpiry`, by the clock of a tenant in test mode. */
export async function warnOfExpiryInTestMode(sql: Sql, tenant: TestTenant, limit: number): Promise<number> {
  const expires_at = holdExpiresAt(sql, tenant.processor_follows)
  const due = await sql<DuePayment[]>`
    select p.tenant_id, p.id from ${heldInTestMode(sql, tenant)}
    where ${isUnwarned(sql)} and ${expires_at} > ${clockOf(sql, tenant)}
      and ${expires_at} <= ${clockOf(sql, tenant)} + ${WARNING_PERIOD}::interval
    order by ${expires_at} limit ${limit}`
  return await warn(sql, due)
}

/** As `findExpiredHolds`, by the clock of a tenant in test mode. */
export async function findExpiredHoldsInTestMode(
  sql: Sql,
  tenant: TestTenant,
  limit: number,
): Promise<DuePayment[]> {
  const expires_at = holdExpiresAt(sql, tenant.processor_follows)
  return await sql<DuePayment[]>`
    select p.tenant_id, p.id from ${heldInTestMode(sql, tenant)}
    where ${expires_at} <= ${clockOf(sql, tenant)}
    order by ${expires_at} limit ${limit}`
}

/** As `findAbandonedPayments`, by the clock of a tenant in test mode. */
export async function findAbandonedPaymentsInTestMode(
  sql: Sql,
  tenant: TestTenant,
  ttl_s: number,
  limit: number,
): Promise<DuePayment[]> {
  const abandoned_at = abandonedPaymentAt(sql, ttl_s)
  return await sql<DuePayment[]>`
    select p.tenant_id, p.id from ${waitingPaymentsOf(sql, sql`${tenant.tenant_id}::uuid`, 'requires_action')}
    where ${waitsForBuyer(sql)} and ${abandoned_at} <= ${clockOf(sql, tenant)}
    order by ${abandoned_at} limit ${limit}`
}

/** When the hold of the payment `p` expires, by the clock of its tenant in test mode. */
export function holdExpiresAt(sql: Sql | Tx, processor_follows: boolean): Fragment {
  if (processor_follows) return sql`p.capture_before`
  // The processor has the real time.
  return sql`(p.capture_before + clock_offset_at(p.tenant_id, coalesce(p.authorized_at, p.created_at)))`
}

/** Whether the event of the expiring hold of `p` is still to be inserted. */
export function isUnwarned(sql: Sql | Tx): Fragment {
  return sql`p.capture_expiry_warned_at is null`
}

/** Whether the payment `p` waits for its buyer at the front end. */
export function waitsForBuyer(sql: Sql | Tx): Fragment {
  return sql`p.client_secret is not null`
}

/** When the payment `p` is given up if its buyer does nothing, by the clock of its tenant in test mode. */
export function abandonedPaymentAt(sql: Sql | Tx, ttl_s: number): Fragment {
  return sql`(p.updated_at + clock_offset_at(p.tenant_id, p.updated_at) + ${ttl_s} * interval '1 second')`
}

/**
 * The open payments `p` of a tenant with this status. With the conditions on times inside, PostgreSQL could read an
 * index by time, which has the payments of all tenants. `tenant_id`: an expression.
 */
export function waitingPaymentsOf(
  sql: Sql | Tx,
  tenant_id: Fragment,
  status: 'authorized' | 'requires_action',
): Fragment {
  return sql`(
    select o.tenant_id, o.id, o.capture_before, o.capture_expiry_warned_at, o.client_secret, o.authorized_at,
      o.created_at, o.updated_at
    from payments o where o.tenant_id = ${tenant_id} and o.open and o.status = ${status} offset 0
  ) p`
}

function heldInTestMode(sql: Sql, { tenant_id }: TestTenant): Fragment {
  return waitingPaymentsOf(sql, sql`${tenant_id}::uuid`, 'authorized')
}

function clockOf(sql: Sql, { tenant_id }: TestTenant): Fragment {
  return sql`(now() + (select clock_offset(${tenant_id})))`
}

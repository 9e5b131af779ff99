// Unresolved problems of all tenants: open drifts and parked notifications. Unknown jobs are found by a job
// search.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'
import { driftSchema, driftState, driftSubject } from '../reconciliation/drift.ts'
import { tenantNameColumn } from '../tenant-names.ts'

/**
 * A drift with its tenant, for operators. The tenant of an orphan is the system's if it is not known. Its `detail` is
 * complete; tenants do not see the text of an exception.
 */
export const tenantsDriftSchema = driftSchema.extend({ tenant: z.string() }).meta({ id: 'TenantsDrift' })
export type TenantsDrift = z.output<typeof tenantsDriftSchema>
export type UnresolvedFilters = {
  state?: z.output<typeof driftState>
  subject?: z.output<typeof driftSubject>
  tenant_id?: string
  /** The id of a drift: returns only drifts that were detected earlier. */
  before?: string
  limit: number
}

/** The open drifts of all live tenants, or of one tenant in any mode, latest first. */
export async function findAllDrifts(sql: Sql, filters: UnresolvedFilters): Promise<TenantsDrift[]> {
  const { state = null, subject = null, tenant_id = null, before = null, limit } = filters
  return await sql<TenantsDrift[]>`
    select d.id, d.tenant_id, ${tenantNameColumn(sql)} as tenant, d.subject, d.subject_id, d.payment_id, d.state,
      d.ours, d.theirs,
      d.detail, d.since, greatest(0, floor(extract(epoch from now() - d.since)))::integer as age_s, d.checked_at,
      d.created_at
    from drifts d join tenants t on t.id = d.tenant_id
    where d.resolved_at is null and (${state}::text is null or d.state = ${state})
      and (${subject}::text is null or d.subject = ${subject})
      and case when ${tenant_id}::uuid is null then t.mode = 'live' else d.tenant_id = ${tenant_id} end
      and (${before}::uuid is null
        or (d.created_at, d.id) < (select o.created_at, o.id from drifts o where o.id = ${before}))
    order by d.created_at desc, d.id desc limit ${limit}`
}

/** A parked notification; its job has the same id. `tenant` is null if unknown. */
export const parkedNotificationSchema = z.object({
  id: z.uuid(),
  provider: z.string(),
  event_id: z.string(),
  kind: z.string(),
  object_id: z.string().nullable(),
  reason: z.string().nullable(),
  waits_for: z.string().nullable(),
  tenant: z.string().nullable(),
  resource: z.string().nullable(),
  resource_id: z.uuid().nullable(),
  received_at: timestamp,
  parked_at: timestamp,
  age_s: z.int(),
})
export type ParkedNotification = z.output<typeof parkedNotificationSchema>

/**
 * Parked notifications of live mode, latest first. `before`: the id of a notification; returns only notifications that
 * were parked earlier.
 */
export async function findParkedNotifications(
  sql: Sql,
  filters: { reason?: string; before?: string; limit: number },
): Promise<ParkedNotification[]> {
  const { reason = null, before = null, limit } = filters
  return await sql<ParkedNotification[]>`
    select n.id, n.provider, n.event_id, n.kind, n.object_id, n.reason, n.waits_for,
      ${tenantNameColumn(sql)} as tenant, n.resource,
      n.resource_id, n.received_at, n.parked_at, extract(epoch from now() - n.parked_at)::integer as age_s
    from notifications n left join tenants t on t.id = n.tenant_id
    where n.parked_at is not null and n.livemode and (${reason}::text is null or n.reason = ${reason})
      and (${before}::uuid is null
        or (n.parked_at, n.id) < (select o.parked_at, o.id from notifications o where o.id = ${before}))
    order by n.parked_at desc, n.id desc limit ${limit}`
}

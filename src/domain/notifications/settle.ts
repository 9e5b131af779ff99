// Settles notifications: each is applied once, or parked while it cannot be applied.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { finishing, fencing, type Settlement } from '../jobs/settle.ts'
import { PROVIDER_RESOURCE_NAMES, resourceOf, type ResourceName, type ResourceKey } from '../resources.ts'
import type { ParkedReason } from './notification.ts'

/** The delay before the next attempt if the object of a parked notification changed during the current attempt. */
const RETRY_DELAY_MS = 1_000

/** The settlement of a notification that currently changes no row. */
export type NotificationSettlement = Settlement & {
  notification_id: string
  becomes: 'applied' | 'ignored' | 'parked'
  reason: ParkedReason | null
  /** While it is parked: the provider's id of the object whose change resumes it; null if only a delay resumes it. */
  waits_for: string | null
  /** The root row of the notification, if known. */
  of: ResourceKey | null
}

/**
 * Settles the jobs of notifications that currently change no row: the notification is final, or parked with its job
 * open. A parked notification is resumed by a change of the object that it waits for, but not while its job is running.
 * If the object changes during the attempt, the job is therefore retried soon.
 */
export async function settleNotifications(
  sql: Sql,
  settlements: NotificationSettlement[],
): Promise<Set<string>> {
  const items = settlements.map(({ notification_id, becomes, reason, waits_for, of, ...settlement }) => ({
    ...settlement,
    change: { notification_id, becomes, reason, waits_for, ...of },
  }))
  const root_rows = PROVIDER_RESOURCE_NAMES.map(
    (resource) => sql`
      select r.updated_at from ${sql(resourceOf(resource).table)} r
      where change.resource = ${resource} and r.tenant_id = change.tenant_id and r.id = change.resource_id`,
  )
  const delay_ms = sql`
    case when fenced.job_id in (select job_id from crossed) then ${RETRY_DELAY_MS} else fenced.delay_ms end`
  const rows = await sql<{ id: string }[]>`
    with ${fencing(sql, items)},
    change as (
      select c.* from fenced cross join lateral jsonb_to_record(fenced.change) as c(
        notification_id uuid, becomes text, reason text, waits_for text, tenant_id uuid, resource text,
        resource_id uuid)
    ), crossed as (
      select fenced.job_id from fenced
      join change
        on change.notification_id = fenced.job_id and change.becomes = 'parked' and change.waits_for is not null
      join lateral (${unionAll(sql, root_rows)}) r on r.updated_at > fenced.started_at
    ), notification as (
      update notifications n set state = change.becomes, reason = change.reason, waits_for = change.waits_for,
        reported = null, due_at = null,
        parked_at = case
          when change.becomes = 'parked' and n.reason = change.reason then n.parked_at
          when change.becomes = 'parked' then now() end,
        applied_at = case when change.becomes <> 'parked' then clock_timestamp() end,
        tenant_id = coalesce(change.tenant_id, n.tenant_id), resource = coalesce(change.resource, n.resource),
        resource_id = coalesce(change.resource_id, n.resource_id)
      from change where n.id = change.notification_id
    ),
    ${finishing(sql, settlements, delay_ms)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/**
 * A part of the statement that settles `updates` (`job_id, notification_id, tenant_id` and `<resource>_id`): marks the
 * notification of each update as applied and assigns the notification to the update's row. If an attempt continues
 * after the settlement, its notification is not applied yet.
 */
export function assigning(sql: Sql | Tx, resource: ResourceName): Fragment {
  return sql`
    notification as (
      update notifications n set state = 'applied', applied_at = clock_timestamp(), reason = null, waits_for = null,
        reported = null, due_at = null, parked_at = null, tenant_id = updates.tenant_id, resource = ${resource},
        resource_id = ${sql(`updates.${resource}_id`)}
      from updates join fenced on fenced.job_id = updates.job_id
      where n.id = updates.notification_id and fenced.state <> 'running'
    )`
}

/**
 * A part of a statement that creates or changes objects: the jobs of parked notifications that wait for these objects
 * become due. `objects` selects their `provider, reference`. The statement waits for no lock of these jobs: a locked
 * job is running anyway, and a notification parked at this moment is soon retried.
 */
export function resuming(sql: Sql | Tx, objects: Fragment): Fragment {
  return sql`
    resumable as (
      select j.id from (${objects}) objects
      cross join lateral (
        select n.id from notifications n
        where n.provider = objects.provider and n.waits_for = objects.reference and n.state = 'parked'
        -- The offset forces a lookup by index: a join that was planned while nothing was parked would later read
        -- every parked row.
        offset 0
      ) n
      cross join lateral (
        select j.id from jobs j where j.id = n.id and j.state = 'ready' and j.run_at > now() for update skip locked
      ) j
    ), resumed as (
      update jobs j set run_at = now(), wakeup_sent_at = null from resumable where j.id = resumable.id
    )`
}

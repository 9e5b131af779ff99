// Orphans: drifts about objects of ours at a provider from which no row can be made.
import { providerKey } from '#core/config/providers.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { derivedId, newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import type { ProviderMode } from '../notifications/notification.ts'
import type { ProviderResourceName } from '../resources.ts'
import type { Side } from './side.ts'

/** An object at a provider in one of the modes, by the provider's id. */
type ProviderObject = ProviderMode & { reference: string }

/** The `subject_id` of the drift of an orphan, which has no row. */
function orphanId({ provider, livemode, reference }: ProviderObject): string {
  return derivedId('orphan', providerKey(provider, livemode), reference)
}

/**
 * Opens the drift of an orphan, or updates it. `tenant_id`: null if the tenant is not known; the drift then belongs to
 * the system. Returns false, with nothing written, if an operator has dismissed the orphan.
 */
export async function openOrphan(
  sql: Sql,
  object: ProviderObject,
  orphan: { tenant_id: string | null; resource: ProviderResourceName; theirs: Side; detail: string },
): Promise<boolean> {
  const { tenant_id, resource, theirs, detail } = orphan
  const owner = tenant_id ?? SYSTEM_TENANT_ID
  const subject_id = orphanId(object)
  const opened = await sql`
    insert into drifts (tenant_id, id, subject, subject_id, state, theirs, detail, since, checked_at)
    select ${owner}::uuid, ${newId()}::uuid, ${resource}, ${subject_id}::uuid, 'orphan',
      ${sql.json(theirs)}::jsonb, ${detail}, now(), now()
    where not exists (
      select from drifts dismissed
      where dismissed.tenant_id = ${owner} and dismissed.subject = ${resource}
        and dismissed.subject_id = ${subject_id} and dismissed.dismissed_at is not null)
    on conflict (tenant_id, subject, subject_id) where resolved_at is null do update
      set theirs = excluded.theirs, detail = excluded.detail, checked_at = excluded.checked_at
    returning id`
  return opened.count > 0
}

/** A notification that is parked as an orphan; it has the id of its job. */
export type ParkedOrphan = ProviderObject & { notification_id: string }

/** The notification with this id, if it is parked as an orphan. */
export async function findParkedOrphan(
  sql: Sql | Tx,
  notification_id: string,
): Promise<ParkedOrphan | undefined> {
  const [parked] = await sql<ParkedOrphan[]>`
    select id as notification_id, provider, livemode, object_id as reference from notifications
    where id = ${notification_id} and parked_at is not null and reason = 'orphan' and object_id is not null`
  return parked
}

/** An update that closes the drift of an orphan, because its row exists, or can be made now. */
export function closingOrphan(sql: Sql | Tx, object: ProviderObject): Fragment {
  return sql`
    update drifts set resolved_at = now(), checked_at = now() where ${isOpenOrphan(sql, object)}`
}

/**
 * An update that closes the drift of an orphan whose notification an operator discards, and that keeps the orphan from
 * being reported again. The drift stays open while another notification of the object is parked.
 */
export function dismissingOrphan(sql: Sql | Tx, { notification_id, ...object }: ParkedOrphan): Fragment {
  return sql`
    update drifts set resolved_at = now(), checked_at = now(), dismissed_at = now()
    where ${isOpenOrphan(sql, object)} and not exists (${parkedAsOrphan(sql, object, notification_id)})`
}

function isOpenOrphan(sql: Sql | Tx, object: ProviderObject): Fragment {
  return sql`subject_id = ${orphanId(object)} and state = 'orphan' and resolved_at is null`
}

/** Whether another notification of the object is parked as an orphan. */
export async function isParkedAsOrphan(
  sql: Sql,
  object: ProviderObject,
  except_id: string,
): Promise<boolean> {
  const parked = await parkedAsOrphan(sql, object, except_id)
  return parked.count > 0
}

/** Selects a notification of the object that is parked as an orphan. */
function parkedAsOrphan(sql: Sql | Tx, { provider, livemode, reference }: ProviderObject, except_id: string) {
  return sql`
    select from notifications
    where parked_at is not null and reason = 'orphan' and provider = ${provider} and livemode = ${livemode}
      and object_id = ${reference} and id <> ${except_id} limit 1`
}

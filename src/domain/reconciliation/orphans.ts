// Orphans: drifts about objects of ours at a provider from which no row can be made.
import type { Sql } from '#core/db.ts'
import { derivedId, newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import type { ProviderResourceName } from '../resources.ts'
import type { Side } from './side.ts'

/** An object at a provider, by the provider's id. */
type ProviderObject = { provider: string; reference: string }

/** The `subject_id` of the drift of an orphan, which has no row. */
function orphanId({ provider, reference }: ProviderObject): string {
  return derivedId('orphan', provider, reference)
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
        and dismissed.subject_id = ${subject_id} and dismissed.resolved_at is not null)
    on conflict (tenant_id, subject, subject_id) where resolved_at is null do update
      set theirs = excluded.theirs, detail = excluded.detail, checked_at = excluded.checked_at
    returning id`
  return opened.count > 0
}

/** Closes the drift of an object that has a row now, or whose parent has one. */
export async function closeOrphan(sql: Sql, object: ProviderObject): Promise<void> {
  await sql`
    update drifts set resolved_at = now(), checked_at = now()
    where subject_id = ${orphanId(object)} and state = 'orphan' and resolved_at is null`
}

/** Whether another notification of the object is parked as an orphan. */
export async function isParkedAsOrphan(
  sql: Sql,
  { provider, reference }: ProviderObject,
  except_id: string,
): Promise<boolean> {
  const parked = await sql`
    select from notifications
    where parked_at is not null and reason = 'orphan' and provider = ${provider} and object_id = ${reference}
      and id <> ${except_id} limit 1`
  return parked.count > 0
}

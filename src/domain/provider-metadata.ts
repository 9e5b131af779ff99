// The metadata of objects at a provider. With it, an object is recognized as ours, and a lost row can be made again.
import { z } from 'zod'
import type { Fragment, Sql } from '#core/db.ts'
import type { ResourceName } from './resources.ts'

/** A provider accepts values of up to 500 characters, which have up to four bytes each. */
const MAX_VALUE_BYTES = 500

/**
 * The metadata of the object that is created for a resource: the ids of the installation, the tenant and the resource,
 * the idempotency key of its request with the fingerprint, and `more`, the columns with ids of other rows, by name.
 * Absent values are omitted, and so is a key that is too long. Selected from rows with the columns of an
 * `IdempotentRequest` and these ids.
 */
export function providerMetadata(sql: Sql, resource: ResourceName, more: string[] = []): Fragment {
  const ids = ['tenant_id', `${resource}_id`, ...more].map(
    (name) => sql`${`sluice_${name}`}::text, ${sql(name)},`,
  )
  return sql`
    jsonb_strip_nulls(jsonb_build_object(${ids}
      'sluice_installation', (select id from installation),
      'sluice_key', case when octet_length(idempotency_key) <= ${MAX_VALUE_BYTES} then idempotency_key end,
      'sluice_fingerprint', nullif(fingerprint, '')))`
}

/** Metadata as a provider returns it. */
export type Metadata = Readonly<Record<string, string>>

/** The part of the metadata that identifies the row of an object and its request. */
export type ObjectMarks = {
  tenant_id: string
  id: string
  idempotency_key: string
  /** The fingerprint of the request; null if the key is not known. */
  fingerprint: string | null
}

/** The id in this field of the metadata; null if there is none. */
export function idIn(metadata: Metadata, name: string): string | null {
  return z.uuid().safeParse(metadata[`sluice_${name}`]).data ?? null
}

/** The ids of the row that an object was created for; undefined if the metadata has none. */
export function rowIdsIn(
  metadata: Metadata,
  resource: ResourceName,
): Pick<ObjectMarks, 'tenant_id' | 'id'> | undefined {
  const tenant_id = idIn(metadata, 'tenant_id')
  const id = idIn(metadata, `${resource}_id`)
  return tenant_id === null || id === null ? undefined : { tenant_id, id }
}

/** The marks of the row that an object was created for; undefined if the metadata does not identify the row. */
export function marksIn(metadata: Metadata, resource: ResourceName): ObjectMarks | undefined {
  const ids = rowIdsIn(metadata, resource)
  const key = metadata['sluice_key']
  if (ids === undefined) return undefined
  const fingerprint = key === undefined ? null : (metadata['sluice_fingerprint'] ?? null)
  return { ...ids, idempotency_key: key ?? placeholderKey(ids.id), fingerprint }
}

/**
 * The idempotency key of a row that was made again and whose key is not known, or is that of another row. No caller can
 * send it, because it has a space. See `placeholder_keys` in 0024_recovered_fill.sql.
 */
export function placeholderKey(id: string): string {
  return `recovered ${id}`
}

/** Whether the object was created by this installation, and whether the tenant in its metadata exists. */
export async function findOrigin(
  sql: Sql,
  metadata: Metadata,
): Promise<{ is_ours: boolean; has_tenant: boolean }> {
  const tenant_id = idIn(metadata, 'tenant_id')
  const installation = metadata['sluice_installation'] ?? null
  const [origin] = await sql<{ is_ours: boolean; has_tenant: boolean }[]>`
    select coalesce((select id::text from installation) = ${installation}, false) as is_ours,
      exists (select from tenants where id = ${tenant_id}) as has_tenant`
  return origin!
}

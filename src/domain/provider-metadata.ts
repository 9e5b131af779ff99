// The metadata of objects at a provider. With it, an object is recognized as ours, and a lost row can be made again.
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

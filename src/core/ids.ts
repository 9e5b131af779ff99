// Identifiers: time-ordered ids, and ids that are derived: from idempotency keys, and from the provider's ids.
import { createHash, randomUUIDv7 } from 'node:crypto'

/** A new UUIDv7. */
export function newId(): string {
  return randomUUIDv7()
}

/** New ids in ascending order. The ids of two calls in the same millisecond may be interleaved. */
export function newIdsInOrder(count: number): string[] {
  return Array.from({ length: count }, newId).toSorted()
}

/** A UUID (version 8) that is the same for the same parts, so that a duplicate arrival becomes the same row and job. */
export function derivedId(...parts: string[]): string {
  const hash = createHash('sha256').update(parts.join('\u0000')).digest()
  hash[6] = (hash[6]! & 0x0f) | 0x80
  hash[8] = (hash[8]! & 0x3f) | 0x80
  const hex = hash.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`
}

/** The ids of what one request creates. The id of its event is drawn: a repeated event is another event of the feed. */
export type RequestIds = {
  /** The id of the resource that the request creates. */
  id: string
  /** The id of the job that the request enqueues. Its calls have the keys `<job id>:<generation>`. */
  job_id: string
  event_id: string
}

/**
 * The ids of what a request creates. If the request has an idempotency key, they follow from the tenant, the path and
 * the key: when the database has lost the rows of a request and the request is repeated, it becomes the same rows, and
 * its job calls the provider under the same key. `path`: the method and the path with its ids, e.g. `POST
 * /v1/payments/0198.../refunds`; for an item of a batch, the path of a request for this item alone. What is hashed must
 * never change, even if names or paths do: `test/ids.test.ts` has fixed examples.
 */
export function idsOfRequest(request: { tenant_id: string; path: string; key: string | null }): RequestIds {
  const { tenant_id, path, key } = request
  const event_id = newId()
  if (key === null) return { id: newId(), job_id: newId(), event_id }
  const id = derivedId(tenant_id, path, key)
  return { id, job_id: derivedId(id, 'job'), event_id }
}

/** The lowest id: scans in the order of ids begin here. */
export const LOWEST_ID = '00000000-0000-0000-0000-000000000000'
export const HIGHEST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** The owner of jobs without a tenant: maintenance, and notifications before their tenant is known. */
export const SYSTEM_TENANT_ID = '00000000-0000-7000-8000-000000000000'
/** The same for test mode: notifications of test accounts. Those of a sandbox have its tenant. */
export const SYSTEM_TWIN_ID = '00000000-0000-7000-8000-000000000001'

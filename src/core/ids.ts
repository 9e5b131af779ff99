// Identifiers: time-ordered ids for our own rows; for notifications, ids that are derived from the provider's ids.
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

/** The lowest id: scans in the order of ids begin here. */
export const LOWEST_ID = '00000000-0000-0000-0000-000000000000'
export const HIGHEST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** The owner of jobs without a tenant: maintenance, and notifications before their tenant is known. */
export const SYSTEM_TENANT_ID = '00000000-0000-7000-8000-000000000000'

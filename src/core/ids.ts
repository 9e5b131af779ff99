// Identifiers: ordered by time for what we create, derived from a provider's names for what it sends us.
import { createHash, randomUUIDv7 } from 'node:crypto'

/** A new UUIDv7. */
export function newId(): string {
  return randomUUIDv7()
}

/** New ids of which each sorts after the one before; two of one millisecond need not, if they are made apart. */
export function newIdsInOrder(count: number): string[] {
  return Array.from({ length: count }, newId).toSorted()
}

/**
 * A UUID (version 8) that is always the same for the same parts, so that what arrives twice becomes one row and one
 * job.
 */
export function derivedId(...parts: string[]): string {
  const hash = createHash('sha256').update(parts.join('\u0000')).digest()
  hash[6] = (hash[6]! & 0x0f) | 0x80
  hash[8] = (hash[8]! & 0x3f) | 0x80
  const hex = hash.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`
}

/** Sorts before every other id: walks through rows in the order of their ids begin here. */
export const LOWEST_ID = '00000000-0000-0000-0000-000000000000'
export const HIGHEST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** Owns the jobs that belong to no tenant: applying notifications, whose tenant is not known yet, and maintenance. */
export const SYSTEM_TENANT_ID = '00000000-0000-7000-8000-000000000000'

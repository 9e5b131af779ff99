// The fingerprint of a request: two requests with one idempotency key are the same when their fingerprints are equal.
import { createHash } from 'node:crypto'

const VERSION = 'v2:'

/**
 * A hash of a validated body without its key. Neither the order of keys nor null for a field that may be absent
 * matters.
 */
export function fingerprint(body: object): string {
  const fields = Object.entries(body).filter(([, value]) => value != null)
  return VERSION + hash(canonical(Object.fromEntries(fields)))
}

/** Whether a stored fingerprint is that of `body`. Fingerprints of the first version are still accepted. */
export function isFingerprintOf(body: object, remembered: string): boolean {
  return remembered === (remembered.startsWith(VERSION) ? fingerprint(body) : hash(body))
}

function canonical(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(canonical)
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([key, inner]) => [key, canonical(inner)]))
}

function hash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('base64')
}

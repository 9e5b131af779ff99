// The fingerprint of a request: two requests with one idempotency key are the same when their fingerprints are equal.
import { hash } from 'node:crypto'

const VERSION = 'v2:'

/**
 * A hash of a validated body without its key. Neither the order of keys nor null for a field that may be absent
 * matters.
 */
export function fingerprint(body: object): string {
  const fields = Object.entries(body).filter(([, value]) => value != null)
  return VERSION + hashOf(canonical(Object.fromEntries(fields)))
}

/** Whether a stored fingerprint is that of `body`. Fingerprints of the first version are still accepted. */
export function isFingerprintOf(body: object, remembered: string): boolean {
  return remembered === (remembered.startsWith(VERSION) ? fingerprint(body) : hashOf(body))
}

function canonical(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(canonical)
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([key, inner]) => [key, canonical(inner)]))
}

function hashOf(value: unknown): string {
  return hash('sha256', JSON.stringify(value), 'base64')
}

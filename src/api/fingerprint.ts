// The fingerprint of a request: two requests with one idempotency key are the same when their fingerprints are equal.
import { hash } from 'node:crypto'

const VERSION = 'v2:'

/**
 * A hash of a validated body without its key. Neither the order of keys nor null for a field that may be absent
 * matters.
 */
export function fingerprint(body: object): string {
  return VERSION + hashOf(canonical(body, (value) => value != null))
}

/** Whether a stored fingerprint is that of `body`. Fingerprints of the first version are still accepted. */
export function isFingerprintOf(body: object, remembered: string): boolean {
  return remembered === (remembered.startsWith(VERSION) ? fingerprint(body) : hashOf(body))
}

// With sorted keys, and at the top only the fields for which `counts` holds.
function canonical(value: unknown, counts: (field: unknown) => boolean = () => true): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((each) => canonical(each))
  const sorted: Record<string, unknown> = {}
  for (const key of Object.keys(value).toSorted()) {
    const field: unknown = value[key as keyof typeof value]
    if (counts(field)) sorted[key] = canonical(field)
  }
  return sorted
}

function hashOf(value: unknown): string {
  return hash('sha256', JSON.stringify(value), 'base64')
}

// The fingerprint of a request: two requests with one idempotency key are the same when their fingerprints are equal.
import { hash } from 'node:crypto'

/**
 * A hash of a validated body without its key. Neither the order of keys nor null for a field that may be absent
 * matters.
 */
export function fingerprint(body: object): string {
  const content = canonical(body, (value) => value != null)
  return hash('sha256', JSON.stringify(content), 'base64')
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

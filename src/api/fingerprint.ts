// The fingerprint of a request. A request repeats an earlier request with the same idempotency key if their
// fingerprints are equal.
import { hash } from 'node:crypto'

/**
 * A hash of a validated body without its idempotency key. The order of fields does not matter, and a null field equals
 * an absent one.
 */
export function fingerprint(body: object): string {
  const content = canonical(body, (value) => value != null)
  return hash('sha256', JSON.stringify(content), 'base64')
}

// Sorts all keys. The top level keeps only the fields for which `counts` is true.
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

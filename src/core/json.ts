// Free-form JSON: its schema, and its preparation for storage.
import { z } from 'zod'
import type { Json } from './db.ts'

/**
 * Any JSON value. It needs no validation, because it was parsed from JSON. `z.json()` would put a broken reference
 * into the OpenAPI document; the cast is safe after parsing.
 */
export const anyJson = z.any() as z.ZodType<Json>

/** Metadata as the API returns it. */
export const metadataJson = anyJson.meta({
  id: 'Metadata',
  description: 'Any JSON value of your own. It is returned as you sent it.',
  example: { order: 'A-17' },
})

/**
 * The smallest accepted magnitude of a number other than 0. Postgres stores numbers in full: 5e-324 takes 327
 * characters, but numbers from this magnitude on take at most 34.
 */
const MIN_MAGNITUDE = 1e-15

/** Why this number from JSON is not accepted, or null. */
export function problemOfNumber(value: number): string | null {
  // Beyond 2^53 - 1, adjacent integers become equal. Beyond 1e308, numbers become infinite, which JSON cannot express.
  if (Number.isInteger(value) ? !Number.isSafeInteger(value) : !Number.isFinite(value))
    return 'Numbers beyond 2^53 - 1 lose digits in JSON: send them as text.'
  return value !== 0 && Math.abs(value) < MIN_MAGNITUDE
    ? `Numbers closer to zero than ${MIN_MAGNITUDE} are not accepted: send them as text.`
    : null
}

const MAX_DEPTH = 100

/**
 * Prepares external JSON for storage: characters that Postgres cannot store are removed (they would fail at every
 * retry), and the fields in `secrets` are redacted. Undefined if the value is nested deeper than any genuine
 * notification.
 */
export function toStorableJson(value: unknown, secrets: ReadonlySet<string>): unknown {
  return isWithinDepth(value, MAX_DEPTH) ? sanitize(value, secrets) : undefined
}

function isWithinDepth(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return depth > 0 && Object.values(value).every((each) => isWithinDepth(each, depth - 1))
}

function sanitize(value: unknown, secrets: ReadonlySet<string>): unknown {
  if (typeof value === 'string') return value.replaceAll('\u0000', '').toWellFormed()
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((each) => sanitize(each, secrets))
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [
      sanitize(name, secrets),
      secrets.has(name) && each !== null ? '[redacted]' : sanitize(each, secrets),
    ]),
  )
}

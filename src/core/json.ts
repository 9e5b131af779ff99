// Free-form JSON: as a schema, and cleaned so that it can be stored.
import { z } from 'zod'
import type { Json } from './db.ts'

/**
 * Any JSON value. It needs no check, because it was parsed from JSON. Not `z.json()`, which puts a broken reference
 * into the OpenAPI document; the cast says what parsing has made sure of.
 */
export const anyJson = z.any() as z.ZodType<Json>

/** Metadata as it is answered. */
export const metadataJson = anyJson.meta({
  id: 'Metadata',
  description: 'Free-form JSON of yours: any value. It comes back as sent.',
  example: { order: 'A-17' },
})

/**
 * Postgres writes numbers out in full: 5e-324 takes 327 characters. From this limit on, no number takes more than 34.
 */
const MIN_MAGNITUDE = 1e-15

/** Why this number, as it was parsed from JSON, is not taken; or null. */
export function problemOfNumber(value: number): string | null {
  // Beyond 2^53 - 1 neighbouring whole numbers become the same; beyond 1e308 all become infinite, which JSON cannot
  // express.
  if (Number.isInteger(value) ? !Number.isSafeInteger(value) : !Number.isFinite(value))
    return 'Numbers beyond 2^53 - 1 lose digits in JSON: send them as text.'
  return value !== 0 && Math.abs(value) < MIN_MAGNITUDE
    ? `Numbers closer to zero than ${MIN_MAGNITUDE} are not taken: send them as text.`
    : null
}

const MAX_DEPTH = 100

/**
 * JSON from outside, made fit to be stored: characters that Postgres cannot store are removed (they would fail at
 * every retry), and fields named in `secrets` are redacted. Undefined when it is nested deeper than any genuine
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

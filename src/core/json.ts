// Free-form JSON: in schemas, and as it comes from outside.
import { z } from 'zod'
import type { Json } from './db.ts'

/** Any JSON value. What is checked was parsed as JSON, so there is nothing to find out; `z.json()` would document it by a broken reference. */
export const anyJson = z.any() as z.ZodType<Json>

/** Metadata as it is answered. */
export const metadataJson = anyJson.meta({
  id: 'Metadata',
  description: 'Free-form JSON of yours: any value. It comes back as sent.',
  example: { order: 'A-17' },
})

const MAX_LEVELS = 100

/**
 * What came from outside as it can be stored: without characters that Postgres cannot store, which would become a retry for
 * ever, and with the fields called one of `secrets` blacked out. Undefined when it is nested as nothing honest is.
 */
export function storable(value: unknown, secrets: ReadonlySet<string>): unknown {
  return fits(value, MAX_LEVELS) ? cleaned(value, secrets) : undefined
}

function fits(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return levels > 0 && Object.values(value).every((each) => fits(each, levels - 1))
}

function cleaned(value: unknown, secrets: ReadonlySet<string>): unknown {
  if (typeof value === 'string') return value.replaceAll('\u0000', '').toWellFormed()
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((each) => cleaned(each, secrets))
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [
      cleaned(name, secrets),
      secrets.has(name) && each !== null ? '[redacted]' : cleaned(each, secrets),
    ]),
  )
}

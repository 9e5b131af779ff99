// Free-form JSON: in schemas, and as it can be stored.
import { z } from 'zod'
import type { Json } from './db.ts'

/** Any JSON value. What is checked was parsed as JSON, so there is nothing to find out; `z.json()` would document it by a broken reference. */
export const anyJson = z.any() as z.ZodType<Json>

const MAX_LEVELS = 100
/** What an event tells and nobody here needs: tokens, and addresses that carry one. The provider can be asked for them. */
const SECRETS = new Set(['client_secret', 'payment_method', 'next_action'])

/**
 * What a provider told as Postgres can store it: without secrets, without NUL and with whole characters only. Throws RangeError when it is nested more
 * than a hundred levels deep.
 */
export function storable(value: unknown, levels = MAX_LEVELS): unknown {
  if (typeof value === 'string') return value.replaceAll('\u0000', '').toWellFormed()
  if (typeof value !== 'object' || value === null) return value
  if (levels === 0) throw new RangeError('nested too deeply')
  if (Array.isArray(value)) return value.map((each) => storable(each, levels - 1))
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [
      storable(name, 0),
      SECRETS.has(name) && each !== null ? '[redacted]' : storable(each, levels - 1),
    ]),
  )
}

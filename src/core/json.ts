// Free-form JSON in schemas.
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

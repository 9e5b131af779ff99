// Types of events as requests name them.
import { z } from 'zod'
import { EVENTS, problemOfType, TYPE_PATTERNS, type EventType } from '#domain/events.ts'

/** Of a list only so many are compared with the catalogue: that takes time, and no more faults are reported. */
const MOST_COMPARED = 20

/** A type of the catalogue. */
export const eventType = z.enum(
  EVENTS.map(({ type }) => type as EventType),
  { error: strangeType },
)

/** A type, `<noun>.*` or `*`. */
export const eventTypes = z
  .enum(TYPE_PATTERNS, { error: strangeType })
  .meta({ id: 'EventTypes', description: '`*` for all, `<noun>.*`, or a type.', example: 'payment.*' })

/** Undefined for what is no text: that is told as everywhere. */
function strangeType({ input, path }: z.core.$ZodRawIssue): string | undefined {
  if (typeof input !== 'string') return undefined
  const nth = path?.at(-1)
  if (typeof nth === 'number' && nth >= MOST_COMPARED) return 'is no type of event'
  return `${problemOfType(input)} They are listed under webhooks in /openapi.json`
}

// Types of events as requests name them.
import { z } from 'zod'
import { EVENTS, problemOfType, TYPE_PATTERNS, type EventType } from '#domain/events.ts'

/** Of a list only so many are compared with the catalogue: that takes time, and no more faults are reported. */
const MOST_COMPARED = 20
const LISTED = 'The reference at /docs lists them'

/** A type of the catalogue. */
export const eventType = z.enum(
  EVENTS.map(({ type }) => type as EventType),
  { error: (issue) => severalTypes(issue) ?? strangeType(issue) },
)

/** A type, `<noun>.*` or `*`. */
export const eventTypes = z
  .enum(TYPE_PATTERNS, { error: strangeType })
  .meta({ id: 'EventTypes', description: '`*` for all, `<noun>.*`, or a type.', example: 'payment.*' })

/** Of a pattern where a single type is wanted. */
function severalTypes({ input }: z.core.$ZodRawIssue): string | undefined {
  if (!TYPE_PATTERNS.some((pattern) => pattern === input)) return undefined
  return `\`${String(input)}\` means several types; a test takes a single one. ${LISTED}`
}

/** Undefined for what is no text: that is told as everywhere. */
function strangeType({ input, path }: z.core.$ZodRawIssue): string | undefined {
  if (typeof input !== 'string') return undefined
  const nth = path?.at(-1)
  if (typeof nth === 'number' && nth >= MOST_COMPARED) return 'is no type of event'
  return `${problemOfType(input)} ${LISTED}`
}

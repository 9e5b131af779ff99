// Event types in requests.
import { z } from 'zod'
import { EVENTS, unknownTypeMessage, EVENT_TYPE_PATTERNS, type EventType } from '#domain/events.ts'

/**
 * Only the first items of a list are compared with the catalogue, so that their error messages can suggest a type. An
 * answer reports no more errors than this number.
 */
const MAX_COMPARED_TYPES = 20
const REFERENCE_HINT = 'The reference at /docs lists all types'

/** A single event type. */
export const eventType = z.enum(
  EVENTS.map(({ type }) => type as EventType),
  { error: (issue) => problemOfPattern(issue) ?? problemOfType(issue) },
)

/** A type, `<resource>.*` or `*`. */
export const eventTypes = z.enum(EVENT_TYPE_PATTERNS, { error: problemOfType }).meta({
  id: 'EventTypes',
  description: 'An event type, `<resource>.*` for all events of a resource, or `*` for all events.',
  example: 'payment.*',
})

/** The error for a pattern in place of a single type; undefined for any other input. */
function problemOfPattern({ input }: z.core.$ZodRawIssue): string | undefined {
  if (!EVENT_TYPE_PATTERNS.some((pattern) => pattern === input)) return undefined
  return `\`${String(input)}\` means several types; a test needs a single type. ${REFERENCE_HINT}`
}

/** The error for an unknown type; undefined if the input is no string. */
function problemOfType({ input, path }: z.core.$ZodRawIssue): string | undefined {
  if (typeof input !== 'string') return undefined
  const nth = path?.at(-1)
  if (typeof nth === 'number' && nth >= MAX_COMPARED_TYPES) return 'is not an event type'
  return `${unknownTypeMessage(input)} ${REFERENCE_HINT}`
}

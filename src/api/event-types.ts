// Types of events as requests name them.
import { z } from 'zod'
import { EVENTS, unknownTypeMessage, EVENT_TYPE_PATTERNS, type EventType } from '#domain/events.ts'

/** Of a list only so many are compared with the catalogue: that takes time, and no more faults are reported. */
const MAX_COMPARED_TYPES = 20
const SEE_REFERENCE = 'The reference at /docs lists them'

/** A type of the catalogue. */
export const eventType = z.enum(
  EVENTS.map(({ type }) => type as EventType),
  { error: (issue) => patternProblem(issue) ?? unknownTypeProblem(issue) },
)

/** A type, `<resource>.*` or `*`. */
export const eventTypes = z
  .enum(EVENT_TYPE_PATTERNS, { error: unknownTypeProblem })
  .meta({ id: 'EventTypes', description: '`*` for all, `<resource>.*`, or a type.', example: 'payment.*' })

/** Of a pattern where a single type is wanted. */
function patternProblem({ input }: z.core.$ZodRawIssue): string | undefined {
  if (!EVENT_TYPE_PATTERNS.some((pattern) => pattern === input)) return undefined
  return `\`${String(input)}\` means several types; a test takes a single one. ${SEE_REFERENCE}`
}

/** Undefined for what is no text: that is told as everywhere. */
function unknownTypeProblem({ input, path }: z.core.$ZodRawIssue): string | undefined {
  if (typeof input !== 'string') return undefined
  const nth = path?.at(-1)
  if (typeof nth === 'number' && nth >= MAX_COMPARED_TYPES) return 'is no type of event'
  return `${unknownTypeMessage(input)} ${SEE_REFERENCE}`
}

// Describes in plain words what is wrong with a value, for callers of the API and for operators.
import type { z } from 'zod'

const TYPES: Record<string, string> = {
  string: 'must be text',
  number: 'must be a number',
  int: 'must be a whole number',
  boolean: 'must be true or false',
  array: 'must be a list',
  object: 'must be an object',
  record: 'must be an object',
}
const FORMATS: Record<string, string> = { uuid: 'must be a UUID', url: 'must be an http or https URL' }

/** The message for an issue of a schema that has no message of its own. */
export function describe(issue: z.core.$ZodRawIssue): string {
  if (issue.input === undefined) return 'is required'
  switch (issue.code) {
    case 'invalid_type':
      return TYPES[issue.expected] ?? 'has a wrong type'
    case 'too_small':
      if (issue.origin === 'string') return `must have at least ${count(issue.minimum, 'character')}`
      if (issue.origin === 'array') return `must have at least ${count(issue.minimum, 'element')}`
      return `must be ${issue.inclusive === false ? 'more than' : 'at least'} ${issue.minimum}`
    case 'too_big':
      if (issue.origin === 'string') return `must have at most ${count(issue.maximum, 'character')}`
      if (issue.origin === 'array') return `must have at most ${count(issue.maximum, 'element')}`
      return `must be ${issue.inclusive === false ? 'less than' : 'at most'} ${issue.maximum}`
    case 'invalid_format':
      return FORMATS[issue.format] ?? 'has a wrong format'
    case 'invalid_value':
      return oneOf(issue.values)
    default:
      return 'is not valid'
  }
}

/** That a value must be one of these. */
export function oneOf(values: readonly unknown[]): string {
  return values.length === 1
    ? `must be ${String(values[0])}`
    : `must be one of ${values.map(String).join(', ')}`
}

function count(number: number | bigint, what: string): string {
  return `${number} ${what}${Number(number) === 1 ? '' : 's'}`
}

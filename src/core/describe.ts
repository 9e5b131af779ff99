// Describes validation errors in plain words, for API clients and operators.
import type { z } from 'zod'
import { PAYMENTS } from './config/providers.ts'

const TYPES: Record<string, string> = {
  string: 'must be text',
  number: 'must be a number',
  int: 'must be a whole number',
  boolean: 'must be true or false',
  array: 'must be a list',
  object: 'must be an object',
  record: 'must be an object',
}
const FORMATS: Record<string, string> = { url: 'must be an http or https URL' }

/** The message for an issue of a schema that has no message of its own. */
export function describeIssue(issue: z.core.$ZodRawIssue): string {
  if (issue.input === undefined) return 'is required'
  switch (issue.code) {
    case 'invalid_type':
      return TYPES[issue.expected] ?? 'has a wrong type'
    case 'too_small':
      if (issue.origin === 'string') return `must have at least ${quantity(issue.minimum, 'character')}`
      if (issue.origin === 'array') return `must have at least ${quantity(issue.minimum, 'element')}`
      return `must be ${issue.inclusive === false ? 'more than' : 'at least'} ${issue.minimum}`
    case 'too_big':
      if (issue.origin === 'string') return `must have at most ${quantity(issue.maximum, 'character')}`
      if (issue.origin === 'array') return `must have at most ${quantity(issue.maximum, 'element')}`
      return `must be ${issue.inclusive === false ? 'less than' : 'at most'} ${issue.maximum}`
    case 'invalid_format':
      if (issue.format === 'uuid') return `must be a UUID${idHint(issue.input)}`
      return FORMATS[issue.format] ?? 'has a wrong format'
    case 'invalid_value':
      return oneOf(issue.values)
    default:
      return 'is not valid'
  }
}

/** A hint about the form of ids. The value is not repeated: it may be a secret. */
function idHint(value: unknown): string {
  const noun =
    typeof value === 'string' && PAYMENTS.reference.test(value)
      ? 'this is the id at the processor, by which lists of payments and refunds are filtered: `?processor_reference=`'
      : 'it is the `id` in our answers, not a name, a slug or an id of a provider'
  return `, such as 0198f6f0-1234-7000-8000-123456789abc; ${noun}`
}

/** The message that a value must be one of `values`. */
export function oneOf(values: readonly unknown[]): string {
  return values.length === 1
    ? `must be ${String(values[0])}`
    : `must be one of ${values.map(String).join(', ')}`
}

/** A number with its noun, in the plural unless the number is 1: `1 job`, `2 jobs`. */
export function quantity(number: number | bigint, noun: string): string {
  return `${number} ${noun}${Number(number) === 1 ? '' : 's'}`
}

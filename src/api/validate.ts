// Checking what a request brings against its schema, and saying what is wrong in words that name no validator.
import type { FastifySchemaCompiler } from 'fastify'
import { z } from 'zod'
import { AppError } from '#core/errors.ts'

const MAX_DETAILS = 20

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

/** Fastify's validator of a schema: the parsed value, or `invalid_request` with what is wrong and where. */
export const validatorCompiler: FastifySchemaCompiler<z.ZodType> =
  ({ schema, httpPart }) =>
  (data) => {
    const { data: value, error } = schema.safeParse(data, {
      error: httpPart === 'querystring' ? describeParameter : describe,
    })
    return error === undefined ? { value } : { error: refusal(error.issues, httpPart ?? 'request') }
  }

function refusal(issues: z.core.$ZodIssue[], part: string): AppError {
  const found = issues
    .flatMap((issue) => {
      if (issue.code !== 'unrecognized_keys') return [{ path: issue.path, message: issue.message }]
      return issue.keys.map((key) => ({ path: [...issue.path, key], message: 'is not known' }))
    })
    .map(({ path, message }) => [JSON.stringify(path), { param: nameOf(path, part), message }] as const)
  // Of a field that fails several checks the first is told: of two equal names a map keeps the last.
  const details = [...new Map(found.toReversed()).values()].toReversed().slice(0, MAX_DETAILS)
  const [first] = details
  return new AppError('invalid_request', {
    message: first && `${first.param} ${first.message}.`,
    param: first?.param,
    details,
  })
}

/** A name can be empty, or as long as a body. */
function nameOf(path: PropertyKey[], part: string): string {
  if (path.length === 0) return part
  const name = path.map(String).join('.')
  if (name === '') return '""'
  return name.length > 100 ? `${name.slice(0, 100)}...` : name
}

/** The query's parser makes a list of what is repeated, and of nothing else. */
function describeParameter(issue: z.core.$ZodRawIssue): string {
  return Array.isArray(issue.input) ? 'comes more than once' : describe(issue)
}

/** One message for each kind of issue that has none of its own. */
function describe(issue: z.core.$ZodRawIssue): string {
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
      return issue.values.length === 1
        ? `must be ${String(issue.values[0])}`
        : `must be one of ${issue.values.map(String).join(', ')}`
    default:
      return 'is not valid'
  }
}

function count(number: number | bigint, what: string): string {
  return `${number} ${what}${Number(number) === 1 ? '' : 's'}`
}

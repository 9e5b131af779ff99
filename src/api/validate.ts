// Checking what a request brings against its schema, and saying what is wrong in words that name no validator.
import type { FastifySchemaCompiler } from 'fastify'
import type { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { describe } from '#core/words.ts'

const MAX_DETAILS = 20

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
      return issue.keys
        .slice(0, MAX_DETAILS)
        .map((key) => ({ path: [...issue.path, key], message: 'is not known' }))
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

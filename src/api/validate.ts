// Validates requests against their schemas, and reports problems in plain language.
import { isDeepStrictEqual } from 'node:util'
import type { FastifySchemaCompiler } from 'fastify'
import type { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { describeIssue, oneOf } from '#core/describe.ts'
import { unsupportedFields } from './body.ts'

const MAX_DETAILS = 20

/** Fastify's validator of a schema: the parsed value, or `invalid_request` with all problems. */
export const validatorCompiler: FastifySchemaCompiler<z.ZodType> =
  ({ schema, httpPart }) =>
  (data) => {
    const options = { error: httpPart === 'querystring' ? describeParameter : describeIssue }
    const { data: value, error } = schema.safeParse(data, options)
    if (error === undefined) return { value }
    // For a missing body, report the missing required fields instead of the wrong type of the body.
    const empty = httpPart === 'body' && data == null ? schema.safeParse({}, options).error : undefined
    const { issues } = empty ?? error
    return { error: refusal(faultsOf(issues, unsupportedFields.get(schema)), httpPart ?? 'request') }
  }

/**
 * Parses one message of a batch. Throws `invalid_request`; its parameters are named as if the message were the body.
 */
export function parseBatchItem<T>(schema: z.ZodType<T>, part: unknown): T {
  const { data, error } = schema.safeParse(part, { error: describeIssue })
  if (error !== undefined) throw refusal(faultsOf(error.issues), 'message')
  return data
}

type Fault = { path: PropertyKey[]; message: string; values: readonly unknown[] }

function refusal(faults: Fault[], part: string): AppError {
  const found = faults.map(
    ({ path, message }) => [JSON.stringify(path), { param: nameOf(path, part), message }] as const,
  )
  // If a field fails several checks, only its first problem is reported. A map keeps the last of several entries with
  // the same key, so the order is reversed before and after.
  const details = [...new Map(found.toReversed()).values()].toReversed().slice(0, MAX_DETAILS)
  const [first] = details
  return new AppError('invalid_request', {
    message: first && `${first.param} ${first.message}.`,
    param: first?.param,
    details,
  })
}

/** The problems of a value. `instead`: messages for unsupported fields, by name. Default: `is not known`. */
function faultsOf(issues: z.core.$ZodIssue[], instead: Record<string, string> = {}): Fault[] {
  const unknownFieldMessage = (key: string) => (Object.hasOwn(instead, key) ? instead[key]! : 'is not known')
  return issues.flatMap((issue) => {
    const { path, message } = issue
    if (issue.code === 'unrecognized_keys')
      return issue.keys
        .slice(0, MAX_DETAILS)
        .map((key) => ({ path: [...path, key], message: unknownFieldMessage(key), values: [] }))
    if (issue.code === 'invalid_union' && issue.errors.length > 0)
      return commonFaults(issue.errors.map((errors) => faultsOf(errors))).map((fault) => ({
        ...fault,
        path: [...path, ...fault.path],
      }))
    return [{ path, message, values: issue.code === 'invalid_value' ? issue.values : [] }]
  })
}

/**
 * The problems that every option of a union reports. If the options accept different values, the message lists the
 * values of all options.
 */
function commonFaults([first = [], ...others]: Fault[][]): Fault[] {
  const same = (a: Fault) => (b: Fault) => isDeepStrictEqual(a.path, b.path)
  return first.flatMap((fault) => {
    const each = [fault, ...others.flatMap((faults) => faults.find(same(fault)) ?? [])]
    if (each.length <= others.length) return []
    if (each.every(({ message }) => message === fault.message)) return [fault]
    const values = each.flatMap((option) => option.values)
    return [{ ...fault, message: oneOf(values), values }]
  })
}

/** The name of a field for messages. It can be empty, or as long as a body, because callers choose it. */
function nameOf(path: PropertyKey[], part: string): string {
  if (path.length === 0) return part
  const name = path.map(String).join('.')
  if (name === '') return '""'
  return name.length > 100 ? `${name.slice(0, 100)}...` : name
}

/**
 * Describes a problem of a query string. Unlike in `describeIssue`, an array means a repeated parameter: the query
 * parser creates no other arrays.
 */
function describeParameter(issue: z.core.$ZodRawIssue): string {
  return Array.isArray(issue.input) ? 'comes more than once' : describeIssue(issue)
}

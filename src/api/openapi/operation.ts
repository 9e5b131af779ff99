// The definition of a route as an operation of the OpenAPI document.
import type { z } from 'zod'
import type { Channel } from '#core/addresses.ts'
import { ERRORS, type ErrorCode } from '#core/errors.ts'
import type { Area, Scope } from '#domain/areas.ts'
import type { BodyLimits } from '../body.ts'
import { componentName, HEADERS, type PARAMETERS } from './components.ts'
import { errorSchema } from './error.ts'
import type { JsonSchema, Schemas } from './schemas.ts'

/** The definition of a route. */
export type RouteDefinition = {
  /** The name in generated clients, e.g. `createPayment`. */
  operation_id: string
  summary: string
  description?: string
  area: Area | null
  /** The group in the document. Default: the area. */
  tag?: string
  scope: Scope | null
  params?: z.ZodType
  querystring?: z.ZodType
  body?: z.ZodType
  /** The limits of the body. Undefined: the common limits. */
  body_limits?: BodyLimits
  /** The channel of messages that the route sends. Requests are refused if the channel has no credentials. */
  sends?: Channel
  response: Record<number, z.ZodType>
  /**
   * Set if a single answer may be as large as a list. `expected`: memory is reserved before the answer is read.
   * `counted`: the answer is about as large as its request, and memory is reserved when the size of the answer is
   * known.
   */
  large?: 'expected' | 'counted'
  /** Example requests, and the fields in which an example answer differs from the examples of its schema. */
  examples?: {
    requests?: Record<string, { summary: string; value: Record<string, unknown> }>
    answer?: Record<string, unknown>
    /** The same fields for the example of a 202 answer. */
    unfinished?: Record<string, unknown>
  }
  /** Whether the idempotency key is required. Undefined: the route accepts none. */
  key?: 'required' | 'optional'
  /**
   * What the route waits for: a job by default, a job if requested, or events if requested. Undefined: the route does
   * not wait.
   */
  waits?: 'by_default' | 'if_requested' | 'for_events'
  errors: ErrorCode[]
}

/** A registered route. */
export type DocumentedRoute = { method: string; path: string; definition: RouteDefinition }

/** The errors that every `/v1` route can answer. */
const COMMON_ERRORS: ErrorCode[] = [
  'invalid_request',
  'unauthorized',
  'request_timeout',
  'rate_limited',
  'headers_too_large',
  'misconfigured_gateway',
  'internal_error',
  'overloaded',
  'timeout',
  'database_unavailable',
]
/** The errors of jobs: answers to requests whose job has failed. */
const JOB_ERRORS: ErrorCode[] = [
  'payment_declined',
  'payment_invalid',
  'payout_refused',
  'kyc_refused',
  'email_send_failed',
  'sms_send_failed',
  'processor_error',
]
const BODY_ERRORS: ErrorCode[] = ['payload_too_large', 'unsupported_media_type']
const WAIT_TEXTS = {
  by_default:
    'Waits for the provider (10 s; `Prefer: wait=N`, at most 30, or `respond-async`). If the work is not finished by then, the answer is 202.',
  if_requested:
    'Answers with the accepted resource and does not wait, unless you send `Prefer: wait=N` (at most 30). If the work is not finished by then, the answer is 202.',
  for_events:
    'If there are no events, `Prefer: wait=N` (at most 30 seconds) waits: the answer comes with the first event, or is empty after N seconds. At most 20 requests of a key may wait at once.',
}
const SUCCESS_TEXTS: Record<number, string> = {
  200: 'Done.',
  201: 'Created.',
  202: 'The request was accepted and is not finished yet. The answer is the resource as it is now. The work continues; `Location` is the URL of the result.',
}

/** The operation of a route. */
export function operationOf({ definition }: DocumentedRoute, schemas: Schemas): JsonSchema {
  const { operation_id, summary, description, area, tag, scope, params, querystring, waits, key } = definition
  const needs = scope === null ? 'Needs a valid key and no scope.' : `Needs the scope \`${scope}\`.`
  const headers: (keyof typeof PARAMETERS)[] = [
    'x-request-id',
    ...(key === undefined ? [] : ['Idempotency-Key' as const]),
    ...(waits === undefined ? [] : ['Prefer' as const]),
  ]
  return {
    operationId: operation_id,
    summary,
    description: [description, waits && WAIT_TEXTS[waits], needs].filter(Boolean).join('\n\n'),
    tags: [tag ?? area ?? 'general'],
    security: [{ api_key: scope === null ? [] : [scope] }],
    parameters: [
      ...(params === undefined ? [] : parametersOf(schemas.of(params, 'input'), 'path')),
      ...(querystring === undefined ? [] : parametersOf(schemas.of(querystring, 'input'), 'query')),
      ...headers.map((header) => ({ $ref: `#/components/parameters/${componentName(header)}` })),
    ],
    ...(definition.body && { requestBody: bodyOf(definition, definition.body, schemas) }),
    responses: { ...successesOf(definition, schemas), ...refusalsOf(definition, schemas) },
  }
}

function parametersOf(object: JsonSchema, location: 'path' | 'query'): JsonSchema[] {
  const { properties, required = [] } = object as {
    properties: Record<string, JsonSchema>
    required?: string[]
  }
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: location,
    description,
    required: location === 'path' || required.includes(name),
    // A parameter that is an object is sent as `metadata[key]=value`.
    ...(schema['type'] === 'object' && { style: 'deepObject', explode: true }),
    schema,
  }))
}

function bodyOf({ key, examples }: RouteDefinition, body: z.ZodType, schemas: Schemas): JsonSchema {
  const optional = body.safeParse(undefined).success
  const input_schema = schemas.of(body, 'input')
  // An optional body may also be null. The document shows only the other option.
  const schema = Array.isArray(input_schema['anyOf'])
    ? (input_schema['anyOf'][0] as JsonSchema)
    : input_schema
  if (key === 'required') {
    const component = schemas.components[String(schema['$ref']).split('/').at(-1)!]!
    component['required'] = [...new Set([...((component['required'] ?? []) as string[]), 'idempotency_key'])]
  }
  return {
    required: !optional,
    description: optional ? 'Optional.' : 'The request body.',
    content: { 'application/json': { schema, ...(examples?.requests && { examples: examples.requests }) } },
  }
}

function successesOf(definition: RouteDefinition, schemas: Schemas): JsonSchema {
  const { response, examples, querystring } = definition
  return Object.fromEntries(
    Object.entries(response).map(([status, answer]) => {
      const schema = schemas.of(answer, 'output')
      const [example_answer, list] = [schemas.exampleOf(schema), schema['type'] === 'array']
      const paged = list && querystring !== undefined
      const one: unknown = list ? (example_answer as unknown[])[0] : example_answer
      const differences = status === '202' ? examples?.unfinished : examples?.answer
      const example = {
        ...(one as object),
        ...fieldsAsSent(definition, one),
        ...mergedDifferences(one, differences),
      }
      return [
        status,
        {
          description: SUCCESS_TEXTS[Number(status)],
          headers: headersOf([
            ...(paged ? ['Link' as const] : []),
            ...(status === '202' ? ['Location' as const] : []),
            ...acceptedHeaders(definition),
          ]),
          content: { 'application/json': { schema, example: list ? [example] : example } },
        },
      ]
    }),
  )
}

/**
 * Returns `differences`. A field that is an object in both `differences` and `answer` also gets the fields that the
 * object has only in `answer`.
 */
function mergedDifferences(answer: unknown, differences: Record<string, unknown> = {}): object {
  const base = Object(answer) as Record<string, unknown>
  const isObject = (value: unknown) =>
    typeof value === 'object' && value !== null && Object.keys(value).length > 0 && !Array.isArray(value)
  return Object.fromEntries(
    Object.entries(differences).map(([name, value]) => [
      name,
      isObject(value) && isObject(base[name]) ? { ...Object(base[name]), ...Object(value) } : value,
    ]),
  )
}

/**
 * For a route that creates a resource: those fields of the first example request that are also fields of the answer.
 */
function fieldsAsSent({ key, body, examples }: RouteDefinition, answer: unknown): object {
  const [first] = Object.values(examples?.requests ?? {})
  if (key !== 'required' || first === undefined) return {}
  const sent = Object.entries(Object(body?.parse(first.value)))
  return Object.fromEntries(sent.filter(([name]) => Object.hasOwn(Object(answer), name)))
}

/** All error codes that a route can answer. */
export function codesOf({ body, scope, errors }: RouteDefinition): ErrorCode[] {
  return [
    ...COMMON_ERRORS,
    ...(body === undefined ? [] : BODY_ERRORS),
    ...(scope === null ? [] : (['missing_scope'] as const)),
    ...errors,
  ]
}

function refusalsOf(definition: RouteDefinition, schemas: Schemas): JsonSchema {
  const byStatus = Object.groupBy(codesOf(definition), (code) => ERRORS[code][0])
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, list]) => [
      status,
      {
        description: list.map((code) => `\`${code}\`: ${ERRORS[code][1]}`).join('\n\n'),
        headers: headersOf([
          ...(status === '401' ? ['WWW-Authenticate' as const] : []),
          ...(status === '429' || status === '503' ? ['Retry-After' as const] : []),
          ...(list.some((code) => JOB_ERRORS.includes(code)) ? acceptedHeaders(definition) : []),
        ]),
        content: {
          'application/json': {
            schema: schemas.of(errorSchema, 'output'),
            examples: Object.fromEntries(
              list.map((code) => [code, { $ref: `#/components/examples/${code}` }]),
            ),
          },
        },
      },
    ]),
  )
}

/** The headers of the answer to an accepted request. */
function acceptedHeaders({ key, waits }: RouteDefinition): (keyof typeof HEADERS)[] {
  return [
    ...(waits === undefined ? [] : ['Preference-Applied' as const]),
    ...(key === undefined ? [] : ['Idempotent-Replayed' as const]),
  ]
}

function headersOf(own: (keyof typeof HEADERS)[]): JsonSchema {
  const headers: (keyof typeof HEADERS)[] = ['x-request-id', 'RateLimit', 'RateLimit-Policy', ...own]
  return Object.fromEntries(
    headers.map((header) => [header, { $ref: `#/components/headers/${componentName(header)}` }]),
  )
}

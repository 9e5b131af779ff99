// A route is declared by one definition: its parameters, body, answers, scope and errors.
import { z } from 'zod'
import { dateTime } from '#core/time.ts'
import type { Credentials } from '#domain/api-keys.ts'
import type { Area, Scope } from '#domain/areas.ts'
import type { RouteDefinition } from './openapi/operation.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The credentials of the caller; set before any handler of `/v1` runs. */
    credentials: Credentials
    /** The size of the request body as received, in bytes. Absent without a body. */
    body_bytes?: number
    /** The id of the resource, for the log, if it is not in the path. */
    resource_id?: string
  }
  interface FastifyContextConfig {
    scope?: Scope | null
    area?: Area | null
    definition?: RouteDefinition
  }
}

/** The schemas of a route; `undefined` for an absent part. */
type RouteSchemas<Params, Query, Body, Response> = {
  params: Params
  querystring: Query
  body: Body
  response: Response
}
type MaybeSchema = z.ZodType | undefined

/** The timeout of a route that waits: longer than the longest wait that a caller can request. */
const WAITING_TIMEOUT_MS = 45_000

/** Fastify's options of a `/v1` route. The definition also describes it in the OpenAPI document. */
export function route<
  Response extends RouteDefinition['response'],
  Params extends MaybeSchema = undefined,
  Query extends MaybeSchema = undefined,
  Body extends MaybeSchema = undefined,
>(
  definition: RouteDefinition & { params?: Params; querystring?: Query; body?: Body; response: Response },
): {
  schema: RouteSchemas<Params, Query, Body, Response>
  config: {
    scope: Scope | null
    area: Area | null
    definition: RouteDefinition
    response_timeout_ms?: number
  }
  bodyLimit?: number
} {
  const { params, querystring, body, response, scope, area, waits, body_limits } = definition
  const schemas = { params, querystring, body, response }
  return {
    schema: Object.fromEntries(
      Object.entries(schemas).filter(([, schema]) => schema !== undefined),
    ) as RouteSchemas<Params, Query, Body, Response>,
    config: {
      scope,
      area,
      definition,
      ...(waits !== undefined && { response_timeout_ms: WAITING_TIMEOUT_MS }),
    },
    ...(body_limits !== undefined && { bodyLimit: body_limits.bytes }),
  }
}

/** An id, converted to lower case as PostgreSQL writes it, so that ids can be compared. */
export const idText = z.uuid().toLowerCase()

/** The id in examples. */
export const EXAMPLE_ID = '0198f6f0-1234-7000-8000-123456789abc'

/** The parameter `{id}` of a path. */
export const idParams = z.strictObject({
  id: idText.meta({ description: 'The id of the resource.', example: EXAMPLE_ID }),
})

/** The documented schema of an integer parameter, which arrives as text. */
export function asInteger(bounds: { minimum: number; maximum: number }): Record<string, unknown> {
  const format = bounds.maximum > 2 ** 31 - 1 ? 'int64' : 'int32'
  return { type: 'integer', format, pattern: undefined, ...bounds }
}

/** The parameter `limit` of a list. */
export const pageSize = (standard: number) =>
  z
    .string()
    .regex(/^([1-9]\d?|100)$/, { error: 'must be a whole number from 1 to 100' })
    .transform(Number)
    .pipe(z.int().min(1).max(100))
    .default(standard)
    .meta({
      description: 'Page size.',
      ...asInteger({ minimum: 1, maximum: 100 }),
      standard,
      example: 25,
    })

/** The parameters of every list. Each list adds its filters. */
export const pageQuery = z.strictObject({
  before: dateTime
    .optional()
    .meta({ description: 'The `created_at` of the last item of the previous page.' }),
  limit: pageSize(25),
  created_from: dateTime.optional().meta({ description: 'Created at or after.' }),
  created_to: dateTime.optional().meta({ description: 'Created before.' }),
})

/** The id of an object at the processor, as a filter. */
export const processorReference = z.string().min(1).max(255)

/** A boolean filter. Default: false. */
export const booleanFilter = (description: string) =>
  z
    .enum(['true', 'false'])
    .default('false')
    .transform((text) => text === 'true')
    .meta({ description, type: 'boolean', enum: undefined, standard: false, example: false })

/** The `Link` header of a full page. The next page starts after the last of `items`. */
export function nextPage(
  url: string,
  limit: number,
  items: { created_at: string }[],
): Record<string, string> {
  const last = items.at(-1)
  if (last === undefined || items.length < limit) return {}
  return { link: linkBefore(url, last.created_at) }
}

/** A link to the same query, before a time. */
export function linkBefore(url: string, before: string): string {
  return linkWith(url, 'before', before)
}

/** A link to the same query, after a sequence number or a time. */
export function linkAfter(url: string, after: string): string {
  return linkWith(url, 'after', after)
}

function linkWith(url: string, cursor: string, value: string): string {
  const [path, query] = url.split('?')
  const parameters = new URLSearchParams(query)
  parameters.set(cursor, value)
  // Blanks are written as `%20`, because `checkPlus` refuses a `+`.
  return `<${path}?${parameters.toString().replaceAll('+', '%20')}>; rel="next"`
}

// A route is one literal: what it takes, what it answers, which scope it needs and which errors it can end in.
import { z } from 'zod'
import type { Area } from '#core/config.ts'
import { ERRORS, type ErrorCode } from '#core/errors.ts'
import { dateTime } from '#core/time.ts'
import type { Credentials, Scope } from '#domain/api-keys.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who asks; set before any handler of `/v1` runs. */
    credentials: Credentials
    /** Ends the turn of a list; set while it has one. */
    endTurn: (() => void) | undefined
  }
  interface FastifyContextConfig {
    scope?: Scope | null
    area?: Area | null
    /** It answers many rows. */
    list?: boolean
  }
}

type Schemas = {
  params?: z.ZodType
  querystring?: z.ZodType
  headers?: z.ZodType
  body?: z.ZodType
  response: Record<number, z.ZodType>
}

const errorSchema = z
  .object({
    error: z.object({
      code: z.string(),
      message: z.string(),
      param: z.string().optional(),
      details: z.array(z.object({ param: z.string(), message: z.string() })).optional(),
      context: z.record(z.string(), z.unknown()).optional(),
      request_id: z.string(),
      doc_url: z.string(),
    }),
  })
  .meta({ id: 'Error' })

/** What every `/v1` route can end in, besides its own. */
const COMMON: ErrorCode[] = [
  'invalid_request',
  'unauthorized',
  'rate_limited',
  'misconfigured_gateway',
  'internal_error',
  'overloaded',
  'database_unavailable',
]
const WITH_BODY: ErrorCode[] = ['payload_too_large', 'unsupported_media_type']

/** The longest wait that can be asked for, and what comes before and after it. */
const WAITING_TIMEOUT_MS = 45_000
const WAITS =
  'Waits for the processor (10 s; `Prefer: wait=N`, at most 30, or `respond-async`); what is not finished by then answers 202.'

/** Fastify's options of a `/v1` route, with the answers documented from the error catalogue. */
export function route<const S extends Schemas>(
  literal: S & {
    summary: string
    description?: string
    area: Area | null
    scope: Scope | null
    /** It waits for a job: its answer may take as long as the caller grants. */
    waits?: boolean
    errors: ErrorCode[]
  },
): {
  schema: S
  config: { scope: Scope | null; area: Area | null; list: boolean }
  handlerTimeout?: number
} {
  const { summary, description, area, scope, waits = false, errors, response, ...schemas } = literal
  const codes = [
    ...COMMON,
    ...(schemas.body === undefined ? [] : WITH_BODY),
    ...(scope === null ? [] : (['missing_scope'] as const)),
    ...errors,
  ]
  const byStatus = Object.groupBy(codes, (code) => ERRORS[code][0])
  const refusals = Object.fromEntries(
    Object.entries(byStatus).map(([status, list]) => [
      status,
      errorSchema.describe(list.map((code) => `\`${code}\`: ${ERRORS[code][1]}`).join('\n\n')),
    ]),
  )
  const needs = scope === null ? 'Needs a valid key and no scope.' : `Needs the scope \`${scope}\`.`
  const documentation = {
    summary,
    description: [description, waits && WAITS, needs].filter(Boolean).join('\n\n'),
    tags: [area ?? 'general'],
    security: [{ api_key: [] }],
  }
  return {
    schema: { ...schemas, ...documentation, response: { ...response, ...refusals } } as unknown as S,
    config: { scope, area, list: schemas.querystring !== undefined },
    ...(waits && { handlerTimeout: WAITING_TIMEOUT_MS }),
  }
}

/** An id as a caller writes it, in any case; as Postgres writes it from here on, so that ids can be compared. */
export const idText = z.uuid().toLowerCase()

/** `{id}` of a path. */
export const idParams = z.strictObject({ id: idText.meta({ description: 'The id of the resource.' }) })

/** `limit` of a list. */
export const pageSize = (standard: number) =>
  z
    .string()
    .regex(/^([1-9]\d?|100)$/, { error: 'must be a whole number from 1 to 100' })
    .transform(Number)
    .pipe(z.int().min(1).max(100))
    .default(standard)
    .meta({ description: 'Page size, 1 to 100.' })

/** `before` and `limit` of a list, to be extended by its filters. */
export const page = z.strictObject({
  before: dateTime.optional().meta({ description: 'The `created_at` of the last item of the page before.' }),
  limit: pageSize(25),
})

/** The `Link` header of a full page: the next one starts after its last item. */
export function nextPage(
  url: string,
  limit: number,
  items: { created_at: string }[],
): Record<string, string> {
  const last = items.at(-1)
  if (last === undefined || items.length < limit) return {}
  return { link: linkBefore(url, last.created_at) }
}

/** The same query, before a moment. */
export function linkBefore(url: string, before: string): string {
  const [path, query] = url.split('?')
  const parameters = new URLSearchParams(query)
  parameters.set('before', before)
  return `<${path}?${parameters.toString()}>; rel="next"`
}

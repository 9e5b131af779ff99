// Accepts a request once for each idempotency key: the key is stored with what it protects, and a repeated request is
// a replay.
import type { FastifyError, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { violatedConstraint } from '#core/db.ts'
import type { IdempotentRequest, KeyOnRoute } from '#domain/idempotency.ts'
import { idempotencyKey } from './body.ts'
import type { ApiContext } from './context.ts'
import { fingerprint } from './fingerprint.ts'

type Body = { idempotency_key?: string | undefined }

/** A key as it was sent, null when there is none; on its route, and by whom. */
export type RequestKey = {
  tenant_id: string
  key: string | null
  /** With its path parameters. */
  route: string
  request_id: string
}

/**
 * `taken`: the step was made now. `replayed`: it was made before, with this key. `refused`: its guard refused,
 * nothing was written.
 */
type AcceptOutcome<T, R> =
  | { kind: 'accepted'; value: T }
  | { kind: 'replayed'; remembered: R }
  | { kind: 'refused' }

/**
 * Makes the accepting step of a request once. A key that this process saw lately is looked up before the step, because
 * the request is probably a replay; any other key after it, when `step` returned `key_used`, its guard refused
 * (undefined) or it threw a refusal: what is said now to a new request is no answer to one that was taken before.
 * Throws `idempotency_key_reused` when the key was used with other content.
 */
export async function acceptOnce<T extends object | string, R extends { fingerprint: string }>(
  { recent_keys }: Pick<ApiContext, 'recent_keys'>,
  { tenant_id, key, route, request_id }: RequestKey,
  content: object,
  step: (requested: IdempotentRequest & { tenant_id: string }) => Promise<T | 'key_used' | undefined>,
  find: (sent: KeyOnRoute) => Promise<R | undefined>,
): Promise<AcceptOutcome<T, R>> {
  const requested = {
    tenant_id,
    idempotency_key: key,
    route,
    fingerprint: key === null ? '' : fingerprint(content),
    request_id,
  }
  const name = `${tenant_id} ${route} ${key}`
  let remembered: R | undefined
  if (key !== null && recent_keys.has(name)) remembered = await find({ tenant_id, key, route })
  let refusal: AppError | undefined
  const value =
    remembered === undefined
      ? await runStep(() => step(requested)).catch((error: unknown) => {
          if (key === null || !(error instanceof AppError) || error.status >= 500) throw error
          refusal = error
        })
      : 'key_used'
  if (key !== null && value !== undefined) recent_keys.add(name)
  if (value !== undefined && value !== 'key_used') return { kind: 'accepted', value }
  if (key === null) return { kind: 'refused' }
  remembered ??= await find({ tenant_id, key, route })
  if (remembered?.fingerprint === requested.fingerprint) return { kind: 'replayed', remembered }
  if (remembered === undefined && refusal !== undefined) throw refusal
  if (remembered === undefined && value === undefined) return { kind: 'refused' }
  throw new AppError('idempotency_key_reused', {
    param: 'idempotency_key',
    ...(remembered === undefined && {
      message: 'The idempotency key was used before, more than 30 days ago or on another path.',
    }),
  })
}

/** The key of a request, with its route. Throws `invalid_request` when the key is missing or malformed. */
export function requestKey(request: FastifyRequest, { idempotency_key }: Body): RequestKey {
  const { tenant_id } = request.credentials
  return {
    tenant_id,
    key: keyOf(request, idempotency_key),
    route: routeOf(request),
    request_id: request.id,
  }
}

/** The refusal of a body, which also says what is wrong with the key of its request. */
export function withKeyProblem(error: FastifyError, request: FastifyRequest): Error {
  if (error.validationContext !== 'body' || !(error instanceof AppError)) return error
  // One that is in the body was judged with it.
  if ((Object(request.body) as Body).idempotency_key !== undefined) return error
  try {
    keyOf(request, undefined)
    return error
  } catch (fault) {
    const { message, param, details = [] } = error
    const more = fault instanceof AppError ? fault.details : undefined
    return new AppError(error.code, { message, param, details: [...details, ...(more ?? [])] })
  }
}

/**
 * The key of a request, from its body or its `Idempotency-Key` header; if both are sent they must be equal. Null when
 * none is sent and none is required.
 */
function keyOf({ headers, routeOptions }: FastifyRequest, from_body: string | undefined): string | null {
  const header = headers['idempotency-key']
  if (header === undefined) {
    if (from_body !== undefined) return from_body
    if (routeOptions.config.definition?.key !== 'required') return null
    throw keyProblem('idempotency_key', 'is required')
  }
  const parsed = idempotencyKey.safeParse(unquoted(header))
  if (!parsed.success) throw keyProblem('Idempotency-Key', parsed.error.issues[0]?.message ?? 'is not valid')
  if (from_body !== undefined && from_body !== parsed.data) {
    throw new AppError('invalid_request', {
      param: 'idempotency_key',
      message: 'The header Idempotency-Key and the field idempotency_key differ.',
    })
  }
  return parsed.data
}

/** A header's value without the quotes that the standard of this header puts around it (RFC 9651, section 3.3.3). */
function unquoted(header: string | string[]): string | string[] {
  const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(String(header))?.[1]
  return quoted?.replaceAll(/\\(.)/g, '$1') ?? header
}

function keyProblem(param: string, message: string): AppError {
  const details = [{ param, message }]
  return new AppError('invalid_request', { param, message: `${param} ${message}.`, details })
}

/** The route of a request with its path parameters. */
function routeOf({ method, params, routeOptions }: FastifyRequest): string {
  const parameters = Object.values(params as Record<string, string>).join(' ')
  return `${method} ${routeOptions.url} ${parameters}`.trimEnd()
}

// Two rows of one tenant may get the same microsecond as `created_at`, which is unique. Nothing was written then, so the
// step is repeated.
async function runStep<T>(step: () => Promise<T>): Promise<T | 'key_used'> {
  for (;;) {
    try {
      return await step()
    } catch (error) {
      const constraint = violatedConstraint(error)
      if (constraint?.endsWith('_created_at') === true) continue
      if (constraint === 'idempotency_keys_pkey' || constraint?.endsWith('_idempotency') === true)
        return 'key_used'
      throw error
    }
  }
}

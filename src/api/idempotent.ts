// Accepts a request once for each idempotency key. The key is stored with the resource that its request created or
// changed, and a repeated request is a replay.
import type { FastifyError, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { violatedConstraint } from '#core/db.ts'
import { idsOfRequest, type RequestIds } from '#core/ids.ts'
import type { KeyOnRoute, IdempotentRequest } from '#domain/idempotency.ts'
import { RESOURCE_NAMES, resourceOf } from '#domain/resources.ts'
import { idempotencyKey } from './body.ts'
import type { ApiContext } from './context.ts'
import { fingerprint } from './fingerprint.ts'

type Body = { idempotency_key?: string | undefined }

/** The idempotency key of a request, null if it has none, and the scope of the key: its route and tenant. */
export type RequestKey = {
  tenant_id: string
  key: string | null
  /** The route of the request, with its path parameters. */
  route: string
  request_id: string
  /** The ids of what the request creates. */
  ids: RequestIds
}

/**
 * `accepted`: the step ran now. `replayed`: it ran for an earlier request with this key. `refused`: its guard refused,
 * and nothing was written.
 */
type AcceptOutcome<T, R> =
  | { kind: 'accepted'; value: T }
  | { kind: 'replayed'; stored: R }
  | { kind: 'refused' }

/** What is stored of an earlier request with the key. */
type StoredRequest = { fingerprint: string } & ({ resource_id: string } | { resource: object })

/** The id of the resource that the earlier request created or changed. */
function resourceIdOf(stored: StoredRequest): unknown {
  if ('resource_id' in stored) return stored.resource_id
  return 'id' in stored.resource ? stored.resource.id : undefined
}

/**
 * Runs the accepting step of a request once for each key. A key that this process used recently is looked up before the
 * step, because the request is probably a replay. Any other key is looked up after the step, if the step returned
 * `key_used`, returned undefined (its guard refused) or threw a refusal. If an earlier request with the key was
 * accepted, its outcome is the answer, not the refusal. Throws `idempotency_key_reused`, with the id of the
 * earlier request's resource, if the key was used with other content.
 */
export async function acceptOnce<T extends object | string, R extends StoredRequest>(
  {
    recent_keys,
    hashOf,
    confirmReplicated,
  }: Pick<ApiContext, 'recent_keys' | 'hashOf' | 'confirmReplicated'>,
  { tenant_id, key, route, request_id }: RequestKey,
  content: object,
  step: (requested: IdempotentRequest) => Promise<T | 'key_used' | undefined>,
  find: (sent: KeyOnRoute) => Promise<R | undefined>,
): Promise<AcceptOutcome<T, R>> {
  const requested = {
    tenant_id,
    idempotency_key: key,
    route,
    // Keyed, because personal data and short texts could be guessed from a plain hash.
    fingerprint: key === null ? '' : hashOf('request', fingerprint(content)),
    request_id,
  }
  const name = `${tenant_id} ${route} ${key}`
  let stored: R | undefined
  if (key !== null && recent_keys.has(name)) stored = await find({ tenant_id, key, route })
  let refusal: AppError | undefined
  const value =
    stored === undefined
      ? await runStep(() => step(requested)).catch((error: unknown) => {
          if (key === null || !(error instanceof AppError) || error.status >= 500) throw error
          refusal = error
        })
      : 'key_used'
  if (key !== null && value !== undefined) recent_keys.add(name)
  if (value !== undefined && value !== 'key_used') return { kind: 'accepted', value }
  if (key === null) return { kind: 'refused' }
  stored ??= await find({ tenant_id, key, route })
  if (stored?.fingerprint === requested.fingerprint) {
    // The commit of the earlier request may not have been waited for: then its caller got an error, and repeats it.
    await confirmReplicated()
    return { kind: 'replayed', stored }
  }
  if (stored === undefined && refusal !== undefined) throw refusal
  if (stored === undefined && value === undefined) return { kind: 'refused' }
  throw new AppError('idempotency_key_reused', {
    param: 'idempotency_key',
    ...(stored !== undefined && { context: { resource_id: resourceIdOf(stored) } }),
    ...(stored === undefined && {
      message:
        'The idempotency key was used before: more than 30 days ago, or on another path. Use a new key.',
    }),
  })
}

/** The key of a request, with its route. Throws `invalid_request` if the key is missing or malformed. */
export function requestKey(request: FastifyRequest, { idempotency_key }: Body): RequestKey {
  const { tenant_id } = request.credentials
  const key = keyOf(request, idempotency_key)
  const { route, path } = routeOf(request)
  return { tenant_id, key, route, request_id: request.id, ids: idsOfRequest({ tenant_id, path, key }) }
}

/** Adds the problem of the idempotency key to the refusal of a body. */
export function withKeyProblem(error: FastifyError, request: FastifyRequest): Error {
  if (error.validationContext !== 'body' || !(error instanceof AppError)) return error
  // A key in the body was validated with the body.
  if ((Object(request.body) as Body).idempotency_key !== undefined) return error
  try {
    keyOf(request, undefined)
    return error
  } catch (problem) {
    const { message, param, details = [] } = error
    const more = problem instanceof AppError ? problem.details : undefined
    return new AppError(error.code, { message, param, details: [...details, ...(more ?? [])] })
  }
}

/**
 * The key of a request, from its body or its `Idempotency-Key` header. If both are sent, they must be equal. Null if
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

/** The value of a header without the quotes of a structured field (RFC 9651, section 3.3.3). */
function unquoted(header: string | string[]): string | string[] {
  const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(String(header))?.[1]
  return quoted?.replaceAll(/\\(.)/g, '$1') ?? header
}

function keyProblem(param: string, message: string): AppError {
  const details = [{ param, message }]
  return new AppError('invalid_request', { param, message: `${param} ${message}.`, details })
}

/** The route of a request with its path parameters: as a scope of keys, and as the path that ids are derived from. */
function routeOf({ method, params, routeOptions: { url } }: FastifyRequest): { route: string; path: string } {
  const parameters = Object.entries(params as Record<string, string>)
  const path = parameters.reduce((text, [name, value]) => text.replace(`:${name}`, value), `${method} ${url}`)
  return { route: [method, url, ...parameters.map(([, value]) => value)].join(' '), path }
}

/** The tables whose ids follow from keys. */
const KEYED_TABLES = [
  'idempotency_keys',
  'jobs',
  ...RESOURCE_NAMES.map((resource) => resourceOf(resource).table),
]

/** Whether a key that was used before violates the constraint. The name of a partition begins with its table's. */
function refusesUsedKeys(constraint: string): boolean {
  if (constraint.endsWith('_idempotency')) return true
  return constraint.endsWith('_pkey') && KEYED_TABLES.some((table) => constraint.startsWith(table))
}

// Runs the step. The `created_at` of a tenant's rows must be unique: if another row has the same, PostgreSQL has
// written nothing, and the step runs again.
async function runStep<T>(step: () => Promise<T>): Promise<T | 'key_used'> {
  for (;;) {
    try {
      return await step()
    } catch (error) {
      const constraint = violatedConstraint(error)
      if (constraint?.endsWith('_created_at') === true) continue
      if (constraint !== undefined && refusesUsedKeys(constraint)) return 'key_used'
      throw error
    }
  }
}

// Accepting a request once: the key is written with what it protects; who comes second replays.
import type { FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { violatedConstraint, type Sql } from '#core/db.ts'
import { findRemembered, type IdempotentRequest, type Remembered } from '#domain/idempotency.ts'
import { idempotencyKey } from './body.ts'
import { fingerprint, isFingerprintOf } from './fingerprint.ts'

/** `accepted`: the step was taken now. `replayed`: it had been, by this key. `refused`: its guard said no, nothing was written. */
export type Accepted<T> =
  | { kind: 'accepted'; value: T }
  | { kind: 'replayed'; remembered: Remembered }
  | { kind: 'refused' }

/** The key of a request, from its body and its `Idempotency-Key` header; both must agree. Null: none was sent. */
export function keyOf(
  request: FastifyRequest,
  body: { idempotency_key?: string | undefined },
): string | null {
  const header = request.headers['idempotency-key']
  if (header === undefined) return body.idempotency_key ?? null
  const parsed = idempotencyKey.safeParse(header)
  if (!parsed.success)
    throw new AppError('invalid_request', {
      param: 'Idempotency-Key',
      message: 'Idempotency-Key must be 1 to 255 visible characters.',
    })
  if (body.idempotency_key !== undefined && body.idempotency_key !== parsed.data) {
    throw new AppError('invalid_request', {
      param: 'idempotency_key',
      message: 'The header Idempotency-Key and the field idempotency_key differ.',
    })
  }
  return parsed.data
}

/** The key of a create, which must have one. */
export function requiredKeyOf(
  request: FastifyRequest,
  body: { idempotency_key?: string | undefined },
): string {
  const key = keyOf(request, body)
  if (key !== null) return key
  throw new AppError('invalid_request', {
    param: 'idempotency_key',
    message: 'idempotency_key is required.',
    details: [{ param: 'idempotency_key', message: 'is required' }],
  })
}

/** The request as its key will remember it: scoped to the route and its path parameters. `body` is without the key. */
export function idempotent(request: FastifyRequest, key: string | null, body: object): IdempotentRequest {
  const parameters = Object.values(request.params as Record<string, string>).join(' ')
  return {
    idempotency_key: key,
    scope: `${request.method} ${request.routeOptions.url} ${parameters}`.trimEnd(),
    fingerprint: key === null ? '' : fingerprint(body),
    request_id: request.id,
  }
}

/**
 * Takes an accepting step of `body` once. `accept` answers `known` when the key was used before, and undefined when its guard
 * refused. Throws `idempotency_key_reused` when the key came with other content before.
 */
export async function acceptOnce<T>(
  sql: Sql,
  { tenant_id, idempotency_key, scope }: IdempotentRequest & { tenant_id: string },
  body: object,
  accept: () => Promise<T | 'known' | undefined>,
): Promise<Accepted<T>> {
  const value = await tryAccept(accept)
  if (value !== undefined && value !== 'known') return { kind: 'accepted', value }
  if (idempotency_key === null) return { kind: 'refused' }
  const remembered = await findRemembered(sql, tenant_id, idempotency_key, scope)
  if (remembered !== undefined && isFingerprintOf(body, remembered.fingerprint))
    return { kind: 'replayed', remembered }
  if (remembered === undefined && value === undefined) return { kind: 'refused' }
  throw new AppError('idempotency_key_reused', {
    param: 'idempotency_key',
    ...(remembered === undefined && {
      message: 'The idempotency key was used before, more than 30 days ago or on another path.',
    }),
  })
}

// Two rows of one tenant may draw the same microsecond; the step left no trace and draws again.
async function tryAccept<T>(accept: () => Promise<T | 'known'>): Promise<T | 'known'> {
  for (;;) {
    try {
      return await accept()
    } catch (error) {
      const constraint = violatedConstraint(error)
      if (constraint?.endsWith('_created_at') === true) continue
      if (constraint === 'idempotency_keys_pkey' || constraint?.endsWith('_idempotency') === true)
        return 'known'
      throw error
    }
  }
}

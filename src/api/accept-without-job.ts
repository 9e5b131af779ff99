// Accepts requests that need no job once for each idempotency key.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RequestIds } from '#core/ids.ts'
import type { IdempotentRequest, KeyedResource, KeyOnRoute } from '#domain/idempotency.ts'
import { contentOf } from './body.ts'
import { refusalError, successStatus, type ExplainRefusal } from './accept.ts'
import type { ApiContext } from './context.ts'
import { acceptOnce, requestKey } from './idempotent.ts'

/**
 * Accepts a request that needs no job. Returns the resource that `step` created or changed. For a repeated request,
 * returns the resource of the earlier request with the same key, which `find` reads. Throws the error of
 * `explainRefusal`, `idempotency_key_reused`, and the errors of `step` and `find`.
 */
export async function acceptWithoutJob<T extends object>(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  work: {
    body: { idempotency_key?: string | undefined }
    step: (requested: IdempotentRequest, ids: RequestIds) => Promise<T | 'key_used' | undefined>
    find: (sent: KeyOnRoute) => Promise<KeyedResource<T> | undefined>
    /**
     * Fills in the resource if the database lost it, and it was made again with nothing but its id. Called if no
     * earlier request with the key is stored.
     */
    fillIn?: (requested: IdempotentRequest, ids: RequestIds) => Promise<KeyedResource<T> | undefined>
    /** The error for a refusal by the guard of `step`. */
    explainRefusal?: ExplainRefusal
  },
): Promise<T> {
  const content = contentOf(work.body)
  const key = requestKey(request, work.body)
  let refused: IdempotentRequest | undefined
  const step = (requested: IdempotentRequest) => {
    refused = requested
    return work.step(requested, key.ids)
  }
  const find = async (sent: KeyOnRoute) =>
    (await work.find(sent)) ?? (refused && (await work.fillIn?.(refused, key.ids)))
  const outcome = await acceptOnce(context, key, content, step, find)
  if (outcome.kind === 'refused') throw await refusalError(work.explainRefusal)
  reply.code(successStatus(request))
  if (outcome.kind === 'accepted') {
    const { id: resource_id = key.ids.id } = outcome.value as { id?: string }
    context.record(key, { resource_id, is_created: resource_id === key.ids.id, job_id: null })
    return outcome.value
  }
  reply.header('idempotent-replayed', 'true')
  return outcome.stored.resource
}

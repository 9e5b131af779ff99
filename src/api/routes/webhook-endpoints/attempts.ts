// Requests manual attempts. Answers 202 with the delivery and does not wait for the attempt.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { idsOfRequest } from '#core/ids.ts'
import type { Delivery } from '#domain/deliveries/delivery.ts'
import type { JobRequest } from '#domain/idempotency.ts'
import { replayDelivery } from '#jobs/deliveries.ts'
import { acceptWithoutJob } from '../../accept-without-job.ts'
import type { RouteContext } from '../../context.ts'

const { queue: QUEUE } = replayDelivery

/**
 * Requests an attempt at a delivery. `step` writes the job; it returns undefined if its guard refused or the key was
 * used before. `find` reads the delivery of an earlier request with the same key.
 */
export async function requestAttempt(
  context: RouteContext,
  request: FastifyRequest,
  reply: FastifyReply,
  {
    body,
    step,
    find,
    explainRefusal,
  }: {
    body: { idempotency_key?: string | undefined }
    step: (requested: JobRequest & { id: string }) => Promise<Delivery | undefined>
    find: (delivery_id: string) => Promise<Delivery>
    explainRefusal: () => AppError | Promise<AppError>
  },
): Promise<Delivery> {
  const { wakeups, findStoredKey } = context
  const { tenant_id } = request.credentials
  const will_wake = wakeups.admits(QUEUE, tenant_id)
  const delivery = await acceptWithoutJob(context, request, reply, {
    body,
    async step(requested) {
      // Manual attempts move no money, and outlive their keys: their ids are drawn, so that no two have the same.
      const ids = idsOfRequest({ tenant_id, path: '', key: null })
      const created = await step({ ...requested, ...ids, will_wake })
      if (created !== undefined && will_wake) wakeups.wake({ id: ids.job_id, queue: QUEUE, tenant_id })
      return created
    },
    async find(sent) {
      const earlier = await findStoredKey(sent)
      return earlier && { fingerprint: earlier.fingerprint, resource: await find(earlier.resource_id) }
    },
    explainRefusal,
  })
  reply.code(202).header('location', `/v1/webhook_deliveries/${delivery.id}`)
  return delivery
}

/**
 * The refusal of a manual attempt if no other reason for it is found: too many manual attempts are in progress. The
 * attempts in progress are not counted again, because some may have ended since the refusal.
 */
export function tooManyManualAttempts(): AppError {
  return new AppError('rate_limited', {
    limited_by: 'endpoints',
    retry_after_s: 1,
    message: 'Too many tests and replays of this endpoint are in progress: wait until some have ended.',
  })
}

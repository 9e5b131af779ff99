// Asks for attempts by hand: answers 202 with the delivery, and does not wait for what comes of it.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import type { Delivery } from '#domain/deliveries/delivery.ts'
import type { JobRequest } from '#domain/idempotency.ts'
import { replayDelivery } from '#jobs/deliveries.ts'
import { acceptAtOnce } from '../../accept.ts'
import type { RouteContext } from '../../context.ts'

const { queue: QUEUE } = replayDelivery

/**
 * `step` writes the job, and returns undefined when its guard refused or the key was used before; `find` reads the
 * delivery of a request whose key protects this id.
 */
export async function askForAttempt(
  context: RouteContext,
  request: FastifyRequest,
  reply: FastifyReply,
  {
    body,
    step,
    find,
    why_not,
  }: {
    body: { idempotency_key?: string | undefined }
    step: (asked: Omit<JobRequest, 'event_id'>) => Promise<Delivery | undefined>
    find: (delivery_id: string) => Promise<Delivery>
    why_not: () => AppError | Promise<AppError>
  },
): Promise<Delivery> {
  const { doorbell, remembered } = context
  const { tenant_id } = request.credentials
  const id = newId()
  const rung = doorbell.admits(QUEUE, tenant_id)
  const delivery = await acceptAtOnce(context, request, reply, {
    body,
    async step(asked) {
      const made = await step({ ...asked, job_id: id, rung })
      if (made !== undefined && rung) doorbell.ring({ id, queue: QUEUE, tenant_id })
      return made
    },
    async find(sent) {
      const earlier = await remembered(sent)
      return earlier && { fingerprint: earlier.fingerprint, resource: await find(earlier.resource_id) }
    },
    why_not,
  })
  reply.code(202).header('location', `/v1/webhook_deliveries/${delivery.id}`)
  return delivery
}

/** Why an attempt was refused where nothing else forbids it. Those in its way may have ended since, so nobody counts again. */
export function tooManyByHand(): AppError {
  return new AppError('rate_limited', {
    retry_after_s: 1,
    message: 'Too many tests and replays of this endpoint are under way: wait until some have ended.',
  })
}

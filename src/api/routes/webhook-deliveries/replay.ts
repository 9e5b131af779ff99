// The route that replays a delivery.
import { AppError } from '#core/errors.ts'
import { deliverySchema } from '#domain/deliveries/delivery.ts'
import { findDelivery, findDeliveryDetail } from '#domain/deliveries/find.ts'
import { requestReplay } from '#domain/deliveries/request.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { createEventViews } from '../../event-answers.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import { requestAttempt, tooManyManualAttempts } from '../webhook-endpoints/attempts.ts'
import { replayBody } from '../webhook-endpoints/body.ts'

export function replayDeliveryRoute(app: RouteApp, context: RouteContext): void {
  const { sql, log } = context
  const { complete } = createEventViews(context)

  app.post(
    '/v1/webhook_deliveries/:id/replay',
    route({
      area: 'events',
      tag: 'webhook_deliveries',
      scope: 'webhooks:write',
      operation_id: 'replayWebhookDelivery',
      summary: 'Send a delivery again',
      description:
        "Makes one more attempt with the same payload and `webhook-id`, signed with the current secrets, even if the endpoint is disabled. The log of the delivery shows the attempt as `manual`. The delivery's `attempts` do not change; its status changes only if the attempt succeeds, to `delivered`. Statistics do not count it. At most 10 tests and replays of an endpoint, and 20 of all your endpoints, may wait or be in progress.",
      params: idParams,
      body: replayBody,
      key: 'optional',
      examples: { requests: { bare: { summary: 'The body is optional', value: {} } } },
      response: { 202: deliverySchema },
      errors: ['webhook_delivery_not_found', 'event_expired', 'idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { tenant_id, key_id } = request.credentials
      const delivery_id = request.params.id
      const find = async () =>
        requireResource(await findDelivery(sql, tenant_id, delivery_id), 'webhook_delivery_not_found')
      return await requestAttempt(context, request, reply, {
        body: request.body ?? {},
        async step(requested) {
          const delivery = await requestReplay(sql, { ...requested, delivery_id, key_id })
          if (delivery !== undefined)
            log.info(
              { tenant_id, key_id, delivery_id, job_id: requested.job_id },
              'a delivery is replayed manually',
            )
          return delivery
        },
        find,
        async explainRefusal() {
          const delivery = await findDeliveryDetail(sql, complete, request.credentials, delivery_id)
          const { payload } = requireResource(delivery, 'webhook_delivery_not_found')
          return payload === null ? new AppError('event_expired') : tooManyManualAttempts()
        },
      })
    },
  )
}

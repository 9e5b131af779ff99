// Routes that read deliveries: list and retrieve.
import { z } from 'zod'
import { deliveryDetailSchema, deliverySchema, deliveryStatus } from '#domain/deliveries/delivery.ts'
import { findDeliveryDetail, listDeliveries } from '#domain/deliveries/find.ts'
import { findEndpoint } from '#domain/webhook-endpoints/find.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { createEventViews } from '../../event-answers.ts'
import { eventTypes } from '../../event-types.ts'
import { requireResource } from '../../refusals.ts'
import { EXAMPLE_ID, idParams, idText, nextPage, pageQuery, route } from '../../route.ts'

const filters = pageQuery.extend({
  status: deliveryStatus.optional().meta({ description: 'Filter by status.' }),
  type: eventTypes.optional().meta({ description: 'Filter by event type.' }),
  event_id: idText.optional().meta({ description: 'Filter by event.', example: EXAMPLE_ID }),
})

export function readDeliveryRoutes(app: RouteApp, context: RouteContext): void {
  const { sql, runList } = context
  const { complete } = createEventViews(context)

  app.get(
    '/v1/webhook_endpoints/:id/deliveries',
    route({
      area: 'events',
      tag: 'webhook_deliveries',
      scope: 'events:read',
      operation_id: 'listWebhookDeliveries',
      summary: 'List deliveries to an endpoint, newest first',
      params: idParams,
      querystring: filters,
      response: { 200: z.array(deliverySchema) },
      errors: ['webhook_endpoint_not_found'],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const endpoint_id = request.params.id
      requireResource(await findEndpoint(sql, tenant_id, endpoint_id), 'webhook_endpoint_not_found')
      const deliveries = await runList(request, reply, (lists_sql) =>
        listDeliveries(lists_sql, { tenant_id, endpoint_id }, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, deliveries))
      return deliveries
    },
  )

  app.get(
    '/v1/webhook_deliveries/:id',
    route({
      area: 'events',
      tag: 'webhook_deliveries',
      scope: 'events:read',
      operation_id: 'getWebhookDelivery',
      summary: 'Retrieve a delivery',
      description: 'Includes its attempts and its payload.',
      params: idParams,
      response: { 200: deliveryDetailSchema },
      errors: ['webhook_delivery_not_found'],
    }),
    // The limits of lists apply, because a delivery with its payload and attempts may be as large as a list.
    async (request, reply) => {
      const delivery = await runList(request, reply, (lists_sql) =>
        findDeliveryDetail(lists_sql, complete, request.credentials, request.params.id),
      )
      return requireResource(delivery, 'webhook_delivery_not_found')
    },
  )
}

// The route that deletes a webhook endpoint.
import { endpointSchema } from '#domain/webhook-endpoints/endpoint.ts'
import { deleteEndpoint } from '#domain/webhook-endpoints/request.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import type { EndpointViews } from './answers.ts'

export function deleteEndpointRoute(app: RouteApp, { sql }: RouteContext, { view }: EndpointViews): void {
  app.delete(
    '/v1/webhook_endpoints/:id',
    route({
      area: 'events',
      tag: 'webhook_endpoints',
      scope: 'webhooks:write',
      operation_id: 'deleteWebhookEndpoint',
      summary: 'Delete a webhook endpoint',
      description:
        'Nothing is sent to the endpoint any more, and its deliveries can no longer be read. The answer is the deleted endpoint.',
      params: idParams,
      response: { 200: endpointSchema },
      errors: ['webhook_endpoint_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      view(requireResource(await deleteEndpoint(sql, tenant_id, id), 'webhook_endpoint_not_found')),
  )
}

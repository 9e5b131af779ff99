// The route that reads the delivery statistics of a webhook endpoint.
import { endpointStatsSchema, findEndpointStats } from '#domain/webhook-endpoints/stats.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'

export function endpointStatsRoute(app: RouteApp, { runList }: RouteContext): void {
  app.get(
    '/v1/webhook_endpoints/:id/stats',
    route({
      area: 'events',
      tag: 'webhook_endpoints',
      scope: 'events:read',
      operation_id: 'getWebhookEndpointStats',
      summary: 'Retrieve delivery statistics',
      params: idParams,
      response: { 200: endpointStatsSchema },
      errors: ['webhook_endpoint_not_found'],
    }),
    async (request, reply) =>
      await runList(request, reply, async (lists_sql) => {
        const { tenant_id } = request.credentials
        const stats = await findEndpointStats(lists_sql, tenant_id, request.params.id)
        return requireResource(stats, 'webhook_endpoint_not_found')
      }),
  )
}

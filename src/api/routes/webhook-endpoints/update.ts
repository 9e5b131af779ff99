// The route that updates a webhook endpoint.
import { endpointSchema } from '#domain/webhook-endpoints/endpoint.ts'
import { updateEndpoint } from '#domain/webhook-endpoints/request.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import type { EndpointViews } from './answers.ts'
import type { EndpointBodies } from './body.ts'
import { serializeChange } from './serialize-changes.ts'
import type { UrlCheck } from './urls.ts'

export function updateEndpointRoute(
  app: RouteApp,
  context: RouteContext,
  { view }: EndpointViews,
  checkUrl: UrlCheck,
  bodies: EndpointBodies,
): void {
  const { sql, vault } = context

  app.patch(
    '/v1/webhook_endpoints/:id',
    route({
      area: 'events',
      tag: 'webhook_endpoints',
      scope: 'webhooks:write',
      operation_id: 'updateWebhookEndpoint',
      summary: 'Update a webhook endpoint',
      description:
        'Fields that you leave out stay unchanged; null removes `rate_per_s` or `description`. Events that happen while the endpoint is disabled are skipped, and so are all deliveries that wait when you disable it, whenever they are due. Enabling the endpoint does not send these deliveries; a recovery does. Disabling ends a recovery that is in progress. An endpoint that was disabled automatically can be enabled in the same way.',
      params: idParams,
      body: bodies.update,
      examples: {
        requests: {
          disable: { summary: 'Disable it', value: { status: 'disabled' } },
          rate: { summary: 'Another limit', value: { rate_per_s: 50 } },
        },
        answer: { status: 'disabled', disabled_reason: 'manual' },
      },
      response: { 200: endpointSchema },
      errors: ['webhook_endpoint_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id }, body }) => {
      const changes = body ?? {}
      if (changes.url !== undefined) await checkUrl(changes.url)
      const endpoint = await serializeChange(tenant_id, () =>
        updateEndpoint(sql, vault, tenant_id, id, changes),
      )
      return view(requireResource(endpoint, 'webhook_endpoint_not_found'))
    },
  )
}

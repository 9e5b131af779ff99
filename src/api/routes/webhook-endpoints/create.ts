// The route that creates a webhook endpoint.
import { newWebhookSecret } from '#core/standard-webhooks.ts'
import { endpointSchema } from '#domain/webhook-endpoints/endpoint.ts'
import { createEndpoint } from '#domain/webhook-endpoints/request.ts'
import { acceptWithoutJob } from '../../accept-without-job.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { route } from '../../route.ts'
import type { EndpointViews } from './answers.ts'
import type { EndpointBodies } from './body.ts'
import { SECRET } from './examples.ts'
import type { UrlCheck } from './urls.ts'

export function createEndpointRoute(
  app: RouteApp,
  context: RouteContext,
  { view, findByKey }: EndpointViews,
  checkUrl: UrlCheck,
  bodies: EndpointBodies,
): void {
  const { sql, vault } = context

  app.post(
    '/v1/webhook_endpoints',
    route({
      area: 'events',
      tag: 'webhook_endpoints',
      scope: 'webhooks:write',
      operation_id: 'createWebhookEndpoint',
      summary: 'Create a webhook endpoint',
      description:
        'From now on, events are sent to this URL, signed according to Standard Webhooks. Only this answer shows the secret. You can have at most 20 endpoints.',
      body: bodies.create,
      key: 'optional',
      examples: {
        requests: {
          payments: {
            summary: 'For some events',
            value: {
              idempotency_key: 'webhook-endpoint-17',
              url: 'https://shop.example/webhooks',
              types: ['payment.*', 'refund.succeeded'],
              description: 'The shop',
              headers: { 'x-shop': '17' },
            },
          },
          all: {
            summary: 'For all events, in order',
            value: { url: 'https://books.example/webhooks', types: ['*'], ordered: true },
          },
        },
        answer: { secret: SECRET, metadata: {} },
      },
      response: { 201: endpointSchema },
      errors: ['webhook_endpoint_not_found', 'too_many_webhook_endpoints', 'idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { idempotency_key: _key, ...fields } = request.body
      return await acceptWithoutJob(context, request, reply, {
        body: request.body,
        async step(requested, { id: endpoint_id, event_id }) {
          await checkUrl(fields.url)
          const secret = newWebhookSecret()
          const created = await createEndpoint(sql, vault, {
            ...requested,
            ...fields,
            endpoint_id,
            event_id,
            secret,
          })
          return created === 'key_used' ? created : view(created, secret)
        },
        find: findByKey,
      })
    },
  )
}

// The route that rotates the secret of a webhook endpoint.
import { AppError } from '#core/errors.ts'
import { newWebhookSecret } from '#core/standard-webhooks.ts'
import { endpointSchema } from '#domain/webhook-endpoints/endpoint.ts'
import { rotateSecret } from '#domain/webhook-endpoints/request.ts'
import { acceptWithoutJob } from '../../accept-without-job.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { idParams, route } from '../../route.ts'
import type { EndpointViews } from './answers.ts'
import { rotateBody } from './body.ts'
import { SECRET } from './examples.ts'

export function rotateSecretRoute(
  app: RouteApp,
  context: RouteContext,
  { view, findByKey }: EndpointViews,
): void {
  const { sql, vault } = context

  app.post(
    '/v1/webhook_endpoints/:id/rotate_secret',
    route({
      area: 'events',
      tag: 'webhook_endpoints',
      scope: 'webhooks:write',
      operation_id: 'rotateWebhookSecret',
      summary: 'Rotate the secret',
      description:
        'Creates a new secret; only this answer shows it. During the grace period, requests have a signature for each secret that is still valid. With `grace_s` 0, only the new secret is valid.',
      params: idParams,
      body: rotateBody,
      key: 'optional',
      examples: {
        requests: {
          usual: { summary: 'The old secrets stay valid for a day', value: {} },
          leaked: { summary: 'The old secrets have leaked', value: { grace_s: 0 } },
        },
        answer: { secret: SECRET },
      },
      response: { 200: endpointSchema },
      errors: ['webhook_endpoint_not_found', 'idempotency_key_reused'],
    }),
    async (request, reply) => {
      const body = { grace_s: 86_400, ...request.body }
      const endpoint_id = request.params.id
      return await acceptWithoutJob(context, request, reply, {
        body,
        async step(requested) {
          const secret = newWebhookSecret()
          const { grace_s } = body
          const rotated = await rotateSecret(sql, vault, { ...requested, endpoint_id, grace_s, secret })
          return rotated && view(rotated, secret)
        },
        find: findByKey,
        explainRefusal: () => new AppError('webhook_endpoint_not_found'),
      })
    },
  )
}

// Routes of webhook endpoints.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import { newWebhookSecret } from '#core/standard-webhooks.ts'
import { endpointSchema } from '#domain/webhook-endpoints/endpoint.ts'
import { findEndpoint, findProtectedEndpoint, listEndpoints } from '#domain/webhook-endpoints/find.ts'
import {
  createEndpoint,
  deleteEndpoint,
  rotateSecret,
  updateEndpoint,
} from '#domain/webhook-endpoints/request.ts'
import { endpointStatsSchema, findEndpointStats } from '#domain/webhook-endpoints/stats.ts'
import type { SentKey } from '#domain/idempotency.ts'
import { acceptAtOnce } from '../accept.ts'
import type { RouteContext } from '../context.ts'
import { found } from '../refusals.ts'
import { idParams, nextPage, pageQuery, route } from '../route.ts'
import { createShowEndpoint } from './webhook-endpoints/answers.ts'
import { createEndpointBody, rotateBody, updateEndpointBody } from './webhook-endpoints/body.ts'
import { oneByOne } from './webhook-endpoints/one-by-one.ts'
import { createUrlCheck } from './webhook-endpoints/urls.ts'

/** In examples. */
const SECRET = ['whsec', 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'].join('_')

const ENDPOINTS = { area: 'events', tag: 'webhook_endpoints' } as const

export function webhookEndpointRoutes(root: FastifyInstance, context: RouteContext): void {
  const { sql, lists, vault, config } = context
  const app = root.withTypeProvider<ZodTypeProvider>()
  const checkUrl = createUrlCheck(config)
  const show = createShowEndpoint(context)

  async function findByKey(sent: SentKey) {
    const remembered = await findProtectedEndpoint(sql, sent)
    if (remembered === undefined) return undefined
    const { fingerprint, resource } = remembered
    const { deleted_at, ...endpoint } = resource
    if (deleted_at !== null)
      throw new AppError('webhook_endpoint_not_found', { message: 'The endpoint was deleted since.' })
    return { fingerprint, resource: show(endpoint) }
  }

  app.post(
    '/v1/webhook_endpoints',
    route({
      ...ENDPOINTS,
      scope: 'webhooks:write',
      operation_id: 'createWebhookEndpoint',
      summary: 'Create a webhook endpoint',
      description:
        'From now on, events are sent to this URL, signed according to Standard Webhooks. Only this answer shows the secret. You can have at most 20 endpoints.',
      body: createEndpointBody,
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
      return await acceptAtOnce(context, request, reply, {
        body: request.body,
        async step(asked) {
          await checkUrl(fields.url)
          const secret = newWebhookSecret()
          const ids = { endpoint_id: newId(), event_id: newId() }
          const made = await createEndpoint(sql, vault, { ...asked, ...fields, ...ids, secret })
          return made === 'known' ? made : show(made, secret)
        },
        find: findByKey,
      })
    },
  )

  app.get(
    '/v1/webhook_endpoints',
    route({
      ...ENDPOINTS,
      scope: 'events:read',
      operation_id: 'listWebhookEndpoints',
      summary: 'List webhook endpoints, newest first',
      querystring: pageQuery,
      response: { 200: z.array(endpointSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const endpoints = await lists(request, reply, (lists_sql) =>
        listEndpoints(lists_sql, request.credentials.tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, endpoints))
      return endpoints.map((endpoint) => show(endpoint))
    },
  )

  app.get(
    '/v1/webhook_endpoints/:id',
    route({
      ...ENDPOINTS,
      scope: 'events:read',
      operation_id: 'getWebhookEndpoint',
      summary: 'Retrieve a webhook endpoint',
      params: idParams,
      response: { 200: endpointSchema },
      errors: ['webhook_endpoint_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      show(found(await findEndpoint(sql, tenant_id, id), 'webhook_endpoint_not_found')),
  )

  app.patch(
    '/v1/webhook_endpoints/:id',
    route({
      ...ENDPOINTS,
      scope: 'webhooks:write',
      operation_id: 'updateWebhookEndpoint',
      summary: 'Update a webhook endpoint',
      description:
        'Fields that you leave out stay unchanged; null removes `rate_per_s` or `description`. Events that happen while the endpoint is disabled are skipped, and so are all deliveries that wait when you disable it, whenever they are due. Enabling the endpoint does not send them; a recovery does. Disabling ends a recovery that is in progress. You also enable an endpoint that was disabled automatically this way.',
      params: idParams,
      body: updateEndpointBody,
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
      const endpoint = await oneByOne(tenant_id, () => updateEndpoint(sql, vault, tenant_id, id, changes))
      return show(found(endpoint, 'webhook_endpoint_not_found'))
    },
  )

  app.delete(
    '/v1/webhook_endpoints/:id',
    route({
      ...ENDPOINTS,
      scope: 'webhooks:write',
      operation_id: 'deleteWebhookEndpoint',
      summary: 'Delete a webhook endpoint',
      description:
        'Nothing is sent to the endpoint any more, and its deliveries can no longer be read. The answer is the endpoint as it was.',
      params: idParams,
      response: { 200: endpointSchema },
      errors: ['webhook_endpoint_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      show(found(await deleteEndpoint(sql, tenant_id, id), 'webhook_endpoint_not_found')),
  )

  app.post(
    '/v1/webhook_endpoints/:id/rotate_secret',
    route({
      ...ENDPOINTS,
      scope: 'webhooks:write',
      operation_id: 'rotateWebhookSecret',
      summary: 'Rotate the secret',
      description:
        'Creates a new secret; only this answer shows it. During the grace period, requests have a signature for each secret that is still valid. With `grace_s` 0, only the new one is.',
      params: idParams,
      body: rotateBody,
      key: 'optional',
      examples: {
        requests: {
          usual: { summary: 'The old secrets stay valid for a day', value: {} },
          leaked: { summary: 'Somebody knows the old secrets', value: { grace_s: 0 } },
        },
        answer: { secret: SECRET },
      },
      response: { 200: endpointSchema },
      errors: ['webhook_endpoint_not_found', 'idempotency_key_reused'],
    }),
    async (request, reply) => {
      const body = { grace_s: 86_400, ...request.body }
      const endpoint_id = request.params.id
      return await acceptAtOnce(context, request, reply, {
        body,
        async step(asked) {
          const secret = newWebhookSecret()
          const { grace_s } = body
          const rotated = await rotateSecret(sql, vault, { ...asked, endpoint_id, grace_s, secret })
          return rotated && show(rotated, secret)
        },
        find: findByKey,
        why_not: () => new AppError('webhook_endpoint_not_found'),
      })
    },
  )

  app.get(
    '/v1/webhook_endpoints/:id/stats',
    route({
      ...ENDPOINTS,
      scope: 'events:read',
      operation_id: 'getWebhookEndpointStats',
      summary: 'Retrieve delivery statistics',
      params: idParams,
      response: { 200: endpointStatsSchema },
      errors: ['webhook_endpoint_not_found'],
    }),
    async (request, reply) =>
      await lists(request, reply, async (lists_sql) => {
        const { tenant_id } = request.credentials
        const stats = await findEndpointStats(lists_sql, tenant_id, request.params.id)
        return found(stats, 'webhook_endpoint_not_found')
      }),
  )
}

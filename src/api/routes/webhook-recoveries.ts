// Routes of tests and recoveries of webhook endpoints.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { Json } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import { deliverySchema } from '#domain/deliveries/delivery.ts'
import { findDelivery } from '#domain/deliveries/find.ts'
import { findRecovery, requestRecovery } from '#domain/deliveries/recover.ts'
import { recoverySchema } from '#domain/deliveries/recovery.ts'
import { requestTest } from '#domain/deliveries/request.ts'
import { findEndpoint } from '#domain/webhook-endpoints/find.ts'
import { acceptAtOnce } from '../accept.ts'
import type { RouteContext } from '../context.ts'
import { exampleOfEvent } from '../openapi/events.ts'
import { found } from '../refusals.ts'
import { idParams, route } from '../route.ts'
import { askForAttempt, tooManyByHand } from './webhook-endpoints/attempts.ts'
import { recoverBody, testBody } from './webhook-endpoints/body.ts'

const ENDPOINTS = { area: 'events', tag: 'webhook_endpoints' } as const
const STARTED = { status: 'pending', found: 0, sent: 0 }
const NOT_SENT = {
  status: 'pending',
  sequence: null,
  attempts: 0,
  last_status_code: null,
  delivered_at: null,
}

export function webhookRecoveryRoutes(root: FastifyInstance, context: RouteContext): void {
  const { sql } = context
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.post(
    '/v1/webhook_endpoints/:id/test',
    route({
      ...ENDPOINTS,
      scope: 'webhooks:write',
      operation_id: 'testWebhookEndpoint',
      summary: 'Send a test',
      description:
        'Sends an event with example data, once, also where the endpoint is disabled. It is no part of the feed: its `sequence` is null, and its event cannot be retrieved. It counts in no statistics. One that fails ends `exhausted`; a 410 to it does not disable the endpoint. At most 10 tests and replays of an endpoint wait or are under way.',
      params: idParams,
      body: testBody,
      key: 'optional',
      examples: {
        requests: {
          usual: { summary: 'A captured payment', value: {} },
          type: { summary: 'Of this type', value: { type: 'refund.succeeded' } },
        },
        unfinished: { ...NOT_SENT, next_attempt_at: '2026-11-20T10:15:30.123456Z' },
      },
      response: { 202: deliverySchema },
      errors: ['webhook_endpoint_not_found', 'webhook_delivery_not_found', 'idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const endpoint_id = request.params.id
      const { type = 'payment.captured' } = request.body ?? {}
      const ids = { endpoint_id, delivery_id: newId(), event_id: newId() }
      const sample = exampleOfEvent(type) as Json
      return await askForAttempt(context, request, reply, {
        body: { type, ...request.body },
        step: async (asked) => await requestTest(sql, { ...asked, ...ids, type, sample }),
        find: async (id) => found(await findDelivery(sql, tenant_id, id), 'webhook_delivery_not_found'),
        async why_not() {
          found(await findEndpoint(sql, tenant_id, endpoint_id), 'webhook_endpoint_not_found')
          const too_many = await tooManyByHand(context, tenant_id, endpoint_id)
          return too_many ?? new AppError('webhook_endpoint_not_found')
        },
      })
    },
  )

  app.post(
    '/v1/webhook_endpoints/:id/recover',
    route({
      ...ENDPOINTS,
      scope: 'webhooks:write',
      operation_id: 'recoverWebhookEndpoint',
      summary: 'Send again what was missed',
      description:
        'Sends again the deliveries that were made within this time and are `failed`, `exhausted`, `skipped`, or pending after a failed attempt; also where the endpoint is disabled. Each begins its schedule anew, and its `attempts` go on. A recovery ends when the endpoint is disabled after it was asked for. An endpoint has one recovery at a time.',
      params: idParams,
      body: recoverBody,
      key: 'optional',
      examples: {
        requests: {
          outage: {
            summary: 'Of an hour',
            value: { since: '2026-11-20T10:15:30.123456Z', until: '2026-11-20T11:15:30.123456Z' },
          },
        },
        unfinished: { ...STARTED, until: '2026-11-20T11:15:30.123456Z' },
      },
      response: { 202: recoverySchema },
      errors: [
        'webhook_endpoint_not_found',
        'webhook_recovery_not_found',
        'recovery_in_progress',
        'idempotency_key_reused',
      ],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const { since, until } = request.body
      const ids = { endpoint_id: request.params.id, recovery_id: newId() }
      const recovery = await acceptAtOnce(context, request, reply, {
        body: request.body,
        step: async (asked) => await requestRecovery(sql, { ...asked, ...ids, since, until }),
        async find(sent) {
          const earlier = await context.remembered(sent)
          if (earlier === undefined) return undefined
          const recovery = await findRecovery(sql, tenant_id, earlier.resource_id)
          return {
            fingerprint: earlier.fingerprint,
            resource: found(recovery, 'webhook_recovery_not_found'),
          }
        },
        why_not: () => new AppError('webhook_endpoint_not_found'),
      })
      reply.code(202).header('location', `/v1/webhook_recoveries/${recovery.id}`)
      return recovery
    },
  )

  app.get(
    '/v1/webhook_recoveries/:id',
    route({
      ...ENDPOINTS,
      scope: 'events:read',
      operation_id: 'getWebhookRecovery',
      summary: 'Retrieve a recovery',
      description: 'How far it is.',
      params: idParams,
      response: { 200: recoverySchema },
      errors: ['webhook_recovery_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      found(await findRecovery(sql, tenant_id, id), 'webhook_recovery_not_found'),
  )
}

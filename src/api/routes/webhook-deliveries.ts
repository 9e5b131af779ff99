// Routes of deliveries to webhook endpoints: those of events, and tests.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { Json } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import { deliveryDetailSchema, deliverySchema, deliveryStatus } from '#domain/deliveries/delivery.ts'
import { findDelivery, findDeliveryDetail, listDeliveries } from '#domain/deliveries/find.ts'
import { requestReplay, requestTest } from '#domain/deliveries/request.ts'
import { typesMatching, type EventType } from '#domain/events.ts'
import { findEndpoint } from '#domain/webhook-endpoints/find.ts'
import type { RouteContext } from '../context.ts'
import { createEventAnswers } from '../event-answers.ts'
import { eventTypes } from '../event-types.ts'
import { exampleOfEvent } from '../openapi/events.ts'
import { found } from '../refusals.ts'
import { EXAMPLE_ID, idParams, idText, nextPage, pageQuery, route } from '../route.ts'
import { askForAttempt, tooManyByHand } from './webhook-endpoints/attempts.ts'
import { replayBody, testBody } from './webhook-endpoints/body.ts'

const filters = pageQuery.extend({
  status: deliveryStatus.optional().meta({ description: 'Filter by status.' }),
  type: eventTypes.optional().meta({ description: 'Filter by event type.' }),
  event_id: idText.optional().meta({ description: 'Filter by event.', example: EXAMPLE_ID }),
})

const USUAL_TEST: EventType = 'payment.captured'

const DELIVERIES = { area: 'events', tag: 'webhook_deliveries' } as const

const NOT_SENT = {
  status: 'pending',
  sequence: null,
  attempts: 0,
  last_status_code: null,
  delivered_at: null,
}

export function webhookDeliveryRoutes(root: FastifyInstance, context: RouteContext): void {
  const { sql, lists, log } = context
  const { complete } = createEventAnswers(context)
  const app = root.withTypeProvider<ZodTypeProvider>()

  /** What a test is like unless somebody says: what the endpoint takes. Undefined when there is no such endpoint. */
  async function usualTestOf(tenant_id: string, endpoint_id: string): Promise<EventType | undefined> {
    const endpoint = await findEndpoint(sql, tenant_id, endpoint_id)
    if (endpoint === undefined) return undefined
    const taken = endpoint.types.flatMap(typesMatching)
    return taken.includes(USUAL_TEST) ? USUAL_TEST : (taken[0] ?? USUAL_TEST)
  }

  app.get(
    '/v1/webhook_endpoints/:id/deliveries',
    route({
      ...DELIVERIES,
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
      found(await findEndpoint(sql, tenant_id, endpoint_id), 'webhook_endpoint_not_found')
      const deliveries = await lists(request, reply, (lists_sql) =>
        listDeliveries(lists_sql, { tenant_id, endpoint_id }, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, deliveries))
      return deliveries
    },
  )

  app.get(
    '/v1/webhook_deliveries/:id',
    route({
      ...DELIVERIES,
      scope: 'events:read',
      operation_id: 'getWebhookDelivery',
      summary: 'Retrieve a delivery',
      description: 'Includes its attempts and its payload.',
      params: idParams,
      response: { 200: deliveryDetailSchema },
      errors: ['webhook_delivery_not_found'],
    }),
    // With its payload and its log it may be as long as a list.
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const delivery = await lists(request, reply, (lists_sql) =>
        findDeliveryDetail(lists_sql, complete, tenant_id, request.params.id),
      )
      return found(delivery, 'webhook_delivery_not_found')
    },
  )

  app.post(
    '/v1/webhook_endpoints/:id/test',
    route({
      ...DELIVERIES,
      tag: 'webhook_endpoints',
      scope: 'webhooks:write',
      operation_id: 'testWebhookEndpoint',
      summary: 'Send a test',
      description:
        'Sends an event with example data once, even if the endpoint is disabled. It is not part of the feed: its `sequence` is null, and its event cannot be retrieved. Statistics do not count it. A test that fails becomes `exhausted`; a 410 to a test does not disable the endpoint. At most 10 tests and replays of an endpoint, and 20 of all your endpoints, may wait or be in progress.',
      params: idParams,
      body: testBody,
      key: 'optional',
      examples: {
        requests: {
          usual: { summary: 'Of a type that it subscribes to', value: {} },
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
      const body = request.body ?? {}
      const ids = { endpoint_id, delivery_id: newId(), event_id: newId() }
      return await askForAttempt(context, request, reply, {
        body,
        async step(asked) {
          const type = body.type ?? (await usualTestOf(tenant_id, endpoint_id))
          if (type === undefined) return undefined
          const sample = { ...exampleOfEvent(type), tenant_id } as Json
          return await requestTest(sql, { ...asked, ...ids, type, sample })
        },
        find: async (id) => found(await findDelivery(sql, tenant_id, id), 'webhook_delivery_not_found'),
        async why_not() {
          found(await findEndpoint(sql, tenant_id, endpoint_id), 'webhook_endpoint_not_found')
          return tooManyByHand()
        },
      })
    },
  )

  app.post(
    '/v1/webhook_deliveries/:id/replay',
    route({
      ...DELIVERIES,
      scope: 'webhooks:write',
      operation_id: 'replayWebhookDelivery',
      summary: 'Send a delivery again',
      description:
        "Makes one more attempt with the same payload and `webhook-id`, signed with the current secrets, even if the endpoint is disabled. Its log shows the attempt as `manual`. The delivery's status and `attempts` do not change, except that success makes it `delivered`. Statistics do not count it. At most 10 tests and replays of an endpoint, and 20 of all your endpoints, may wait or be in progress.",
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
        found(await findDelivery(sql, tenant_id, delivery_id), 'webhook_delivery_not_found')
      return await askForAttempt(context, request, reply, {
        body: request.body ?? {},
        async step(asked) {
          const delivery = await requestReplay(sql, { ...asked, delivery_id, key_id })
          if (delivery !== undefined)
            log.info(
              { tenant_id, key_id, delivery_id, job_id: asked.job_id },
              'a delivery is sent again by hand',
            )
          return delivery
        },
        find,
        async why_not() {
          const delivery = await findDeliveryDetail(sql, complete, tenant_id, delivery_id)
          const { payload } = found(delivery, 'webhook_delivery_not_found')
          return payload === null ? new AppError('event_expired') : tooManyByHand()
        },
      })
    },
  )
}

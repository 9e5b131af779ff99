// The route that sends a test to a webhook endpoint.
import type { Json, Sql } from '#core/db.ts'
import { deliverySchema } from '#domain/deliveries/delivery.ts'
import { findDelivery } from '#domain/deliveries/find.ts'
import { requestTest } from '#domain/deliveries/request.ts'
import { matchEventTypes, type EventType } from '#domain/events.ts'
import { findEndpoint } from '#domain/webhook-endpoints/find.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { exampleOfEvent } from '../../openapi/events.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import { requestAttempt, tooManyManualAttempts } from '../webhook-endpoints/attempts.ts'
import { testBody } from '../webhook-endpoints/body.ts'

const DEFAULT_TEST_TYPE: EventType = 'payment.captured'

const NOT_SENT = {
  status: 'pending',
  sequence: null,
  attempts: 0,
  last_status_code: null,
  delivered_at: null,
}

export function testEndpointRoute(app: RouteApp, context: RouteContext): void {
  const { sql } = context

  app.post(
    '/v1/webhook_endpoints/:id/test',
    route({
      area: 'events',
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
          usual: { summary: 'A type that the endpoint subscribes to', value: {} },
          type: { summary: 'A given type', value: { type: 'refund.succeeded' } },
        },
        unfinished: { ...NOT_SENT, next_attempt_at: '2026-11-20T10:15:30.123456Z' },
      },
      response: { 202: deliverySchema },
      errors: ['webhook_endpoint_not_found', 'webhook_delivery_not_found', 'idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { tenant_id, livemode } = request.credentials
      const endpoint_id = request.params.id
      const body = request.body ?? {}
      return await requestAttempt(context, request, reply, {
        body,
        async step({ id: delivery_id, ...requested }) {
          const type = body.type ?? (await defaultTestType(sql, tenant_id, endpoint_id))
          if (type === undefined) return undefined
          const sample = { ...exampleOfEvent(type), tenant_id, livemode } as Json
          return await requestTest(sql, { ...requested, endpoint_id, delivery_id, type, sample })
        },
        find: async (id) =>
          requireResource(await findDelivery(sql, tenant_id, id), 'webhook_delivery_not_found'),
        async explainRefusal() {
          requireResource(await findEndpoint(sql, tenant_id, endpoint_id), 'webhook_endpoint_not_found')
          return tooManyManualAttempts()
        },
      })
    },
  )
}

/** The default type of a test: a type that the endpoint subscribes to. Undefined if there is no such endpoint. */
async function defaultTestType(
  sql: Sql,
  tenant_id: string,
  endpoint_id: string,
): Promise<EventType | undefined> {
  const endpoint = await findEndpoint(sql, tenant_id, endpoint_id)
  if (endpoint === undefined) return undefined
  const subscribed_types = endpoint.types.flatMap(matchEventTypes)
  return subscribed_types.includes(DEFAULT_TEST_TYPE)
    ? DEFAULT_TEST_TYPE
    : (subscribed_types[0] ?? DEFAULT_TEST_TYPE)
}

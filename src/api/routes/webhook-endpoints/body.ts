// The bodies of requests about webhook endpoints.
import { z } from 'zod'
import { tenantHeaders } from '#core/tenant-headers.ts'
import { MAX_TENANT_URL_LENGTH, problemOfUrlForm, type UrlFormRules } from '#core/tenant-urls.ts'
import { dateTime } from '#core/time.ts'
import { endpointStatus } from '#domain/webhook-endpoints/endpoint.ts'
import { updateBodyOf, idempotencyKey, metadata, metadataValue, text } from '../../body.ts'
import { eventType, eventTypes } from '../../event-types.ts'

const types = z
  .array(eventTypes)
  .min(1)
  .max(100)
  .meta({
    description: 'The events to send: `*` for all, `<resource>.*`, or single types.',
    example: ['payment.*', 'refund.succeeded'],
  })
/** Only the form of the URL is checked here. The route checks the addresses to which its host resolves. */
const urlOf = (rules: UrlFormRules) =>
  z
    .string()
    .max(MAX_TENANT_URL_LENGTH, { abort: true })
    .superRefine((text, check) => {
      const problem = problemOfUrlForm(text, rules)
      if (problem !== null) check.addIssue({ code: 'custom', message: problem })
    })
    .meta({
      description:
        'http or https, in production https on port 443 or 8443. The URL must not lead to a private address, and must not contain a user or password.',
      example: 'https://shop.example/webhooks',
    })
const headers = tenantHeaders.meta({
  description: 'Your own headers, sent with each request. Stored encrypted.',
  example: { 'x-shop': '17' },
})
const ordered = z.boolean().meta({
  description:
    'Whether events are sent one at a time, by their sequence. Then an event whose delivery fails delays later events until its delivery is final.',
  example: false,
})
const max_in_flight = z.int().min(1).max(100).meta({
  description:
    'The maximum number of requests at once; fewer while the endpoint is slow or fails. Tests and replays are not counted.',
  example: 10,
})
const rate_per_s = z.int().min(1).max(1000).nullable().meta({
  description: 'The maximum number of requests a second, spread evenly over the second; null means no limit.',
  example: 50,
})
const DESCRIPTION = { description: 'Your own description.', example: 'The shop' }

export type EndpointBodies = ReturnType<typeof endpointBodies>

/** The bodies that create and update an endpoint. */
export function endpointBodies(rules: UrlFormRules) {
  const url = urlOf(rules)
  const fields = z.strictObject({
    url,
    types,
    description: text(1_000).meta(DESCRIPTION),
    headers: headers.default({}),
    ordered: ordered.default(false),
    max_in_flight: max_in_flight.default(10),
    rate_per_s: rate_per_s.default(null),
    metadata,
    idempotency_key: idempotencyKey.meta({ example: 'webhook-endpoint-17' }).optional(),
  })
  const patch = z
    .strictObject({
      url,
      types,
      description: z.string().max(1_000).nullable().meta(DESCRIPTION),
      headers,
      ordered,
      max_in_flight,
      rate_per_s,
      status: endpointStatus,
      metadata: metadataValue,
    })
    .partial()
    .meta({ id: 'UpdateWebhookEndpoint', description: 'The fields to change.' })
  return {
    create: fields.meta({ id: 'CreateWebhookEndpoint', description: 'The endpoint to create.' }),
    update: updateBodyOf(patch, fields, 'delete the endpoint'),
  }
}

export const rotateBody = z
  .strictObject({
    grace_s: z.int().min(0).max(604_800).default(86_400).meta({
      description: 'How many seconds the old secrets stay valid.',
      example: 86_400,
    }),
    idempotency_key: idempotencyKey.meta({ example: 'webhook-endpoint-17-rotate' }).optional(),
  })
  .meta({ id: 'RotateWebhookSecret', description: 'How long the old secrets stay valid.' })
  .nullish()

export const testBody = z
  .strictObject({
    type: eventType.optional().meta({
      description:
        "The type of the test event; the endpoint need not subscribe to it. Default: `payment.captured`, or the endpoint's first type if it does not subscribe to `payment.captured`.",
      example: 'payment.captured',
    }),
    idempotency_key: idempotencyKey.meta({ example: 'webhook-endpoint-17-test' }).optional(),
  })
  .meta({ id: 'TestWebhookEndpoint', description: 'The event to send.' })
  .nullish()

export const replayBody = z
  .strictObject({ idempotency_key: idempotencyKey.meta({ example: 'delivery-17-replay' }).optional() })
  .meta({ id: 'ReplayWebhookDelivery', description: 'Only an idempotency key.' })
  .nullish()

const recovery = z
  .strictObject({
    since: dateTime.meta({ description: 'Only deliveries created at or after this time.' }),
    until: dateTime
      .nullish()
      .transform((at) => at ?? null)
      .meta({
        description:
          'Only deliveries created before this time. Defaults to now; a time in the future also means now.',
        example: '2026-11-21T10:15:30.123456Z',
      }),
    idempotency_key: idempotencyKey.meta({ example: 'webhook-endpoint-17-recover' }).optional(),
  })
  .meta({ id: 'RecoverWebhookEndpoint', description: 'The period of the deliveries to send again.' })

/** For a missing body, report the required fields. */
export const recoverBody = z.preprocess((body) => body ?? {}, recovery)

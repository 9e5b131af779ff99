// What requests about webhook endpoints take.
import { z } from 'zod'
import { tenantHeaders } from '#core/tenant-headers.ts'
import { dateTime } from '#core/time.ts'
import { endpointStatus } from '#domain/webhook-endpoints/endpoint.ts'
import { changing, idempotencyKey, metadata, metadataValue, text } from '../../body.ts'
import { eventType, eventTypes } from '../../event-types.ts'

const types = z
  .array(eventTypes)
  .min(1)
  .max(100)
  .meta({
    description: 'Which events are sent: `*` for all, `<noun>.*`, or types.',
    example: ['payment.*', 'refund.succeeded'],
  })
const url = z.string().max(2048).meta({
  description:
    'http or https, in production https on port 443 or 8443. It may lead to no private address, and have no user or password.',
  example: 'https://shop.example/webhooks',
})
const headers = tenantHeaders.meta({
  description: 'Headers of yours that each request carries. Stored encrypted.',
  example: { 'x-shop': '17' },
})
const ordered = z.boolean().meta({
  description:
    'Whether events are sent one after the other, by their sequence. One that fails then holds up the later ones until it is final.',
  example: false,
})
const max_in_flight = z.int().min(1).max(100).meta({
  description:
    'The most requests at one moment; fewer while the endpoint is slow or only fails. Tests and replays come on top.',
  example: 10,
})
const rate_per_s = z.int().min(1).max(1000).nullable().meta({
  description: 'The most requests in a second, spread over it; null: as many as there are.',
  example: 50,
})
const DESCRIPTION = { description: 'Yours.', example: 'The shop' }

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

export const createEndpointBody = fields.meta({
  id: 'CreateWebhookEndpoint',
  description: 'Where events are to be sent to.',
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
  .meta({ id: 'UpdateWebhookEndpoint', description: 'What changes.' })
export const updateEndpointBody = changing(patch, fields, 'delete the endpoint')

export const rotateBody = z
  .strictObject({
    grace_s: z.int().min(0).max(604_800).default(86_400).meta({
      description: 'For how many seconds the secrets before it sign too.',
      example: 86_400,
    }),
    idempotency_key: idempotencyKey.meta({ example: 'webhook-endpoint-17-rotate' }).optional(),
  })
  .meta({ id: 'RotateWebhookSecret', description: 'How long the secrets before it sign too.' })
  .nullish()

export const testBody = z
  .strictObject({
    type: eventType.optional().meta({
      description:
        'What the event is to be like; the endpoint need not take such events. When left out: `payment.captured`, or the first type that the endpoint takes where it does not take that.',
      example: 'payment.captured',
    }),
    idempotency_key: idempotencyKey.meta({ example: 'webhook-endpoint-17-test' }).optional(),
  })
  .meta({ id: 'TestWebhookEndpoint', description: 'Which event is sent.' })
  .nullish()

export const replayBody = z
  .strictObject({ idempotency_key: idempotencyKey.meta({ example: 'delivery-17-replay' }).optional() })
  .meta({ id: 'ReplayWebhookDelivery', description: 'Nothing but a key.' })
  .nullish()

const recovery = z
  .strictObject({
    since: dateTime.meta({ description: 'Of deliveries that were made from then on.' }),
    until: dateTime
      .nullish()
      .transform((at) => at ?? null)
      .meta({
        description: 'And before then; now when left out or in the future.',
        example: '2026-11-21T10:15:30.123456Z',
      }),
    idempotency_key: idempotencyKey.meta({ example: 'webhook-endpoint-17-recover' }).optional(),
  })
  .meta({ id: 'RecoverWebhookEndpoint', description: 'The time of what is sent again.' })

/** Without a body it is told what is missing in it. */
export const recoverBody = z.preprocess((body) => body ?? {}, recovery)

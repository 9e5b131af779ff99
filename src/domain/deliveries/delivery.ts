// The delivery: one event for one webhook endpoint.
import { z } from 'zod'
import { anyJson } from '#core/json.ts'
import { timestamp } from '#core/time.ts'
import { idFields } from '../fields.ts'
import type { Resource } from '../resource.ts'

export const deliveryStatus = z.enum(['pending', 'delivered', 'failed', 'exhausted', 'skipped']).meta({
  id: 'WebhookDeliveryStatus',
  description:
    '`pending` until it is final. `failed`: the endpoint answered 410, or was disabled automatically while this delivery waited. `exhausted`: the last attempt of the schedule failed, or the only attempt of a test. `skipped`: the endpoint was disabled when the event happened, or you disabled it while this delivery waited.',
  example: 'delivered',
})

const last_status_code = z
  .int()
  .nullable()
  .meta({ description: 'The HTTP status of the last response; null if there was none.', example: 200 })
const last_error = z
  .string()
  .nullable()
  .meta({ description: 'Why the last attempt got no response.', example: null })

/** A delivery in lists. */
export const deliverySchema = z
  .object({
    ...idFields('delivery', '0198f6f8-4d1e-7000-8000-123456789abc'),
    endpoint_id: z
      .uuid()
      .meta({ description: 'The endpoint.', example: '0198f6f8-21c4-7000-8000-123456789abc' }),
    event_id: z.uuid().meta({
      description: 'The id of the event, which is also the header `webhook-id` of each attempt.',
      example: '0198f6f2-2b1a-7000-8000-123456789abc',
    }),
    type: z.string().meta({ description: 'The type of the event.', example: 'payment.captured' }),
    sequence: z
      .int()
      .nullable()
      .meta({ description: 'The sequence of the event in your feed; null for a test.', example: 17 }),
    status: deliveryStatus,
    attempts: z.int().meta({ description: 'Scheduled attempts so far; replays do not count.', example: 1 }),
    next_attempt_at: timestamp.nullable().meta({
      description:
        'When the next attempt is due; null if there is none. It may come later: a failing endpoint gets one request at a time, and an ordered endpoint gets its events in order.',
      example: null,
    }),
    last_status_code,
    last_error,
    delivered_at: timestamp.nullable().meta({ description: 'When it was delivered.' }),
    created_at: timestamp.meta({ description: 'The cursor of lists.' }),
    updated_at: timestamp.meta({ description: 'When it last changed.' }),
  })
  .meta({ id: 'WebhookDelivery', description: 'The delivery of an event to an endpoint.' })
export type Delivery = z.output<typeof deliverySchema>

/** One attempt, as the log of a delivery stores it and as answers show it. */
const deliveryAttempt = z
  .object({
    at: timestamp.meta({ description: 'When the attempt began.' }),
    status_code: z
      .int()
      .nullable()
      .meta({ description: 'The HTTP status of the response; null if there was none.', example: 200 }),
    duration_ms: z.int().meta({ description: 'How long it took.', example: 84 }),
    error: z.string().nullable().meta({ description: 'Why there was no response.', example: null }),
    response_excerpt: z.string().nullable().meta({
      description:
        'The beginning of the response body: at most 1,000 bytes, 200 for a success. Null if there was no response, if five more attempts have followed, or if the personal data of the event was erased.',
      example: 'ok',
    }),
    manual: z.boolean().meta({ description: 'Whether it was a replay.', example: false }),
  })
  .meta({ id: 'WebhookDeliveryAttempt', description: 'An attempt to deliver an event.' })

/** A delivery with its attempts and payload. */
export const deliveryDetailSchema = deliverySchema
  .extend({
    attempts_log: z
      .array(deliveryAttempt)
      .meta({ description: 'The attempts, oldest first, replays among them.' }),
    payload: anyJson.meta({
      description:
        "The payload: `{ id, type, timestamp, sequence, tenant_id, livemode, data }`. If it would exceed 20 kB, `data` is only `{ id, truncated: true }`. Null if the event's retention period has passed.",
      example: {
        id: '0198f6f2-2b1a-7000-8000-123456789abc',
        type: 'payment.captured',
        timestamp: '2026-11-20T10:15:30.123456Z',
        sequence: 17,
        tenant_id: '0198f6ef-9a00-7000-8000-00000000ac3e',
        livemode: true,
        data: { id: '0198f6f0-1234-7000-8000-123456789abc', livemode: true, status: 'captured' },
      },
    }),
  })
  .meta({ id: 'WebhookDeliveryDetail', description: 'A delivery with its attempts and its payload.' })
export type DeliveryDetail = z.output<typeof deliveryDetailSchema>

/** A delivery has no events: each of them would be delivered, too. */
export const deliveryResource = {
  table: 'webhook_deliveries',
  parent: { resource: 'webhook_endpoint', id_column: 'endpoint_id' },
  view: deliverySchema,
  events: {},
} as const satisfies Resource

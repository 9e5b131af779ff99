// The webhook endpoint: the destination of a tenant's events.
import { z } from 'zod'
import type { Sql, Tx, Fragment } from '#core/db.ts'
import type { SealingContext } from '#core/secrets.ts'
import { timestamp } from '#core/time.ts'
import { announcedTimes } from '../audit/events.ts'
import type { AuditScope } from '../audit/checks.ts'
import { idFields, keyField, trailingFields } from '../fields.ts'
import type { Resource } from '../resource.ts'

/** The maximum number of endpoints of a tenant; a CHECK of the table enforces it too. */
export const MAX_ENDPOINTS = 20

export const endpointStatus = z.enum(['enabled', 'disabled']).meta({
  id: 'WebhookEndpointStatus',
  description:
    '`disabled`: no events are sent to the endpoint, and events that happen in the meantime are not sent later automatically. Tests, replays and recoveries are sent.',
  example: 'enabled',
})

/** A webhook endpoint in events, without its secret and headers. */
export const endpointEventSchema = z
  .object({
    ...idFields('endpoint', '0198f6f8-21c4-7000-8000-123456789abc'),
    idempotency_key: keyField('webhook-endpoint-17').nullable(),
    url: z
      .string()
      .meta({ description: 'The URL that events are sent to.', example: 'https://shop.example/webhooks' }),
    types: z.array(z.string().meta({ example: 'payment.*' })).meta({
      description: 'The events to send: `*` for all, `<resource>.*`, or single types.',
      example: ['payment.*', 'refund.succeeded'],
    }),
    description: z.string().nullable().meta({ description: 'Your description.', example: 'The shop' }),
    ordered: z.boolean().meta({
      description:
        'Whether events are sent one at a time, by their sequence. Then an event whose delivery fails delays later events until its delivery is final.',
      example: false,
    }),
    max_in_flight: z.int().meta({
      description:
        'The maximum number of requests at once; fewer while the endpoint is slow or fails. Tests and replays are not counted.',
      example: 10,
    }),
    rate_per_s: z
      .int()
      .nullable()
      .meta({ description: 'The maximum number of requests a second; null means no limit.', example: null }),
    status: endpointStatus,
    disabled_reason: z.enum(['gone', 'failing', 'manual']).nullable().meta({
      id: 'WebhookEndpointDisabledReason',
      description:
        'Why the endpoint was disabled. `gone`: it answered 410. `failing`: every attempt failed for five days. `manual`: you disabled it. Null while it is enabled.',
      example: null,
    }),
    ...trailingFields('endpoints'),
  })
  .meta({
    id: 'WebhookEndpointEventData',
    description: 'The endpoint as it was then, without its secret and its headers.',
  })

/** A webhook endpoint in responses. */
export const endpointSchema = endpointEventSchema
  .extend({
    headers: z.record(z.string(), z.string()).meta({
      description: 'Your own headers, sent with each request.',
      example: { 'x-shop': '17' },
    }),
    failing_since: timestamp.nullable().meta({
      description: 'Since when every attempt has failed; null if the last one succeeded or there was none.',
      example: null,
    }),
    secret: z.string().nullable().meta({
      description:
        'The secret that signs requests. Returned once, in the response to the creation or the rotation; null after that.',
      example: null,
    }),
  })
  .meta({ id: 'WebhookEndpoint', description: 'A webhook endpoint: a URL that your events are sent to.' })
export type WebhookEndpoint = z.output<typeof endpointSchema>

/** A row of an endpoint: its headers are sealed; null without headers. */
export type WebhookEndpointRow = Omit<WebhookEndpoint, 'headers' | 'secret'> & {
  sealed_headers: string | null
}

export const webhookEndpointResource = {
  table: 'webhook_endpoints',
  view: endpointEventSchema,
  events: {
    created: 'An endpoint was created.',
    updated: 'An endpoint was updated, or its secret was rotated.',
    disabled:
      'An endpoint was disabled: it answered 410, every attempt failed for five days, or you disabled it.',
    enabled: 'An endpoint was enabled again.',
    deleted: 'An endpoint was deleted.',
  },
  checks: { webhook_endpoint_events: endpointEvents },
} as const satisfies Resource

/** The sealing context of a column of an endpoint. Each secret is sealed separately. */
export function endpointSealingContext(
  tenant_id: string,
  id: string,
  column: 'secrets' | 'headers',
): SealingContext {
  return { tenant_id, table: 'webhook_endpoints', row: id, column }
}

/**
 * The audit check that each endpoint has one event of its creation and, if it is deleted, one event of its deletion.
 */
function endpointEvents(sql: Sql | Tx, scope: AuditScope): Fragment {
  const deleted = sql`(p.deleted_at is not null)::integer::bigint`
  const required = sql`
    values
    ('webhook_endpoint.created', 1::bigint, 1::bigint),
    ('webhook_endpoint.deleted', ${deleted}, ${deleted})`
  return announcedTimes(sql, scope, 'webhook_endpoint', required)
}

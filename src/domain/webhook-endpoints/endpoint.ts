// The webhook endpoint: where a tenant's events are sent to.
import { z } from 'zod'
import type { Sql, Tx, Fragment } from '#core/db.ts'
import type { SealedPlace } from '#core/secrets.ts'
import { announcedTimes } from '../audit/events.ts'
import type { AuditScope } from '../audit/checks.ts'
import { idFields, keyField, lastFields } from '../fields.ts'
import type { Subject } from '../subject.ts'

/** How many endpoints a tenant has at most; a CHECK of the table holds it too. */
export const MOST_ENDPOINTS = 20

export const endpointStatus = z.enum(['enabled', 'disabled']).meta({
  id: 'WebhookEndpointStatus',
  description:
    '`disabled`: no events are sent there, and what happens meanwhile is not sent later by itself. Tests, replays and recoveries are sent.',
  example: 'enabled',
})

/** A webhook endpoint in events: without its secret and its headers. */
export const endpointEventSchema = z
  .object({
    ...idFields('endpoint', '0198f6f8-21c4-7000-8000-123456789abc'),
    idempotency_key: keyField('webhook-endpoint-17').nullable(),
    url: z
      .string()
      .meta({ description: 'Where events are sent to.', example: 'https://shop.example/webhooks' }),
    types: z.array(z.string().meta({ example: 'payment.*' })).meta({
      description: 'Which events: `*` for all, `<noun>.*`, or types.',
      example: ['payment.*', 'refund.succeeded'],
    }),
    description: z.string().nullable().meta({ description: 'Yours.', example: 'The shop' }),
    ordered: z.boolean().meta({
      description:
        'Whether events are sent one after the other, by their sequence: one that fails holds up the later ones until it is final.',
      example: false,
    }),
    max_in_flight: z.int().meta({
      description:
        'The most requests at one moment; fewer while the endpoint is slow or only fails. Tests and replays come on top.',
      example: 10,
    }),
    rate_per_s: z
      .int()
      .nullable()
      .meta({ description: 'The most requests in a second; null: as many as there are.', example: null }),
    status: endpointStatus,
    disabled_reason: z.enum(['gone', 'failing', 'manual']).nullable().meta({
      id: 'WebhookEndpointDisabledReason',
      description:
        '`gone`: it answered 410. `failing`: for five days every attempt failed. `manual`: by you. Null while it is enabled.',
      example: null,
    }),
    ...lastFields('endpoints'),
  })
  .meta({
    id: 'WebhookEndpointEventData',
    description: 'The endpoint as it then stood, without its secret and its headers.',
  })

/** A webhook endpoint in answers. */
export const endpointSchema = endpointEventSchema
  .extend({
    headers: z.record(z.string(), z.string()).meta({
      description: 'Headers of yours that each request carries.',
      example: { 'x-shop': '17' },
    }),
    secret: z.string().nullable().meta({
      description:
        'What requests are signed with. Shown once, when it was made: in the answer to the create, or to its rotation. Null later.',
      example: null,
    }),
  })
  .meta({ id: 'WebhookEndpoint', description: 'Where your events are sent to.' })
export type WebhookEndpoint = z.output<typeof endpointSchema>

/** An endpoint as it is read from its row: its headers are sealed, null where it has none. */
export type WebhookEndpointRow = Omit<WebhookEndpoint, 'headers' | 'secret'> & {
  sealed_headers: string | null
}

export const webhookEndpointSubject = {
  table: 'webhook_endpoints',
  view: endpointEventSchema,
  events: {
    created: 'An endpoint was made.',
    updated: 'An endpoint was changed, or its secret was rotated.',
    disabled: 'Nothing is sent to an endpoint any more: it is gone, it only failed, or somebody disabled it.',
    enabled: 'Events are sent to an endpoint again.',
    deleted: 'An endpoint was deleted.',
  },
  checks: { webhook_endpoint_events: endpointEvents },
} as const satisfies Subject

/** Where a sealed part of an endpoint stands. Of the secrets each is sealed by itself. */
export function endpointPlace(tenant_id: string, id: string, column: 'secrets' | 'headers'): SealedPlace {
  return { tenant_id, table: 'webhook_endpoints', row: id, column }
}

/** Each endpoint was announced, and so was its deletion. */
function endpointEvents(sql: Sql | Tx, scope: AuditScope): Fragment {
  const deleted = sql`(p.deleted_at is not null)::integer::bigint`
  const reached = sql`
    values
    ('webhook_endpoint.created', 1::bigint, 1::bigint),
    ('webhook_endpoint.deleted', ${deleted}, ${deleted})`
  return announcedTimes(sql, scope, 'webhook_endpoint', reached)
}

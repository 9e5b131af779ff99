// The recovery: sends again the deliveries that an endpoint missed in a period.
import { z } from 'zod'
import { timestamp } from '#core/time.ts'
import { idFields } from '../fields.ts'
import type { Resource } from '../resource.ts'

export const recoverySchema = z
  .object({
    ...idFields('recovery', '0198f6f8-7a02-7000-8000-123456789abc'),
    endpoint_id: z
      .uuid()
      .meta({ description: 'The endpoint.', example: '0198f6f8-21c4-7000-8000-123456789abc' }),
    since: timestamp.meta({ description: 'Only deliveries created at or after this time.' }),
    until: timestamp.meta({
      description: 'Only deliveries created before this time.',
      example: '2026-11-21T10:15:30.123456Z',
    }),
    status: z.enum(['pending', 'running', 'completed']).meta({
      id: 'WebhookRecoveryStatus',
      description: '`completed`: all missed deliveries have been sent or dropped.',
      example: 'running',
    }),
    found: z.int().meta({ description: 'The number of missed deliveries found so far.', example: 40 }),
    sent: z.int().meta({
      description:
        'The number of these deliveries that were sent again. Deliveries that still wait or are in progress, or that were dropped because the endpoint was disabled, are not counted. Each delivery shows whether it was delivered.',
      example: 12,
    }),
    created_at: timestamp.meta({ description: 'When it was created.' }),
    updated_at: timestamp.meta({ description: 'When it last made progress.' }),
  })
  .meta({
    id: 'WebhookRecovery',
    description: 'A request to send again what an endpoint missed in a period.',
  })
export type Recovery = z.output<typeof recoverySchema>

/** A recovery has no events: clients poll its progress. */
export const recoveryResource = {
  table: 'webhook_recoveries',
  parent: { resource: 'webhook_endpoint', id_column: 'endpoint_id' },
  view: recoverySchema,
  events: {},
} as const satisfies Resource

// The report of a lost request: accepted, recorded outside of the database, and missing after a switch of it.
import { z } from 'zod'
import { timestamp } from '#core/time.ts'
import { idFields } from '../fields.ts'
import type { Resource } from '../resource.ts'

export const lostRequestSchema = z
  .object({
    ...idFields('report', '0198f6fa-60aa-7000-8000-123456789abc'),
    idempotency_key: z.string().nullable().meta({
      description:
        'The idempotency key of the request; null if it had none: then retrieve the resource before you repeat the request.',
      example: 'customer-17',
    }),
    path: z
      .string()
      .meta({ description: 'The method and the path of the request.', example: 'POST /v1/customers' }),
    resource_id: z.uuid().meta({
      description: 'The resource that the request created or changed.',
      example: '0198f6f0-3c55-7000-8000-123456789abc',
    }),
    accepted_at: timestamp.meta({ description: 'When the request was accepted.' }),
  })
  .meta({ id: 'LostRequest', description: 'An accepted request that the database has lost.' })
export type LostRequest = z.output<typeof lostRequestSchema>

export const requestResource = {
  table: 'lost_requests',
  view: lostRequestSchema,
  events: {
    lost: 'The database lost an accepted request, and no provider lists what it made. Repeat it with its key; an email that may have been sent then becomes `unknown`. [What to do](/docs/guides/events#lost-requests).',
  },
} as const satisfies Resource

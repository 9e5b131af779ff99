// The suppression: an address or number that no longer gets messages.
import { z } from 'zod'
import type { SealingContext } from '#core/secrets.ts'
import { idFields, keyField, trailingFields } from '../fields.ts'
import { checksOfSuppressions } from '../audit/messages.ts'
import { messageChannel } from '../messages/message.ts'
import type { Resource } from '../resource.ts'

/** The reason of a suppression, as a field and as a filter. */
export const suppressionReason = z.enum(['hard_bounce', 'complaint', 'opt_out', 'manual']).meta({
  id: 'SuppressionReason',
  description:
    '`hard_bounce`: the address does not exist. `complaint`: somebody marked a message as spam. `opt_out`: somebody replied STOP, or a similar keyword, to an SMS. `manual`: you created it.',
  example: 'hard_bounce',
})

/** The unsealed columns of a suppression's row. */
export const suppressionRowSchema = z.object({
  ...idFields('suppression', '0198f6f7-0a4e-7000-8000-123456789abc'),
  idempotency_key: keyField('suppress-17').nullable(),
  channel: messageChannel,
  reason: suppressionReason,
  message_id: z.uuid().nullable().meta({
    description:
      'For a bounce or a complaint: the message that caused it. For an opt-out: the latest SMS to the number. Null if there is none.',
    example: null,
  }),
  ...trailingFields('suppressions'),
})

const address = z
  .string()
  .meta({ description: 'The email address, or the number.', example: 'grace@example.com' })

/** A suppression in events. */
const suppressionEventSchema = suppressionRowSchema
  .extend({
    address: address.nullable().meta({
      description: 'The email address, or the number; null once it is erased.',
      example: 'grace@example.com',
    }),
  })
  .meta({ id: 'SuppressionEventData', description: 'The suppression as it was then.' })

/** A suppression in answers. */
export const suppressionSchema = suppressionRowSchema.extend({ address }).meta({
  id: 'Suppression',
  description: 'A suppression: an address or number that no longer gets messages.',
})
export type Suppression = z.output<typeof suppressionSchema>

export const suppressionResource = {
  table: 'suppressions',
  view: suppressionRowSchema,
  completion: {
    data: suppressionEventSchema,
    fields: ['address'],
    columns: (sql) => sql`p.sealed, false as omits`,
    open: ({ tenant_id, id, sealed }, _stored, vault) => ({
      address: typeof sealed === 'string' ? vault.open(sealed, suppressionContext(tenant_id, id)) : null,
    }),
  },
  events: {
    created: 'An address or number no longer gets messages.',
    deleted: 'The address or number gets messages again.',
  },
  checks_by_tenant: checksOfSuppressions,
} as const satisfies Resource

/** The sealing context of the address. */
export function suppressionContext(tenant_id: string, id: string): SealingContext {
  return { tenant_id, table: 'suppressions', row: id, column: 'sealed' }
}

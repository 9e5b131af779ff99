// The refund: its schema in rows, answers and events.
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import { amountMinor, currencyCode } from '#core/money.ts'
import { idFields, trailingFields } from '../fields.ts'

/** The status of a refund, as a field and as a filter. */
export const refundStatus = z.enum(['pending', 'succeeded', 'failed']).meta({
  id: 'RefundStatus',
  description:
    '`pending`: the refund is in progress. `succeeded`: the money is on its way to the buyer. `failed`: the money stays with you. A refund that succeeded can still fail, up to 30 days later.',
  example: 'succeeded',
})

/** A refund in answers and events. */
export const refundSchema = z
  .object({
    ...idFields('refund', '0198f6f1-4ef0-7000-8000-123456789abc'),
    payment_id: z.uuid().meta({
      description: 'The payment that is refunded.',
      example: '0198f6f0-1234-7000-8000-123456789abc',
    }),
    idempotency_key: z.string().nullable().meta({
      description:
        "The idempotency key that it was created with; null for a refund made in the processor's dashboard.",
      example: 'order-17-refund',
    }),
    status: refundStatus,
    amount_minor: amountMinor,
    currency: currencyCode,
    reason: z
      .string()
      .nullable()
      .meta({ description: 'Why it was refunded, if a reason was given.', example: 'requested_by_customer' }),
    imported: z
      .boolean()
      .meta({ description: "Whether it was made in the processor's dashboard.", example: false }),
    processor: z
      .string()
      .meta({ description: 'The processor that moves the money.', example: PAYMENTS.provider }),
    processor_reference: z
      .string()
      .nullable()
      .meta({ description: 'The refund at the processor.', example: PAYMENTS.examples.refund }),
    failure: z
      .object({
        code: z.string().meta({ description: 'What went wrong.', example: 'processor_error' }),
        message: z
          .string()
          .meta({ description: 'A description for people.', example: 'The card was lost or stolen.' }),
      })
      .meta({ id: 'RefundFailure', description: 'Why a refund failed.' })
      .nullable()
      .meta({ description: 'Why it failed; null if it has not.', example: null }),
    ...trailingFields('refunds'),
  })
  .meta({ id: 'Refund', description: 'A refund: money that goes back to the buyer.' })

export type Refund = z.output<typeof refundSchema>

/** The events of refunds: the name after `refund.`, and the description. */
export const REFUND_EVENTS = {
  created: 'A refund was created, here or at the processor.',
  recovered: 'A refund was lost here and made again from the record of the processor.',
  succeeded: 'The money is on its way to the buyer.',
  failed: 'The money stays with you. A refund that succeeded can also fail.',
} as const

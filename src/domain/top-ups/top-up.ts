// The top-up: its schema in rows, answers and events.
import { z } from 'zod'
import { TOP_UPS } from '#core/config/providers.ts'
import { amountMinor, lowerCurrency } from '#core/money.ts'
import { timestamp } from '#core/time.ts'
import { idFields, keyField, lastFields } from '../fields.ts'

/** The status of a top-up, as a field and as a filter. */
export const topUpStatus = z.enum(['pending', 'succeeded', 'failed', 'canceled']).meta({
  id: 'TopUpStatus',
  description:
    '`pending`: the money is on its way. `succeeded`: it is in your balance. `failed`: it did not come, or was taken back after it had succeeded. `canceled`: it was canceled at the processor before it came.',
  example: 'succeeded',
})
export type TopUpStatus = z.output<typeof topUpStatus>

/** A top-up in answers and events. */
export const topUpSchema = z
  .object({
    ...idFields('top-up', '0198f6f4-70bd-7000-8000-123456789abc'),
    idempotency_key: keyField('top-up-2026-11-20'),
    status: topUpStatus,
    amount_minor: amountMinor,
    currency: lowerCurrency,
    source: z
      .string()
      .nullable()
      .meta({
        description: 'Where the money comes from, masked; null: from the bank account of the platform.',
        example: maskedSource(TOP_UPS.examples.source),
      }),
    description: z.string().nullable().meta({ description: 'Your words for it.', example: 'November' }),
    processor: z.string().meta({ description: 'Who moves the money.', example: TOP_UPS.provider }),
    processor_reference: z.string().nullable().meta({
      description: 'The top-up at the processor; null until it has taken it.',
      example: TOP_UPS.examples.top_up,
    }),
    failure: z
      .object({
        code: z.string().meta({
          description:
            "`payment_declined`, `payment_invalid`, `processor_error`: the processor did not take it. `reversed`: the money was taken back. Else the processor's word for it.",
          example: 'insufficient_funds',
        }),
        message: z.string().meta({
          description: 'The same for people.',
          example: 'The bank account does not have enough funds.',
        }),
      })
      .meta({ id: 'TopUpFailure', description: 'Why a top-up failed.' })
      .nullable()
      .meta({ description: 'Why it failed; null while it has not.', example: null }),
    succeeded_at: timestamp.nullable().meta({
      description: 'When the money came; it stays when the money was taken back.',
    }),
    failed_at: timestamp.nullable().meta({ description: 'When it failed or was taken back.', example: null }),
    ...lastFields('top-ups'),
  })
  .meta({ id: 'TopUp', description: 'Money that you bring into your balance.' })

export type TopUp = z.output<typeof topUpSchema>

/** The events of top-ups, by the word after `top_up.`, each with its meaning. */
export const TOP_UP_EVENTS = {
  created: 'A top-up was asked for.',
  succeeded: 'The money is in the balance.',
  failed: 'The money did not come.',
  canceled: 'It was canceled at the processor before the money came.',
  reversed: 'The money came and was taken back; the balance may be negative.',
} as const

/** What may be shown of a token: of which kind it is, and the end of a long one. */
export function maskedSource(token: string): string {
  const [, kind = '', rest = ''] = /^([A-Za-z]{1,8}_)?(.*)$/s.exec(token) ?? []
  return `${kind}****${rest.length >= 16 ? rest.slice(-4) : ''}`
}

// The top-up: its schema in rows, answers and events.
import { z } from 'zod'
import { TOP_UPS } from '#core/config/providers.ts'
import { amountMinor, lowerCurrency } from '#core/money.ts'
import { timestamp } from '#core/time.ts'
import { idFields, keyField, trailingFields } from '../fields.ts'

/** The status of a top-up, as a field and as a filter. */
export const topUpStatus = z.enum(['pending', 'succeeded', 'failed', 'canceled']).meta({
  id: 'TopUpStatus',
  description:
    '`pending`: the money is on its way. `succeeded`: the money is in your balance. `failed`: the money did not come, or was taken back after it had come. `canceled`: the top-up was canceled at the processor before the money came.',
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
        description: 'Where the money comes from, masked; null means the bank account of the platform.',
        example: maskedSource(TOP_UPS.examples.source),
      }),
    description: z
      .string()
      .nullable()
      .meta({ description: 'A description of your own.', example: 'November' }),
    processor: z
      .string()
      .meta({ description: 'The processor that moves the money.', example: TOP_UPS.provider }),
    processor_reference: z.string().nullable().meta({
      description: 'The top-up at the processor; null until the processor has accepted it.',
      example: TOP_UPS.examples.top_up,
    }),
    failure: z
      .object({
        code: z.string().meta({
          description:
            "`payment_declined`, `payment_invalid`, `processor_error`: the processor did not accept it. `reversed`: the money was taken back. Otherwise the processor's own code.",
          example: 'insufficient_funds',
        }),
        message: z.string().meta({
          description: 'A description for people.',
          example: 'The bank account does not have enough funds.',
        }),
      })
      .meta({ id: 'TopUpFailure', description: 'Why a top-up failed.' })
      .nullable()
      .meta({ description: 'Why it failed; null if it has not.', example: null }),
    succeeded_at: timestamp.nullable().meta({
      description: 'When the money came. It stays set if the money was taken back.',
    }),
    failed_at: timestamp.nullable().meta({ description: 'When it failed or was taken back.', example: null }),
    ...trailingFields('top-ups'),
  })
  .meta({ id: 'TopUp', description: 'A top-up: money that you add to your balance.' })

export type TopUp = z.output<typeof topUpSchema>

/** The events of top-ups: the name after `top_up.`, and the description. */
export const TOP_UP_EVENTS = {
  created: 'A top-up was created.',
  recovered: 'A top-up was lost here and made again from the record of the processor.',
  succeeded: 'The money is in the balance.',
  failed: 'The money did not come.',
  canceled: 'The top-up was canceled at the processor before the money came.',
  reversed: 'The money came and was taken back; the balance may be negative.',
} as const

/** A token, masked: its prefix, and the last four characters of a long token. */
export function maskedSource(token: string): string {
  const [, kind = '', rest = ''] = /^([A-Za-z]{1,8}_)?(.*)$/s.exec(token) ?? []
  return `${kind}****${rest.length >= 16 ? rest.slice(-4) : ''}`
}

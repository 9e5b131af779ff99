// The payout: its schema in rows, answers and events.
import { z } from 'zod'
import { PAYOUTS } from '#core/config/providers.ts'
import { amountMinor, lowerCurrency } from '#core/money.ts'
import { timestamp } from '#core/time.ts'
import { idFields, keyField, trailingFields } from '../fields.ts'

const PAYOUT_STATUSES = ['pending', 'processing', 'paid', 'failed', 'canceled'] as const
export type PayoutStatus = (typeof PAYOUT_STATUSES)[number]

/** The open statuses of a payout: the column `open` is true. */
export const OPEN_PAYOUT_STATUSES: readonly PayoutStatus[] = ['pending', 'processing']

/** The status of a payout, as a field and as a filter. */
export const payoutStatus = z.enum(PAYOUT_STATUSES).meta({
  id: 'PayoutStatus',
  description:
    '`pending`: the processor has not accepted it yet. `processing`: the money is on its way. `paid`: the processor has paid it; it can still come back, and is then `failed`. `failed`: it was refused, came back, or was failed manually, and can no longer be paid. `canceled`: it was stopped in time. While it is `pending` or `processing`, its amount is reserved.',
  example: 'processing',
})

/** A payout in answers and events. */
export const payoutSchema = z
  .object({
    ...idFields('payout', '0198f6f3-2b1d-7000-8000-123456789abc'),
    idempotency_key: keyField('payout-2026-11-20'),
    status: payoutStatus,
    amount_minor: amountMinor,
    currency: lowerCurrency,
    recipient_id: z
      .uuid()
      .meta({ description: 'The recipient who is paid.', example: '0198f6f0-7ec1-7000-8000-123456789abc' }),
    description: z
      .string()
      .nullable()
      .meta({ description: 'A description of your own.', example: 'November' }),
    processor: z
      .string()
      .meta({ description: 'The processor that moves the money.', example: PAYOUTS.provider }),
    processor_reference: z.string().nullable().meta({
      description: 'The payout or transfer at the processor; null until the processor has accepted it.',
      example: PAYOUTS.examples.payout,
    }),
    arrival_date: z.string().nullable().meta({
      description: 'The day on which the processor expects the money to arrive, once known.',
      format: 'date',
      example: '2026-11-24',
    }),
    failure: z
      .object({
        code: z.string().meta({
          description:
            "`payout_refused`: the processor did not accept it. `failed_manually`: it was failed manually, or that was requested. Otherwise the processor's own code.",
          example: 'no_account',
        }),
        message: z.string().meta({
          description: 'A description for people; if it was failed manually, the reason that was given.',
          example: 'The bank account could not be found.',
        }),
        manual: z.boolean().meta({
          description: 'Whether it was failed manually, or that was requested.',
          example: false,
        }),
      })
      .meta({ id: 'PayoutFailure', description: 'Why a payout failed.' })
      .nullable()
      .meta({
        description:
          'Why it failed. While it is `pending` or `processing`: the reason that was given with a requested failure. Otherwise null.',
        example: null,
      }),
    processing_at: timestamp.nullable().meta({ description: 'When the processor accepted it.' }),
    paid_at: timestamp.nullable().meta({ description: 'When it was paid.' }),
    failed_at: timestamp.nullable().meta({ description: 'When it failed.' }),
    canceled_at: timestamp.nullable().meta({ description: 'When it was canceled.' }),
    fail_requested_at: timestamp.nullable().meta({
      description:
        'When a manual failure was requested that could not take effect at once. The payout then becomes `failed` as soon as it can no longer be paid, or `paid` if the processor pays it.',
      example: null,
    }),
    ...trailingFields('payouts'),
  })
  .meta({ id: 'Payout', description: 'A payout: money that you send from your balance to a recipient.' })

export type Payout = z.output<typeof payoutSchema>

/** The events of payouts: the name after `payout.`, and the description. */
export const PAYOUT_EVENTS = {
  created: 'A payout was created, and its amount was reserved.',
  recovered: 'A payout was lost here and made again from the record of the processor.',
  processing: 'The processor has accepted it.',
  paid: 'It was paid. A transfer is paid as soon as it is accepted.',
  failed: 'It was refused, came back, or was failed manually.',
  fail_overtaken: 'The processor paid it although a manual failure was requested: the request is void.',
  canceled: 'It was stopped in time.',
} as const

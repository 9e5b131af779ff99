// The dispute: its schema in rows, answers and events.
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import { amountMinor, currencyCode } from '#core/money.ts'
import { timestamp } from '#core/time.ts'
import { idFields, trailingFields } from '../fields.ts'

const DISPUTE_STATUSES = ['needs_response', 'under_review', 'won', 'lost', 'warning'] as const

/** The status of a dispute, as a field and as a filter. */
export const disputeStatus = z.enum(DISPUTE_STATUSES).meta({
  id: 'DisputeStatus',
  description:
    "`needs_response`: you can answer it at the processor. `under_review`: the buyer's bank is deciding. `won`: the money is yours again. `lost`: the buyer has the money; an appeal can still change that. `warning`: an inquiry, which takes no money; `closed_at` shows whether it is closed.",
  example: 'needs_response',
})

const movedAmount = (description: string, example: number) =>
  z.int().nonnegative().meta({ description, example })

/** A dispute in answers. */
export const disputeSchema = z
  .object({
    ...idFields('dispute', '0198f6f4-d150-7000-8000-123456789abc'),
    payment_id: z.uuid().meta({
      description: 'The payment that is disputed.',
      example: '0198f6f0-1234-7000-8000-123456789abc',
    }),
    processor: z
      .string()
      .meta({ description: 'The processor that moves the money.', example: PAYMENTS.provider }),
    processor_reference: z
      .string()
      .meta({ description: 'The dispute at the processor.', example: PAYMENTS.examples.dispute }),
    status: disputeStatus,
    reason: z
      .string()
      .nullable()
      .meta({ description: "The buyer's reason, as a code of the processor.", example: 'fraudulent' }),
    amount_minor: amountMinor.meta({ description: 'The disputed amount, in the smallest unit.' }),
    currency: currencyCode,
    amount_withdrawn_minor: movedAmount('The amount taken from your balance.', 1000),
    amount_reinstated_minor: movedAmount('The amount that came back.', 0),
    evidence_due_by: timestamp.nullable().meta({
      description: 'The deadline for your answer at the processor; null if it accepts none.',
      example: '2026-11-29T23:59:59.000000Z',
    }),
    opened_at: timestamp.meta({ description: 'When it was opened at the processor.' }),
    closed_at: timestamp.nullable().meta({
      description: 'When Sluice recorded that it was closed; null while it is open or reopened.',
      example: null,
    }),
    ...trailingFields('disputes'),
  })
  .meta({ id: 'Dispute', description: "A dispute: money of a payment that the buyer's bank asks back." })

export type Dispute = z.output<typeof disputeSchema>

/** A payment's latest dispute, in answers of the payment. */
export const paymentDisputeSchema = disputeSchema
  .pick({
    id: true,
    processor_reference: true,
    status: true,
    reason: true,
    amount_minor: true,
    currency: true,
    evidence_due_by: true,
    opened_at: true,
    closed_at: true,
  })
  .meta({ id: 'PaymentDispute', description: 'A dispute, as shown on its payment.' })

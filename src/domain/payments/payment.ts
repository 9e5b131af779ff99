// The payment: its schema in rows, answers and events.
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import { amountMinor, currencyCode } from '#core/money.ts'
import { timestamp } from '#core/time.ts'
import { idFields, keyField, trailingFields } from '../fields.ts'
import { paymentDisputeSchema } from '../disputes/dispute.ts'

const PAYMENT_STATUSES = [
  'pending',
  'requires_action',
  'authorized',
  'capturing',
  'captured',
  'canceling',
  'canceled',
  'failed',
] as const
export type PaymentStatus = (typeof PAYMENT_STATUSES)[number]

/** The final statuses of a payment. In all other statuses the column `open` is true. */
export const FINAL_PAYMENT_STATUSES: readonly PaymentStatus[] = ['captured', 'canceled', 'failed']

/** The status of a payment, as a field and as a filter. */
export const paymentStatus = z.enum(PAYMENT_STATUSES).meta({
  id: 'PaymentStatus',
  description:
    '`pending`: the authorization is in progress. `requires_action`: the buyer has to act. `authorized`: the money is held. `capturing`, `canceling`: a capture or cancellation is in progress. `captured`, `canceled`, `failed`: final.',
  example: 'authorized',
})

/** An amount in a payment. */
const amount = (description: string, example: number) => z.int().nonnegative().meta({ description, example })

/** A payment in answers. */
export const paymentSchema = z
  .object({
    ...idFields('payment', '0198f6f0-1234-7000-8000-123456789abc'),
    idempotency_key: keyField('order-17-payment'),
    status: paymentStatus,
    amount_minor: amountMinor,
    currency: currencyCode,
    method: z.literal('card').meta({ description: 'The payment method.', example: 'card' }),
    customer_id: z.uuid().nullable().meta({
      description: 'The customer who pays, if you named one.',
      example: '0198f6f0-0c05-7000-8000-123456789abc',
    }),
    merchant_id: z.uuid().nullable().meta({
      description: 'The merchant on whose behalf you accept the payment, if you named one.',
      example: '0198f6f3-3c11-7000-8000-123456789abc',
    }),
    description: z
      .string()
      .nullable()
      .meta({ description: 'A description of your own.', example: 'Order 17' }),
    return_url: z.string().nullable().meta({
      description: 'Where the buyer returns after 3-D Secure.',
      example: 'https://shop.example/orders/17',
    }),
    amount_capturable_minor: amount('The amount that is held and can be captured.', 1000),
    amount_captured_minor: amount('The amount that was captured.', 0),
    amount_refunded_minor: amount('The amount that was refunded.', 0),
    amount_refund_pending_minor: amount(
      'The amount of `pending` refunds. It cannot be refunded again unless they fail.',
      0,
    ),
    processor: z
      .string()
      .meta({ description: 'The processor that moves the money.', example: PAYMENTS.provider }),
    processor_reference: z
      .string()
      .nullable()
      .meta({ description: 'The payment at the processor.', example: PAYMENTS.examples.payment }),
    client_secret: z.string().nullable().meta({
      description:
        "The secret for the processor's front end while the buyer has to act (`requires_action`); otherwise null.",
      example: null,
    }),
    failure: z
      .object({
        code: z.string().meta({ description: 'An error code of the API.', example: 'payment_declined' }),
        message: z
          .string()
          .meta({ description: 'A description for people.', example: 'Your card was declined.' }),
        decline_code: z
          .string()
          .nullish()
          .meta({ description: "The bank's reason, if it gave one.", example: 'insufficient_funds' }),
      })
      .meta({ id: 'PaymentFailure', description: 'Why a payment, or its last attempt, failed.' })
      .nullable()
      .meta({
        description:
          "Why the payment failed. While it is `requires_action`, why the buyer's last attempt failed; while it is `authorized`, why the last capture or cancellation failed. Otherwise null.",
        example: null,
      }),
    cancellation_reason: z
      .string()
      .nullable()
      .meta({ description: 'Why it was canceled, if a reason was given.', example: 'requested_by_customer' }),
    capture_before: timestamp.nullable().meta({
      description: 'When the hold expires. Capture the payment before this time.',
      example: '2026-11-27T10:15:30.000000Z',
    }),
    authorized_at: timestamp.nullable().meta({ description: 'When the money was held.' }),
    captured_at: timestamp.nullable().meta({ description: 'When the money was captured.' }),
    canceled_at: timestamp.nullable().meta({ description: 'When the hold was released.' }),
    dispute: paymentDisputeSchema.nullable().meta({
      description: "The payment's latest dispute; null if there is none.",
      example: null,
    }),
    ...trailingFields('payments'),
  })
  .meta({ id: 'Payment', description: 'A payment: money that is held, captured and possibly refunded.' })

/** A payment's row, with `client_secret` sealed. */
export type Payment = z.output<typeof paymentSchema>

/**
 * A payment in events: without the secret, which is only for the buyer's browser, and without the pending refund
 * amount, because refunds have their own events.
 */
export const paymentEventSchema = paymentSchema
  .omit({ client_secret: true, amount_refund_pending_minor: true })
  .meta({
    id: 'PaymentEventData',
    description: 'The payment as it was then. In an event about a dispute, `dispute` is that dispute.',
  })

/** The events of payments: the name after `payment.`, and the description. */
export const PAYMENT_EVENTS = {
  created: 'A payment was created; its authorization is in progress.',
  recovered: 'A payment was lost here and made again from the record of the processor.',
  requires_action: 'The buyer has to act.',
  authorized: 'The money is held.',
  authorization_failed: "The buyer's attempt failed; another may follow.",
  capture_expiring: 'The hold expires within a day.',
  captured: 'The money was captured.',
  capture_failed: 'A capture failed; the payment is unchanged.',
  canceled: 'The hold was released, or the payment was canceled before it was authorized.',
  cancel_failed: 'A cancellation failed; the payment is unchanged.',
  failed: 'The authorization failed; this is final.',
  disputed: "The buyer's bank disputes the payment, or inquires about it.",
  dispute_won: 'A dispute was won; the money that was taken for it is yours again.',
  dispute_lost: 'A dispute was lost; an appeal may still win it.',
  dispute_closed: 'An inquiry was closed, or a dispute was prevented.',
} as const

// The definition of the resource `payment`, and its comparison with the processor's payment.
import { z } from 'zod'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { moneyText } from '#core/money.ts'
import { checksOfPayments } from '../audit/payments.ts'
import { AMOUNT_SIDE, sameAmount, type Difference } from '../reconciliation/side.ts'
import { wasJustMadeAgain, type Resource } from '../resource.ts'
import { PAYMENT_EVENTS, paymentEventSchema } from './payment.ts'

const { status, amount_minor, ...others } = AMOUNT_SIDE

const paymentSide = z.object({
  status,
  amount_minor,
  amount_capturable_minor: z
    .int()
    .meta({ description: 'The amount that is held; for payments only.', example: 0 }),
  amount_captured_minor: z
    .int()
    .meta({ description: 'The amount that was captured; for payments only.', example: 1000 }),
  amount_refunded_minor: z.int().nullable().meta({
    description:
      'The amount that was refunded; for payments only. Ours: succeeded refunds. Theirs: all refunds that have not failed.',
    example: 0,
  }),
  amount_refund_reserved_minor: z.int().optional().meta({
    description:
      'The amount reserved by refunds that are in progress or have succeeded here; for payments only.',
    example: 0,
  }),
  ...others,
})

export type PaymentSide = z.output<typeof paymentSide>

export const paymentResource = {
  table: 'payments',
  view: paymentEventSchema,
  events: PAYMENT_EVENTS,
  transfer_kinds: ['capture'],
  under_way: { open: (sql) => sql`p.open`, awaits_provider: wasJustMadeAgain },
  at_provider: {
    scope: 'payments:read',
    provider: 'processor',
    reference: 'processor_reference',
    side: paymentSide,
    isRedundant: paymentIsRedundant,
    difference: differenceOfPayments,
    inWords: describeRefunds,
    closesDrift: closesDriftOfPayment,
    agreeing_statuses: {
      // After a declined card the processor waits for another card.
      requires_action: ['requires_action', 'failed'],
      processing: ['requires_action'],
      authorized: ['authorized'],
      captured: ['captured'],
      // A failed and a canceled payment both hold no money.
      canceled: ['canceled', 'failed'],
      failed: ['failed', 'canceled'],
    },
  },
  checks: checksOfPayments,
} as const satisfies Resource

/** Differences of the capturable, captured and refunded amounts. */
function differenceOfPayments(ours: PaymentSide, theirs: PaymentSide): Difference | null {
  if (ours.status === 'captured' && theirs.amount_captured_minor !== ours.amount_captured_minor)
    return { detail: 'the captured amounts differ', transient: false }
  if (ours.status === 'authorized' && theirs.amount_capturable_minor !== ours.amount_capturable_minor)
    return { detail: 'the amounts that can be captured differ', transient: false }
  // Compares only the total of refunds, because each refund has its own notification.
  return refundsAgree(ours, theirs) ? null : { detail: describeRefunds(ours, theirs), transient: true }
}

// The processor's total includes pending refunds. It may lack refunds that are only reserved here, so every total from
// the refunded to the reserved amount agrees.
function refundsAgree(ours: PaymentSide, theirs: PaymentSide): boolean {
  const { amount_refunded_minor: refunded, amount_refund_reserved_minor: reserved } = ours
  const { amount_refunded_minor: there } = theirs
  if (refunded === null || reserved === undefined || there === null) return true
  return refunded <= there && there <= reserved
}

/** A text with the totals of refunds on both sides; null if the processor did not report its total. */
function describeRefunds(ours: PaymentSide, theirs: PaymentSide): string | null {
  if (theirs.amount_refunded_minor === null) return null
  const refunded = moneyText(theirs.amount_refunded_minor, theirs.currency)
  const here = moneyText(ours.amount_refunded_minor ?? 0, ours.currency)
  const reserved = moneyText(ours.amount_refund_reserved_minor ?? 0, ours.currency)
  return `the processor has refunded ${refunded}; here ${here} is refunded and ${reserved} reserved`
}

/**
 * The condition under which two sides that agree close their drift. While refunds are in progress here, a range of
 * totals at the processor counts as agreement, which could hide a difference. A drift of the total therefore stays
 * open until these refunds are settled.
 */
function closesDriftOfPayment(sql: Sql | Tx, ours: PaymentSide): Fragment {
  const settled = ours.amount_refunded_minor === ours.amount_refund_reserved_minor
  return sql`
    (${settled} or coalesce((theirs ->> 'amount_refunded_minor')::bigint
      between (ours ->> 'amount_refunded_minor')::bigint and (ours ->> 'amount_refund_reserved_minor')::bigint, true))`
}

/**
 * The condition under which a report adds nothing: a report of an authorization when the same amount is capturable or
 * the payment was captured, and a report of a capture or cancellation that is settled already.
 */
function paymentIsRedundant(sql: Sql | Tx): Fragment {
  return sql`
    ${sameAmount(sql)} and case reported.status
      when 'authorized' then r.status = 'captured'
        or (r.status in ('authorized', 'capturing', 'canceling')
          and r.amount_capturable_minor = reported.status_amount_minor)
      when 'captured' then r.status = 'captured' and r.amount_captured_minor = reported.status_amount_minor
      when 'canceled' then r.status = 'canceled' and r.cancellation_reason is not distinct from reported.reason
      else false end`
}

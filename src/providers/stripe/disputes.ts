// Stripe's disputes in our words, each answer checked before it is believed.
import type { Stripe } from 'stripe'
import type { ProcessorDispute } from '../disputes.ts'
import { assertAnswer, isAmount, isId } from './answers.ts'
import { DISPUTE_STATUS } from './statuses.ts'

export function toDispute(dispute: Stripe.Dispute, reference: string): ProcessorDispute {
  const stands = DISPUTE_STATUS.get(dispute.status)
  // Disputes of some methods begin with `du_`, those of others with `dp_`.
  assertAnswer(
    dispute.object === 'dispute' && (isId(dispute.id, 'du_') || isId(dispute.id, 'dp_')),
    'not a dispute',
  )
  assertAnswer(dispute.id === reference, 'another dispute than asked for')
  assertAnswer(stands !== undefined, 'a dispute in a status that we do not know')
  assertAnswer(
    isAmount(dispute.amount) && dispute.amount > 0 && typeof dispute.currency === 'string',
    'a dispute without an amount',
  )
  assertAnswer(isAmount(dispute.created), 'a dispute that does not say when it was opened')
  assertAnswer(Array.isArray(dispute.balance_transactions), 'a dispute that does not say what moved')
  const payment = dispute.payment_intent
  const due_by = dispute.evidence_details?.due_by
  return {
    reference: dispute.id,
    payment_reference: typeof payment === 'string' ? payment : (payment?.id ?? null),
    ...stands,
    reason: dispute.reason ?? null,
    amount_minor: dispute.amount,
    currency: dispute.currency.toUpperCase(),
    // Stripe says 0 where nothing can be answered.
    evidence_due_by: due_by ? isoOf(due_by) : null,
    opened_at: isoOf(dispute.created),
    movements: dispute.balance_transactions
      .filter(({ amount }) => amount !== 0)
      // What was taken comes before what was given back in the same second.
      .toSorted((a, b) => a.created - b.created || a.amount - b.amount)
      .map((each) => toMovement(each, dispute)),
  }
}

/** Its `amount`, not its `net`: the fee is between the platform and Stripe. */
function toMovement(
  { id, object, amount, currency }: Stripe.BalanceTransaction,
  dispute: Stripe.Dispute,
): ProcessorDispute['movements'][number] {
  assertAnswer(object === 'balance_transaction' && isId(id, 'txn_'), 'not a balance transaction')
  assertAnswer(Number.isSafeInteger(amount), 'a balance transaction without an amount')
  return {
    reference: id,
    kind: amount < 0 ? 'dispute_withdrawn' : 'dispute_reinstated',
    // Where Stripe settles in another currency than that of the payment, it moved what the dispute is about.
    amount_minor: currency === dispute.currency ? Math.abs(amount) : dispute.amount,
  }
}

function isoOf(seconds: number): string {
  return new Date(seconds * 1000).toISOString()
}

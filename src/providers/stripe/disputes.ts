// Validates Stripe's disputes and converts them.
import type { Stripe } from 'stripe'
import type { ProcessorDispute } from '../disputes.ts'
import { assertAnswer, isAmount, isId } from './answers.ts'
import { DISPUTE_STATUS } from './statuses.ts'

/** Converts a dispute. `reference`: the expected id. Throws NoAnswer if the answer is invalid. */
export function toDispute(dispute: Stripe.Dispute, reference: string): ProcessorDispute {
  const state = DISPUTE_STATUS.get(dispute.status)
  // Disputes of some methods begin with `du_`, those of others with `dp_`.
  assertAnswer(
    dispute.object === 'dispute' && (isId(dispute.id, 'du_') || isId(dispute.id, 'dp_')),
    'not a dispute',
  )
  assertAnswer(dispute.id === reference, 'not the requested dispute')
  assertAnswer(state !== undefined, 'a dispute with an unknown status')
  assertAnswer(
    isAmount(dispute.amount) && dispute.amount > 0 && typeof dispute.currency === 'string',
    'a dispute without an amount',
  )
  assertAnswer(isAmount(dispute.created), 'a dispute without a creation time')
  assertAnswer(Array.isArray(dispute.balance_transactions), 'a dispute without balance transactions')
  const payment = dispute.payment_intent
  const due_by = dispute.evidence_details?.due_by
  return {
    reference: dispute.id,
    payment_reference: typeof payment === 'string' ? payment : (payment?.id ?? null),
    ...state,
    reason: dispute.reason ?? null,
    amount_minor: dispute.amount,
    currency: dispute.currency.toUpperCase(),
    // Stripe sends 0 if no response is possible.
    evidence_due_by: due_by ? isoOf(due_by) : null,
    opened_at: isoOf(dispute.created),
    movements: dispute.balance_transactions
      .filter(({ amount }) => amount !== 0)
      // Of two movements in the same second, the withdrawal comes first.
      .toSorted((a, b) => a.created - b.created || a.amount - b.amount)
      .map((each) => toMovement(each, dispute)),
  }
}

/** A movement of a dispute. Uses `amount` and not `net`, which includes the fee between the platform and Stripe. */
function toMovement(
  { id, object, amount, currency }: Stripe.BalanceTransaction,
  dispute: Stripe.Dispute,
): ProcessorDispute['movements'][number] {
  assertAnswer(object === 'balance_transaction' && isId(id, 'txn_'), 'not a balance transaction')
  assertAnswer(Number.isSafeInteger(amount), 'a balance transaction without an amount')
  return {
    reference: id,
    kind: amount < 0 ? 'dispute_withdrawn' : 'dispute_reinstated',
    // If Stripe settles in another currency, the disputed amount is used.
    amount_minor: currency === dispute.currency ? Math.abs(amount) : dispute.amount,
  }
}

function isoOf(seconds: number): string {
  return new Date(seconds * 1000).toISOString()
}

// Refunds: create, settle, cancel.
import type { Call } from './call.ts'
import { formatMoney, refuseFraction } from './currencies.ts'
import { latestDisputeOf } from './disputes.ts'
import { recordEffect } from './effects.ts'
import { recordS, type Engine } from './engine.ts'
import { invalidState, resourceMissing, parameterRefused, requestRefused } from './errors.ts'
import { emit } from './events.ts'
import { stripeId } from './ids.ts'
import { requireObject, listOf, type Page } from './lists.ts'
import { methodOf } from './methods.ts'
import { amountOf, metadataOf, oneOf, stringOf } from './params.ts'
import type { Params } from './parse.ts'
import { render } from './render.ts'
import { save } from './save.ts'
import type { Charge, Refund } from './versions.ts'

const REASONS = ['duplicate', 'fraudulent', 'requested_by_customer'] as const
const FAILURE_REASON = 'expired_or_canceled_card'

/** Finds a refund. Throws a 404 for an unknown id. */
export function findRefund(engine: Engine, id: string): Refund {
  return requireObject(engine.store.refunds, 'refund', id)
}

/** Refunds a payment intent or a charge. Default amount: the unrefunded rest. */
export function createRefund(engine: Engine, call: Call, params: Params): Refund {
  const reason = oneOf(params, 'reason', REASONS)
  const metadata = metadataOf(params, {})
  const requested = amountOf(params, 'amount')
  const charge = chargeToRefund(engine, params)
  const { currency } = charge
  const refundable = charge.amount - charge.amount_refunded
  const amount = requested ?? refundable
  if (requested !== null) refuseFraction(requested, currency, 'amount')
  if (refundable === 0) {
    const message = `Charge ${charge.id} has already been refunded.`
    throw requestRefused('charge_already_refunded', undefined, message)
  }
  if (amount > refundable) {
    const limit =
      charge.amount_refunded === 0
        ? `charge amount (${formatMoney(refundable, currency)})`
        : `unrefunded amount on charge (${formatMoney(refundable, currency)})`
    const message = `Refund amount (${formatMoney(amount, currency)}) is greater than ${limit}`
    throw requestRefused(null, 'amount', message)
  }

  const behavior = methodOf(charge.method.token).refund
  const refund = save(engine, {
    ...newRefund(engine, charge, amount),
    reason,
    metadata,
    status: behavior === 'pending' ? 'pending' : 'succeeded',
    balance_transaction: stripeId('txn_3'),
  })
  const refunded = save(engine, { ...charge, amount_refunded: charge.amount_refunded + amount })
  const { payment_intent } = charge
  recordEffect(engine, call, 'refund', {
    payment_intent,
    refund: refund.id,
    amount,
    currency,
    metadata,
  })
  emit(engine, call, 'refund.created', refund)
  emit(engine, call, 'charge.refunded', refunded, charge)
  return refund
}

export function updateRefund(engine: Engine, call: Call, refund: Refund, params: Params): Refund {
  const updated = save(engine, { ...refund, metadata: metadataOf(params, refund.metadata) })
  emit(engine, call, 'refund.updated', updated, refund)
  return updated
}

/** Cancels a refund. Only possible in `requires_action`, as at Stripe. */
export function cancelRefund(engine: Engine, call: Call, refund: Refund): Refund {
  if (refund.status !== 'requires_action') {
    const message = `This refund cannot be canceled because it has a status of ${refund.status}. Only a refund with a status of requires_action may be canceled.`
    throw requestRefused(null, undefined, message)
  }
  return settleRefund(engine, call, refund, 'canceled', 'merchant_request')
}

/** Sets the final status of a refund. A succeeded refund may still fail; a failed refund stays failed. */
export function settleRefund(
  engine: Engine,
  call: Call,
  refund: Refund,
  status: Refund['status'],
  failure_reason: string | null,
): Refund {
  const isFinal = refund.status === 'failed' || refund.status === 'canceled'
  if (isFinal || refund.status === status)
    throw parameterRefused(`This refund has a status of ${refund.status}.`, 'status')
  const isReturned = status === 'failed' || status === 'canceled'
  const settled = save(engine, {
    ...refund,
    status,
    failure_reason: isReturned ? (failure_reason ?? FAILURE_REASON) : null,
    failure_balance_transaction: isReturned ? stripeId('txn_3') : null,
  })
  if (isReturned) {
    const { payment_intent, amount, currency, metadata } = refund
    const charge = engine.store.charges.byId.get(refund.charge)!
    save(engine, { ...charge, amount_refunded: charge.amount_refunded - amount })
    recordEffect(engine, call, 'refund_failed', {
      payment_intent,
      refund: refund.id,
      amount,
      currency,
      metadata,
    })
  }
  emit(engine, call, 'refund.updated', settled, refund)
  if (status === 'failed') emit(engine, call, 'refund.failed', settled)
  emit(engine, call, 'charge.refund.updated', settled, refund)
  return settled
}

/** A page of refunds, newest first. Filters: `payment_intent`, `charge` and `created`. */
export function listRefunds(engine: Engine, params: Params): Page {
  const { refunds, childIdsOf } = engine.store
  const payment_intent = stringOf(params, 'payment_intent')
  const ids = payment_intent === null ? refunds.ids : (childIdsOf.get(payment_intent) ?? [])
  return listOf(engine, params, '/v1/refunds', { ids, byId: refunds.byId }, { equal: ['charge'] })
}

/** With `release_refunds`: reports a released hold as a refund. No money moves. */
export function releaseAsRefund(
  engine: Engine,
  call: Call,
  charge: Charge,
  amount: number,
  reason: string | null,
): void {
  if (!engine.release_refunds) return
  emit(
    engine,
    call,
    'refund.created',
    save(engine, { ...newRefund(engine, charge, amount), status: 'succeeded', reason }),
  )
}

function chargeToRefund(engine: Engine, params: Params): Charge {
  const { store } = engine
  const intentId = stringOf(params, 'payment_intent')
  const chargeId = stringOf(params, 'charge')
  if (intentId === null && chargeId === null) {
    throw parameterRefused(
      'One of the following params should be provided for this request: payment_intent or charge.',
      undefined,
      'parameter_missing',
    )
  }
  const intent = store.intents.byId.get(intentId ?? store.charges.byId.get(chargeId!)?.payment_intent ?? '')
  if (!intent)
    throw intentId === null
      ? resourceMissing(404, 'charge', chargeId!, 'charge')
      : resourceMissing(404, 'payment_intent', intentId, 'payment_intent')
  const charge = store.charges.byId.get(chargeId ?? intent.latest_charge ?? '')
  const dispute = charge && latestDisputeOf(engine, charge.id)
  if (dispute && dispute.movements.length > 0 && dispute.status !== 'won')
    throw requestRefused(
      'charge_disputed',
      undefined,
      `Charge ${dispute.charge} has been charged back; cannot issue a refund.`,
    )
  if (charge?.status === 'succeeded' && charge.captured) return charge
  const reason_text =
    intent.status === 'requires_capture'
      ? `This uncaptured Charge was created by a PaymentIntent (${intent.id}). You must cancel the PaymentIntent to reverse the authorization instead of refunding the Charge directly.`
      : `This PaymentIntent (${intent.id}) does not have a successful charge to refund.`
  throw invalidState(reason_text, render(intent, engine.pages_url))
}

function newRefund(engine: Engine, charge: Charge, amount: number): Refund {
  return {
    object: 'refund',
    id: stripeId('re_3'),
    created: recordS(engine),
    revision: 0,
    amount,
    currency: charge.currency,
    charge: charge.id,
    payment_intent: charge.payment_intent,
    reason: null,
    metadata: {},
    status: 'pending',
    failure_reason: null,
    balance_transaction: null,
    failure_balance_transaction: null,
  }
}

// Payment intents: create, update, confirm, capture, cancel, expire.
import { EXPIRY_CALL, type Call } from './call.ts'
import { authorize, challenge, decline, settleCharge } from './confirmation.ts'
import { refuseFraction } from './currencies.ts'
import { findChange } from './due-changes.ts'
import { recordEffect } from './effects.ts'
import { recordS, type Engine } from './engine.ts'
import { invalidState, parameterRefused } from './errors.ts'
import { emit } from './events.ts'
import { stripeId } from './ids.ts'
import {
  automaticOf,
  checkedAmount,
  checkReturnUrl,
  checkExclusiveParams,
  methodOfParams,
} from './intent-params.ts'
import { requireObject } from './lists.ts'
import { AUTHENTICATION_REQUIRED, findMethod } from './methods.ts'
import { amountOf, booleanOf, metadataOf, oneOf, required, stringOf, stringsOf } from './params.ts'
import type { Params } from './parse.ts'
import { releaseAsRefund } from './refunds.ts'
import { render } from './render.ts'
import { save } from './save.ts'
import { scheduleAt, unschedule } from './schedule.ts'
import type { Intent } from './versions.ts'

const CAPTURE_METHODS = ['automatic', 'automatic_async', 'manual'] as const
const CANCELLATION_REASONS = ['duplicate', 'fraudulent', 'requested_by_customer', 'abandoned'] as const
const CONFIRMABLE: Intent['status'][] = [
  'requires_payment_method',
  'requires_confirmation',
  'requires_action',
]
const CANCELABLE: Intent['status'][] = [...CONFIRMABLE, 'requires_capture']

/** Finds a payment intent. Throws a 404 for an unknown id. */
export function findIntent(engine: Engine, id: string): Intent {
  return requireObject(engine.store.intents, 'payment_intent', id, 'intent')
}

export function createIntent(engine: Engine, call: Call, params: Params): Intent {
  checkExclusiveParams(params)
  const currency = required(stringOf(params, 'currency'), 'currency')
  const amount = checkedAmount(required(amountOf(params, 'amount'), 'amount'), currency)
  const confirm = booleanOf(params, 'confirm')
  const types = stringsOf(params, 'allowed_payment_method_types')
  const id = stripeId('pi_3')
  const draft: Intent = {
    object: 'payment_intent',
    id,
    created: recordS(engine),
    revision: 0,
    amount,
    amount_capturable: 0,
    amount_received: 0,
    currency,
    status: 'requires_payment_method',
    capture_method: oneOf(params, 'capture_method', CAPTURE_METHODS) ?? 'automatic_async',
    client_secret: `${id}_secret_${stripeId('', 25)}`,
    customer: stringOf(params, 'customer'),
    description: stringOf(params, 'description'),
    receipt_email: stringOf(params, 'receipt_email'),
    statement_descriptor: stringOf(params, 'statement_descriptor'),
    statement_descriptor_suffix: stringOf(params, 'statement_descriptor_suffix'),
    transfer_group: stringOf(params, 'transfer_group'),
    setup_future_usage: stringOf(params, 'setup_future_usage'),
    automatic: types.length > 0 ? null : automaticOf(params),
    method_types: types.length > 0 ? types : ['card', 'link'],
    method: methodOfParams(params),
    return_url: stringOf(params, 'return_url'),
    latest_charge: null,
    error: null,
    canceled_at: null,
    cancellation_reason: null,
    metadata: metadataOf(params, {}),
  }
  if (draft.method) draft.status = 'requires_confirmation'
  if (confirm) checkReturnUrl(draft)

  const intent = save(engine, draft)
  emit(engine, call, 'payment_intent.created', intent)
  return confirm ? confirmIntent(engine, call, intent, params) : intent
}

/**
 * Updates `metadata`, `description`, `receipt_email`, and, before confirmation, `amount`, `currency` and
 * `payment_method`.
 */
export function updateIntent(engine: Engine, intent: Intent, params: Params): Intent {
  const unconfirmed = CONFIRMABLE.includes(intent.status)
  for (const name of ['amount', 'currency', 'payment_method', 'capture_method']) {
    if (params[name] !== undefined && !unconfirmed) throw stateRefused(engine, intent, 'updated', CONFIRMABLE)
  }
  const currency = stringOf(params, 'currency') ?? intent.currency
  const method = methodOfParams(params) ?? intent.method
  return save(engine, {
    ...intent,
    currency,
    amount: checkedAmount(amountOf(params, 'amount') ?? intent.amount, currency),
    capture_method: oneOf(params, 'capture_method', CAPTURE_METHODS) ?? intent.capture_method,
    method,
    status: intent.status === 'requires_payment_method' && method ? 'requires_confirmation' : intent.status,
    description: stringOf(params, 'description') ?? intent.description,
    receipt_email: stringOf(params, 'receipt_email') ?? intent.receipt_email,
    metadata: metadataOf(params, intent.metadata),
  })
}

/**
 * Confirms the payment intent: its status becomes `requires_capture`, `succeeded` or `requires_action`. A decline
 * sets `requires_payment_method` and throws a 402.
 */
export function confirmIntent(engine: Engine, call: Call, intent: Intent, params: Params): Intent {
  if (!CONFIRMABLE.includes(intent.status)) {
    const reason =
      intent.status === 'succeeded'
        ? 'it has already succeeded after being previously confirmed'
        : `it has a status of ${intent.status}`
    throw invalidState(
      `You cannot confirm this PaymentIntent because ${reason}.`,
      render(intent, engine.pages_url),
    )
  }
  const method = methodOfParams(params) ?? intent.method
  if (!method) {
    const message = `You cannot confirm this PaymentIntent because it's missing a payment method. Update the PaymentIntent with a payment method and then confirm it again.`
    throw invalidState(message, render(intent, engine.pages_url))
  }
  const capture_method = oneOf(params, 'capture_method', CAPTURE_METHODS) ?? intent.capture_method
  const confirmed: Intent = {
    ...intent,
    method,
    capture_method,
    return_url: stringOf(params, 'return_url') ?? intent.return_url,
    error: null,
  }
  // Only an API request must name a `return_url`. A buyer who confirms in a browser is on the page to return to.
  if (call.source === 'api') checkReturnUrl(confirmed)

  const test = findMethod(method.token)!
  if (test.decline) return decline(engine, call, confirmed, method, test.decline)
  if (!test.authenticates) return authorize(engine, call, confirmed, method)
  if (booleanOf(params, 'error_on_requires_action') || (params['off_session'] ?? 'false') !== 'false') {
    return decline(engine, call, confirmed, method, AUTHENTICATION_REQUIRED)
  }
  return challenge(engine, call, confirmed)
}

/** Captures an amount. The rest of the authorization is released. */
export function captureIntent(engine: Engine, call: Call, intent: Intent, params: Params): Intent {
  const requested = amountOf(params, 'amount_to_capture')
  if (intent.status !== 'requires_capture')
    throw stateRefused(engine, intent, 'captured', ['requires_capture'])
  const amount = requested ?? intent.amount_capturable
  if (requested !== null) refuseFraction(requested, intent.currency, 'amount_to_capture')
  if (amount > intent.amount_capturable) {
    throw parameterRefused(
      'The requested capture amount is greater than the authorized amount.',
      'amount_to_capture',
      'amount_too_large',
    )
  }
  const metadata = metadataOf(params, intent.metadata)
  unschedule(engine, 'hold', intent.id)
  const charge = engine.store.charges.byId.get(intent.latest_charge!)!
  const captured = save(engine, {
    ...charge,
    captured: true,
    capture_before: null,
    amount_captured: amount,
    amount_refunded: charge.amount - amount,
  })
  const succeeded = save(engine, {
    ...intent,
    metadata,
    status: 'succeeded',
    amount_capturable: 0,
    amount_received: amount,
  })
  recordEffect(engine, call, 'capture', {
    payment_intent: intent.id,
    amount,
    currency: intent.currency,
    metadata,
  })
  if (amount < charge.amount) releaseAsRefund(engine, call, captured, charge.amount - amount, null)
  emit(engine, call, 'charge.captured', captured, charge)
  emit(engine, call, 'payment_intent.succeeded', succeeded)
  settleCharge(engine, call, captured)
  return succeeded
}

export function cancelIntent(engine: Engine, call: Call, intent: Intent, params: Params): Intent {
  const reason = oneOf(params, 'cancellation_reason', CANCELLATION_REASONS)
  if (!CANCELABLE.includes(intent.status)) throw stateRefused(engine, intent, 'canceled', CANCELABLE)
  return release(engine, call, intent, reason)
}

/** Expires the hold. Refuses a payment intent without a hold. */
export function expireIntent(engine: Engine, intent: Intent): Intent {
  if (intent.status !== 'requires_capture')
    throw stateRefused(engine, intent, 'expired', ['requires_capture'])
  return release(engine, EXPIRY_CALL, intent, 'automatic')
}

/** Expires the hold of a payment intent at its scheduled time. */
export function expireScheduled(engine: Engine, id: string): void {
  const intent = findIntent(engine, id)
  if (intent.status === 'requires_capture') expireIntent(engine, intent)
}

/** Schedules the expiries that the journal lacks. */
export function resumeHolds(engine: Engine): void {
  const { intents, charges } = engine.store
  for (const { id, status, latest_charge } of intents.byId.values()) {
    const capture_before =
      status === 'requires_capture' ? charges.byId.get(latest_charge!)?.capture_before : null
    // `capture_before` is rounded down to seconds: a scheduled expiry is more exact.
    if (capture_before && findChange(engine.schedule, 'hold', id) === undefined)
      scheduleAt(engine, { kind: 'hold', id, due_ms: capture_before * 1000 })
  }
}

function release(engine: Engine, call: Call, intent: Intent, reason: Intent['cancellation_reason']): Intent {
  const charge =
    intent.status === 'requires_capture' ? engine.store.charges.byId.get(intent.latest_charge!)! : null
  unschedule(engine, 'hold', intent.id)
  const canceled = save(engine, {
    ...intent,
    status: 'canceled',
    amount_capturable: 0,
    canceled_at: recordS(engine),
    cancellation_reason: reason,
  })
  if (charge) {
    const { currency, metadata } = intent
    const released = save(engine, { ...charge, capture_before: null, amount_refunded: charge.amount })
    recordEffect(engine, call, 'cancel', {
      payment_intent: intent.id,
      amount: charge.amount,
      currency,
      metadata,
    })
    releaseAsRefund(
      engine,
      call,
      released,
      charge.amount,
      call.source === 'expiry' ? 'expired_uncaptured_charge' : null,
    )
    if (call.source === 'expiry') emit(engine, call, 'charge.expired', released, charge)
    emit(engine, call, 'charge.refunded', released, charge)
  }
  emit(engine, call, 'payment_intent.canceled', canceled)
  return canceled
}

function stateRefused(engine: Engine, intent: Intent, done: string, allowed: string[]): Error {
  const message = `This PaymentIntent could not be ${done} because it has a status of ${intent.status}. Only a PaymentIntent with one of the following statuses may be ${done}: ${allowed.join(', ')}.`
  return invalidState(message, render(intent, engine.pages_url))
}

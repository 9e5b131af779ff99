// Confirms payment intents: with an authorization, a decline or a challenge for the buyer.
import type { Call } from './call.ts'
import { scheduleDispute } from './disputes.ts'
import { recordEffect } from './effects.ts'
import { nowMs, recordS, type Engine } from './engine.ts'
import { invalidState, Refusal } from './errors.ts'
import { emit } from './events.ts'
import { stripeId } from './ids.ts'
import type { Decline } from './methods.ts'
import { render, renderMethod } from './render.ts'
import { save } from './save.ts'
import { scheduleAt } from './schedule.ts'
import type { Charge, Intent, Method, PaymentError } from './versions.ts'

const AUTHENTICATION_FAILED =
  'The provided PaymentMethod has failed authentication. You can provide payment_method_data or a new PaymentMethod to attempt to fulfill this PaymentIntent again.'

/** Authorizes the amount. Captures it at once unless `capture_method` is manual. */
export function authorize(
  engine: Engine,
  call: Call,
  intent: Intent,
  method: Method,
  authenticated = false,
): Intent {
  const { id, amount, currency, metadata } = intent
  const manual = intent.capture_method === 'manual'
  const until_ms = nowMs(engine) + engine.capture_window_ms
  const charge = save(engine, {
    ...newCharge(engine, intent, method),
    status: 'succeeded',
    authenticated,
    captured: !manual,
    amount_captured: manual ? 0 : amount,
    capture_before: manual ? Math.floor(until_ms / 1000) : null,
  })
  const authorized = save(engine, {
    ...intent,
    method,
    error: null,
    latest_charge: charge.id,
    status: manual ? 'requires_capture' : 'succeeded',
    amount_capturable: manual ? amount : 0,
    amount_received: manual ? 0 : amount,
  })
  recordEffect(engine, call, 'authorize', { payment_intent: id, amount, currency, metadata })
  emit(engine, call, 'charge.succeeded', charge)
  if (manual) {
    scheduleAt(engine, { kind: 'hold', id, due_ms: until_ms })
    emit(engine, call, 'payment_intent.amount_capturable_updated', authorized)
  } else {
    recordEffect(engine, call, 'capture', { payment_intent: id, amount, currency, metadata })
    emit(engine, call, 'payment_intent.succeeded', authorized)
    settleCharge(engine, call, charge)
  }
  return authorized
}

/** Adds the balance transaction of a captured charge, with an event of its own. */
export function settleCharge(engine: Engine, call: Call, charge: Charge): void {
  const settled = save(engine, { ...charge, balance_transaction: stripeId('txn_3') })
  emit(engine, call, 'charge.updated', settled, charge)
  scheduleDispute(engine, settled)
}

/** Saves the declined charge and throws a 402. */
export function decline(engine: Engine, call: Call, intent: Intent, method: Method, reason: Decline): never {
  const charge = save(engine, {
    ...newCharge(engine, intent, method),
    status: 'failed',
    failure: reason,
  })
  const failed = fail(engine, intent, { type: 'card_error', ...reason, charge: charge.id, method }, charge.id)
  emit(engine, call, 'charge.failed', charge)
  emit(engine, call, 'payment_intent.payment_failed', failed)
  const payment_method = renderMethod(method, intent.created, intent.customer)
  const payment_intent = render(failed, engine.pages_url)
  throw new Refusal(
    402,
    { type: 'card_error', ...reason, charge: charge.id, payment_intent, payment_method },
    { executed: true },
  )
}

/** Requires the buyer to authenticate. */
export function challenge(engine: Engine, call: Call, intent: Intent): Intent {
  const challenged = save(engine, { ...intent, status: 'requires_action' })
  emit(engine, call, 'payment_intent.requires_action', challenged)
  return challenged
}

/** Applies the result of the buyer's authentication. */
export function authenticate(
  engine: Engine,
  call: Call,
  intent: Intent,
  outcome: 'succeed' | 'fail',
): Intent {
  if (intent.status !== 'requires_action' || !intent.method) {
    throw invalidState(
      `This PaymentIntent has a status of ${intent.status}: it requires no authentication.`,
      render(intent, engine.pages_url),
    )
  }
  if (outcome === 'succeed') return authorize(engine, call, intent, intent.method, true)
  const error: PaymentError = {
    type: 'invalid_request_error',
    code: 'payment_intent_authentication_failure',
    message: AUTHENTICATION_FAILED,
    method: intent.method,
  }
  const failed = fail(engine, intent, error, intent.latest_charge)
  emit(engine, call, 'payment_intent.payment_failed', failed)
  return failed
}

function fail(engine: Engine, intent: Intent, error: PaymentError, latest_charge: string | null): Intent {
  return save(engine, {
    ...intent,
    status: 'requires_payment_method',
    method: null,
    error,
    latest_charge,
  })
}

function newCharge(engine: Engine, intent: Intent, method: Method): Charge {
  return {
    object: 'charge',
    id: stripeId('ch_3'),
    created: recordS(engine),
    revision: 0,
    payment_intent: intent.id,
    amount: intent.amount,
    amount_captured: 0,
    amount_refunded: 0,
    currency: intent.currency,
    status: 'failed',
    captured: false,
    customer: intent.customer,
    description: intent.description,
    metadata: intent.metadata,
    method,
    authenticated: false,
    capture_before: null,
    failure: null,
    balance_transaction: null,
    disputed: false,
  }
}

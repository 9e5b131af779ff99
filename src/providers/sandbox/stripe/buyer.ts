// Acts as the buyer of a payment, for hosts without a front end.
import { BROWSER_CALL } from './call.ts'
import { authenticate } from './confirmation.ts'
import type { Engine } from './engine.ts'
import { Refusal } from './errors.ts'
import { confirmIntent, findIntent } from './payment-intents.ts'

/** The cards that a buyer enters. */
const CARDS = { succeed: 'pm_card_visa', fail: 'pm_card_chargeDeclined' }

/**
 * Does what a payment intent waits for: a buyer whose card is known authenticates, and another one enters a card. A
 * decline is the outcome of `fail`. Refuses an intent that waits for no buyer.
 */
export function actAsBuyer(engine: Engine, id: string, outcome: 'succeed' | 'fail'): void {
  const intent = findIntent(engine, id)
  if (intent.status !== 'requires_payment_method' && intent.status !== 'requires_confirmation') {
    authenticate(engine, BROWSER_CALL, intent, outcome)
    return
  }
  try {
    confirmIntent(engine, BROWSER_CALL, intent, { payment_method: CARDS[outcome] })
  } catch (error) {
    if (!(error instanceof Refusal) || error.status !== 402) throw error
  }
}

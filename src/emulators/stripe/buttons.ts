// The buttons of the page: each is a form that redirects back to the page.
import { BANK_CALL, BROWSER_CALL, DASHBOARD_CALL } from '#providers/sandbox/stripe/call.ts'
import { closeDispute, DISPUTE_FINAL_STATUSES, findDispute } from '#providers/sandbox/stripe/disputes.ts'
import { parameterRefused, Refusal } from '#providers/sandbox/stripe/errors.ts'
import { findSession, SESSION_STATUSES, settleSession } from '#providers/sandbox/stripe/identity.ts'
import type { Params } from '#providers/sandbox/stripe/parse.ts'
import {
  cancelIntent,
  captureIntent,
  confirmIntent,
  expireIntent,
  findIntent,
} from '#providers/sandbox/stripe/payment-intents.ts'
import { findPayout, PAYOUT_FINAL_STATUSES, settlePayout } from '#providers/sandbox/stripe/payouts.ts'
import { createRefund, findRefund, settleRefund } from '#providers/sandbox/stripe/refunds.ts'
import { findTopup, settleTopup, TOPUP_FINAL_STATUSES } from '#providers/sandbox/stripe/topups.ts'
import { findTransfer, reverseTransfer } from '#providers/sandbox/stripe/transfers.ts'
import { buttonFields, faultButtons, problemPage, type ButtonFields } from '../shared/fault-page.ts'
import { sendPage } from '../shared/html.ts'
import { send, type Exchange } from '../shared/http.ts'
import { statusOf } from './control-parts.ts'
import type { Emulator } from './emulator.ts'
import { addFault, STRIPE_FAULT_TARGETS } from './faults.ts'

const REFUND_FINAL_STATUSES = ['succeeded', 'failed'] as const

const BUTTONS: Record<string, (emulator: Emulator, fields: ButtonFields) => unknown> = {
  confirm: ({ engine }, { id, value }) =>
    ignoreDecline(() =>
      confirmIntent(engine, BROWSER_CALL, findIntent(engine, id), { payment_method: value }),
    ),
  capture: ({ engine }, { id }) => captureIntent(engine, DASHBOARD_CALL, findIntent(engine, id), {}),
  cancel: ({ engine }, { id }) => cancelIntent(engine, DASHBOARD_CALL, findIntent(engine, id), {}),
  expire: ({ engine }, { id }) => expireIntent(engine, findIntent(engine, id)),
  refund: ({ engine }, { id }) => createRefund(engine, DASHBOARD_CALL, { payment_intent: id }),
  settle: ({ engine }, { id, value }) =>
    settleRefund(
      engine,
      DASHBOARD_CALL,
      findRefund(engine, id),
      statusOf({ status: value }, REFUND_FINAL_STATUSES),
      null,
    ),
  close_dispute: ({ engine }, { id, value }) =>
    closeDispute(
      engine,
      BANK_CALL,
      findDispute(engine, id),
      statusOf({ status: value }, DISPUTE_FINAL_STATUSES),
    ),
  settle_payout: ({ engine }, { id, value }) =>
    settlePayout(
      engine,
      BANK_CALL,
      findPayout(engine, id),
      statusOf({ status: value }, PAYOUT_FINAL_STATUSES),
    ),
  settle_topup: ({ engine }, { id, value }) =>
    settleTopup(engine, BANK_CALL, findTopup(engine, id), statusOf({ status: value }, TOPUP_FINAL_STATUSES)),
  settle_session: ({ engine }, { id, value }) =>
    settleSession(
      engine,
      DASHBOARD_CALL,
      findSession(engine, id),
      statusOf({ status: value }, SESSION_STATUSES),
    ),
  reverse: ({ engine }, { id, amount }) =>
    reverseTransfer(engine, DASHBOARD_CALL, findTransfer(engine, id), { amount }),
  ...faultButtons(addFault, STRIPE_FAULT_TARGETS),
  webhooks: ({ webhooks }, { value }) => webhooks?.change({ paused: value === 'pause' }),
}

/** Runs the action of a button and redirects to the page, or shows the reason of a refusal. */
export function pressButton(
  emulator: Emulator,
  name: string,
  body: Record<string, unknown>,
  _query: Params,
  { response }: Exchange,
): null {
  try {
    const button = Object.hasOwn(BUTTONS, name) ? BUTTONS[name] : undefined
    if (button === undefined) throw parameterRefused(`There is no button "${name}".`, undefined)
    button(emulator, buttonFields(body))
    send(response, 303, { location: '/' }, '')
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    sendPage(response, error.status, problemPage(error.message))
  }
  return null
}

// A declined card is an expected result of the button.
function ignoreDecline(confirm: () => unknown): void {
  try {
    confirm()
  } catch (error) {
    if (!(error instanceof Refusal) || error.status !== 402) throw error
  }
}

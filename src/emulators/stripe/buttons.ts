// The buttons of the page: each is a form that redirects back to the page.
import { BANK_CALL, BROWSER_CALL, DASHBOARD_CALL } from '../shared/call.ts'
import { statusOf } from './control-parts.ts'
import { closeDispute, DISPUTE_FINAL_STATUSES, findDispute } from './disputes.ts'
import type { Emulator } from './emulator.ts'
import { parameterRefused, Refusal } from './errors.ts'
import { addFault, STRIPE_FAULT_TARGETS } from './faults.ts'
import { buttonFields, faultButtons, problemPage, type ButtonFields } from '../shared/fault-page.ts'
import { sendPage } from '../shared/html.ts'
import { send, type Exchange } from '../shared/http.ts'
import { findSession, SESSION_STATUSES, settleSession } from './identity.ts'
import type { Params } from './parse.ts'
import { cancelIntent, captureIntent, confirmIntent, expireIntent, findIntent } from './payment-intents.ts'
import { findPayout, PAYOUT_FINAL_STATUSES, settlePayout } from './payouts.ts'
import { createRefund, findRefund, settleRefund } from './refunds.ts'
import { findTopup, settleTopup, TOPUP_FINAL_STATUSES } from './topups.ts'
import { findTransfer, reverseTransfer } from './transfers.ts'

const REFUND_FINAL_STATUSES = ['succeeded', 'failed'] as const

const BUTTONS: Record<string, (emulator: Emulator, fields: ButtonFields) => unknown> = {
  confirm: (emulator, { id, value }) =>
    ignoreDecline(() =>
      confirmIntent(emulator, BROWSER_CALL, findIntent(emulator, id), { payment_method: value }),
    ),
  capture: (emulator, { id }) => captureIntent(emulator, DASHBOARD_CALL, findIntent(emulator, id), {}),
  cancel: (emulator, { id }) => cancelIntent(emulator, DASHBOARD_CALL, findIntent(emulator, id), {}),
  expire: (emulator, { id }) => expireIntent(emulator, findIntent(emulator, id)),
  refund: (emulator, { id }) => createRefund(emulator, DASHBOARD_CALL, { payment_intent: id }),
  settle: (emulator, { id, value }) =>
    settleRefund(
      emulator,
      DASHBOARD_CALL,
      findRefund(emulator, id),
      statusOf({ status: value }, REFUND_FINAL_STATUSES),
      null,
    ),
  close_dispute: (emulator, { id, value }) =>
    closeDispute(
      emulator,
      BANK_CALL,
      findDispute(emulator, id),
      statusOf({ status: value }, DISPUTE_FINAL_STATUSES),
    ),
  settle_payout: (emulator, { id, value }) =>
    settlePayout(
      emulator,
      BANK_CALL,
      findPayout(emulator, id),
      statusOf({ status: value }, PAYOUT_FINAL_STATUSES),
    ),
  settle_topup: (emulator, { id, value }) =>
    settleTopup(
      emulator,
      BANK_CALL,
      findTopup(emulator, id),
      statusOf({ status: value }, TOPUP_FINAL_STATUSES),
    ),
  settle_session: (emulator, { id, value }) =>
    settleSession(
      emulator,
      DASHBOARD_CALL,
      findSession(emulator, id),
      statusOf({ status: value }, SESSION_STATUSES),
    ),
  reverse: (emulator, { id, amount }) =>
    reverseTransfer(emulator, DASHBOARD_CALL, findTransfer(emulator, id), { amount }),
  ...faultButtons(addFault, STRIPE_FAULT_TARGETS),
  webhooks: (emulator, { value }) => emulator.webhooks?.change({ paused: value === 'pause' }),
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

// The buttons of the page: each is a form of its own, and leads back to the page.
import { BROWSER, DASHBOARD } from '../shared/call.ts'
import type { Emulator } from './emulator.ts'
import { parameterRefused, Refusal } from './errors.ts'
import { addFault, PLACES } from './faults.ts'
import { faultButtons, problemPage, type ButtonFields } from '../shared/fault-page.ts'
import { sendPage } from '../shared/html.ts'
import { send, type Exchange } from '../shared/http.ts'
import type { Params } from './parse.ts'
import { cancelIntent, captureIntent, confirmIntent, expireIntent, findIntent } from './payment-intents.ts'
import { createRefund, findRefund, settleRefund } from './refunds.ts'

const BUTTONS: Record<string, (emulator: Emulator, fields: ButtonFields) => unknown> = {
  confirm: (emulator, { id, value }) =>
    declinedIsDone(() =>
      confirmIntent(emulator, BROWSER, findIntent(emulator, id), { payment_method: value }),
    ),
  capture: (emulator, { id }) => captureIntent(emulator, DASHBOARD, findIntent(emulator, id), {}),
  cancel: (emulator, { id }) => cancelIntent(emulator, DASHBOARD, findIntent(emulator, id), {}),
  expire: (emulator, { id }) => expireIntent(emulator, findIntent(emulator, id)),
  refund: (emulator, { id }) => createRefund(emulator, DASHBOARD, { payment_intent: id }),
  settle: (emulator, { id, value }) => {
    if (value !== 'succeeded' && value !== 'failed')
      throw parameterRefused('Invalid status: must be one of succeeded, failed', 'status')
    return settleRefund(emulator, DASHBOARD, findRefund(emulator, id), value, null)
  },
  ...faultButtons(addFault, PLACES),
  webhooks: (emulator, { value }) => emulator.webhooks?.change({ paused: value === 'pause' }),
}

/** Does what a button of the page says and shows the page again, or why it could not be done. */
export function pressButton(
  emulator: Emulator,
  name: string,
  body: Record<string, unknown>,
  _query: Params,
  { response }: Exchange,
): null {
  const text = (field: string) => (typeof body[field] === 'string' ? body[field] : '')
  try {
    const button = Object.hasOwn(BUTTONS, name) ? BUTTONS[name] : undefined
    if (button === undefined) throw parameterRefused(`There is no button "${name}".`, undefined)
    button(emulator, { id: text('id'), value: text('value'), place: text('place'), times: text('times') })
    send(response, 303, { location: '/' }, '')
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    sendPage(response, error.status, problemPage(error.message))
  }
  return null
}

// A card that is refused is what the button was pressed for.
function declinedIsDone(confirm: () => unknown): void {
  try {
    confirm()
  } catch (error) {
    if (!(error instanceof Refusal) || error.status !== 402) throw error
  }
}

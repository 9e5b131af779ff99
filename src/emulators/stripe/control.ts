// The controls under `/_emulator/`: the buyer, the dashboard, the clock, webhooks, faults and the record of effects.
import { BROWSER_CALL, DASHBOARD_CALL } from '#providers/sandbox/stripe/call.ts'
import { authenticate } from '#providers/sandbox/stripe/confirmation.ts'
import { DEADLINES, moveClock } from '#providers/sandbox/stripe/due.ts'
import { nowMs } from '#providers/sandbox/stripe/engine.ts'
import { errorBody, parameterRefused, Refusal, unknownUrl } from '#providers/sandbox/stripe/errors.ts'
import { findEvent } from '#providers/sandbox/stripe/events.ts'
import { parseForm, isParams, type Params } from '#providers/sandbox/stripe/parse.ts'
import {
  cancelIntent,
  captureIntent,
  confirmIntent,
  expireIntent,
  findIntent,
} from '#providers/sandbox/stripe/payment-intents.ts'
import { createRefund, findRefund, settleRefund } from '#providers/sandbox/stripe/refunds.ts'
import { render } from '#providers/sandbox/stripe/render.ts'
import { answerControls, faultControls, textOf, type EmulatorErrors } from '../shared/controls.ts'
import { document, sendPage } from '../shared/html.ts'
import { header, send, type Exchange } from '../shared/http.ts'
import { pressButton } from './buttons.ts'
import { ACCOUNT_CONTROLS } from './control-account.ts'
import { BALANCE_CONTROLS } from './control-balance.ts'
import { IDENTITY_CONTROLS } from './control-identity.ts'
import { asParams, statusOf, type StripeControl } from './control-parts.ts'
import { EFFECT_FILTERS, findEffects } from './effects.ts'
import type { Emulator } from './emulator.ts'
import { addFault } from './faults.ts'
import { authenticationPage } from './page.ts'

const SETTLED = ['succeeded', 'failed', 'canceled', 'requires_action', 'pending'] as const

const STRIPE_ERRORS: EmulatorErrors = {
  parameter: parameterRefused,
  unknownUrl,
  of: (status, message) =>
    new Refusal(
      status,
      { type: status < 500 ? 'invalid_request_error' : 'api_error', message },
      { executed: false },
    ),
  answerOf: (error) =>
    error instanceof Refusal ? { status: error.status, body: errorBody(error.error, null) } : null,
}

const CONTROLS = new Map<string, StripeControl>([
  // The buyer's browser.
  [
    'POST payment_intents/:id/confirm',
    ({ engine }, id, body) =>
      render(confirmIntent(engine, BROWSER_CALL, findIntent(engine, id), asParams(body)), engine.pages_url),
  ],
  [
    'GET payment_intents/:id/authenticate',
    ({ engine }, id, _body, _query, { response }) => {
      const intent = findIntent(engine, id)
      sendPage(response, 200, authenticationPage(intent), intent.return_url)
    },
  ],
  ['POST payment_intents/:id/authenticate', answerChallenge],

  // The acts of a person in Stripe's dashboard.
  [
    'POST payment_intents/:id/capture',
    ({ engine }, id, body) =>
      render(captureIntent(engine, DASHBOARD_CALL, findIntent(engine, id), asParams(body)), engine.pages_url),
  ],
  [
    'POST payment_intents/:id/cancel',
    ({ engine }, id, body) =>
      render(cancelIntent(engine, DASHBOARD_CALL, findIntent(engine, id), asParams(body)), engine.pages_url),
  ],
  [
    'POST refunds',
    ({ engine }, _id, body) => render(createRefund(engine, DASHBOARD_CALL, asParams(body)), engine.pages_url),
  ],

  // Expiry, bank decisions and the clock.
  [
    'POST payment_intents/:id/expire',
    ({ engine }, id) => render(expireIntent(engine, findIntent(engine, id)), engine.pages_url),
  ],
  ['POST refunds/:id/settle', settleRefundControl],
  ['POST clock', advanceClock],
  ['GET clock', ({ engine }) => ({ now_ms: nowMs(engine), offset_ms: engine.clock.offset_ms })],

  // Notifications.
  ['POST webhooks', changeWebhooks],
  ['GET webhooks', describeWebhooks],
  ['POST events/:id/send', sendEvent],

  // Faults, and the requests.
  ...faultControls(addFault, STRIPE_ERRORS),

  ...Object.entries(BALANCE_CONTROLS),
  ...Object.entries(IDENTITY_CONTROLS),
  ...Object.entries(ACCOUNT_CONTROLS),

  // The buttons of the page.
  ['POST page/:id', pressButton],

  // The record of effects.
  ['GET effects', showEffects],
])

/** Handles requests under `/_emulator/`. */
export async function answerControl(emulator: Emulator, exchange: Exchange): Promise<void> {
  await answerControls(emulator, exchange, { controls: CONTROLS, parseForm, errors: STRIPE_ERRORS })
}

/**
 * Applies the result of a challenge. The request body is JSON or a form. A form is answered with a redirect to the
 * `return_url`, or with a page if there is none.
 */
function answerChallenge(
  { engine }: Emulator,
  id: string,
  body: Record<string, unknown>,
  _query: Params,
  { request, response }: Exchange,
): unknown {
  const outcome = body['outcome'] ?? 'succeed'
  if (outcome !== 'succeed' && outcome !== 'fail')
    throw parameterRefused('Invalid outcome: must be one of succeed, fail', 'outcome')
  const intent = authenticate(engine, BROWSER_CALL, findIntent(engine, id), outcome)
  const isForm = header(request, 'content-type')?.startsWith('application/x-www-form-urlencoded')
  if (!isForm) return render(intent, engine.pages_url)
  if (intent.return_url === null) {
    sendPage(response, 200, document('Authentication', '<p>Thank you. You can close this page.</p>'))
    return null
  }
  const back = new URL(intent.return_url)
  back.searchParams.set('payment_intent', intent.id)
  back.searchParams.set('payment_intent_client_secret', intent.client_secret)
  back.searchParams.set('redirect_status', outcome === 'succeed' ? 'succeeded' : 'failed')
  send(response, 303, { location: back.href }, '{}')
  return null
}

function settleRefundControl({ engine }: Emulator, id: string, body: Record<string, unknown>): unknown {
  const status = statusOf(body, SETTLED)
  const reason = textOf(body, 'failure_reason') ?? null
  return render(
    settleRefund(engine, DASHBOARD_CALL, findRefund(engine, id), status, reason),
    engine.pages_url,
  )
}

function advanceClock({ engine, timer }: Emulator, _id: string, body: Record<string, unknown>): unknown {
  const by_ms = body['advance_ms']
  if (typeof by_ms !== 'number' || !Number.isFinite(by_ms))
    throw parameterRefused('Invalid advance_ms: must be a number', 'advance_ms')
  moveClock(engine, by_ms)
  timer.arm()
  return { now_ms: nowMs(engine), offset_ms: engine.clock.offset_ms }
}

function changeWebhooks(emulator: Emulator, _id: string, body: Record<string, unknown>): unknown {
  const { paused, duplicate_percent, drop_percent, omit_percent, late_percent, late_ms, shuffle } = body
  emulator.webhooks?.change({
    ...(typeof paused === 'boolean' && { paused }),
    ...(typeof duplicate_percent === 'number' && { duplicate_percent }),
    ...(typeof drop_percent === 'number' && { drop_percent }),
    ...(typeof omit_percent === 'number' && { omit_percent }),
    ...(typeof late_percent === 'number' && { late_percent }),
    ...(typeof late_ms === 'number' && { late_ms }),
    ...(typeof shuffle === 'boolean' && { shuffle }),
  })
  return describeWebhooks(emulator)
}

/** The state of the webhook sender. `to_come`: number of scheduled changes, except for deadlines days ahead. */
function describeWebhooks({ webhooks, engine }: Emulator): unknown {
  const to_come = [...engine.schedule.byKey.values()].filter(({ kind }) => !DEADLINES.includes(kind))
  return { ...(webhooks?.describe() ?? { url: null }), to_come: to_come.length }
}

async function sendEvent({ engine, webhooks }: Emulator, id: string): Promise<unknown> {
  const event = findEvent(engine, id)
  if (!webhooks) throw parameterRefused('There is no webhook endpoint.', undefined)
  return { id, status: await webhooks.sendNow(event) }
}

async function showEffects(
  { effects }: Emulator,
  _id: string,
  _body: unknown,
  query: Params,
): Promise<unknown> {
  const { after_seq, metadata } = query
  const data = await findEffects(effects, {
    ...Object.fromEntries(EFFECT_FILTERS.map((name) => [name, textOf(query, name)])),
    after_seq: after_seq === undefined ? 0 : Number(after_seq),
    metadata: isParams(metadata) ? (metadata as Record<string, string>) : {},
  })
  return { data, count: data.length, amount: data.reduce((sum, line) => sum + line.amount, 0) }
}

// What only an emulator has: the buyer, the dashboard, time, faults and its own record, under `/_emulator/`.
import { authenticate } from './confirmation.ts'
import { EFFECT_FILTERS, findEffects } from '../shared/effects.ts'
import { BALANCE_CONTROLS } from './control-balance.ts'
import { IDENTITY_CONTROLS } from './control-identity.ts'
import { asParams, statusOf, textOf, type Control } from './control-parts.ts'
import { BROWSER, DASHBOARD } from '../shared/call.ts'
import { nowMs, type Emulator } from './emulator.ts'
import { errorBody, parameterRefused, Refusal, unknownUrl } from './errors.ts'
import { findEvent } from './events.ts'
import { addFault } from './faults.ts'
import { describeFault, hitsOf, release, removeFaults, waitForHits } from '../shared/faults.ts'
import { sendPage } from '../shared/html.ts'
import { patternOf } from '../shared/pattern.ts'
import { header, send, type Exchange } from '../shared/http.ts'
import { pressButton } from './buttons.ts'
import { authenticationPage } from './page.ts'
import { parseForm, isParams, type Params } from './parse.ts'
import {
  cancelIntent,
  captureIntent,
  confirmIntent,
  expireDue,
  expireIntent,
  findIntent,
} from './payment-intents.ts'
import { createRefund, findRefund, settleRefund } from './refunds.ts'
import { render } from './render.ts'
import { findRequests } from '../shared/requests.ts'

const WAIT_MS = 30_000
const SETTLED = ['succeeded', 'failed', 'canceled', 'requires_action', 'pending'] as const

const CONTROLS = new Map<string, Control>([
  ['GET healthz', () => ({ status: 'ok' })],

  // The buyer's browser.
  [
    'POST payment_intents/:id/confirm',
    (emulator, id, body) =>
      render(confirmIntent(emulator, BROWSER, findIntent(emulator, id), asParams(body)), emulator.url),
  ],
  [
    'GET payment_intents/:id/authenticate',
    (emulator, id, _body, _query, { response }) => {
      const intent = findIntent(emulator, id)
      sendPage(response, 200, authenticationPage(intent), intent.return_url)
    },
  ],
  ['POST payment_intents/:id/authenticate', answerChallenge],

  // Somebody in the dashboard.
  [
    'POST payment_intents/:id/capture',
    (emulator, id, body) =>
      render(captureIntent(emulator, DASHBOARD, findIntent(emulator, id), asParams(body)), emulator.url),
  ],
  [
    'POST payment_intents/:id/cancel',
    (emulator, id, body) =>
      render(cancelIntent(emulator, DASHBOARD, findIntent(emulator, id), asParams(body)), emulator.url),
  ],
  [
    'POST refunds',
    (emulator, _id, body) => render(createRefund(emulator, DASHBOARD, asParams(body)), emulator.url),
  ],

  // Time.
  [
    'POST payment_intents/:id/expire',
    (emulator, id) => render(expireIntent(emulator, findIntent(emulator, id)), emulator.url),
  ],
  ['POST refunds/:id/settle', settle],
  ['POST clock', advance],
  ['GET clock', (emulator) => ({ now_ms: nowMs(emulator), offset_ms: emulator.clock.offset_ms })],

  // Notifications.
  ['POST webhooks', changeWebhooks],
  ['GET webhooks', (emulator) => emulator.webhooks?.describe() ?? { url: null }],
  ['POST events/:id/send', sendEvent],

  // Faults.
  ['POST faults', (emulator, _id, body) => describeFault(addFault(emulator.faults, body))],
  [
    'GET faults',
    (emulator) => ({ data: emulator.faults.list.map(describeFault), hits: hitsOf(emulator.faults, null) }),
  ],
  ['DELETE faults', (emulator) => (removeFaults(emulator.faults, null), { data: [] })],
  [
    'DELETE faults/:id',
    (emulator, id) => (removeFaults(emulator.faults, id), { data: emulator.faults.list.map(describeFault) }),
  ],
  [
    'POST release',
    (emulator, _id, body) => ({
      released: release(emulator.faults, textOf(body, 'fault') ?? null),
    }),
  ],
  ['GET wait', wait],

  ...Object.entries(BALANCE_CONTROLS),
  ...Object.entries(IDENTITY_CONTROLS),

  // The buttons of the page.
  ['POST page/:id', pressButton],

  // Its own record.
  ['GET effects', showEffects],
  ['GET requests', showRequests],
])

/** Answers everything under `/_emulator/`. Bodies are JSON; errors look like the API's. */
export async function answerControl(emulator: Emulator, exchange: Exchange): Promise<void> {
  const { method, path, query, body, request, response } = exchange
  try {
    const [noun, id = '', action] = path.slice('/_emulator/'.length).split('/')
    const control = CONTROLS.get(
      `${method} ${noun}${id === '' ? '' : '/:id'}${action === undefined ? '' : `/${action}`}`,
    )
    if (!control) throw unknownUrl(method, path)
    const isForm = header(request, 'content-type')?.startsWith('application/x-www-form-urlencoded')
    const answer = await control(
      emulator,
      id,
      isForm ? parseForm(body) : jsonBody(body),
      parseForm(query),
      exchange,
    )
    if (!response.headersSent) send(response, 200, {}, JSON.stringify(answer))
  } catch (error) {
    if (!(error instanceof Refusal)) console.error(error)
    const refusal =
      error instanceof Refusal
        ? error
        : new Refusal(500, { type: 'api_error', message: String(error) }, { executed: false })
    send(response, refusal.status, {}, errorBody(refusal.error, null))
  }
}

/** JSON or a form; a form goes back to where the buyer came from. */
function answerChallenge(
  emulator: Emulator,
  id: string,
  body: Record<string, unknown>,
  _query: Params,
  { request, response }: Exchange,
): unknown {
  const outcome = body['outcome'] ?? 'succeed'
  if (outcome !== 'succeed' && outcome !== 'fail')
    throw parameterRefused('Invalid outcome: must be one of succeed, fail', 'outcome')
  const intent = authenticate(emulator, BROWSER, findIntent(emulator, id), outcome)
  const isForm = header(request, 'content-type')?.startsWith('application/x-www-form-urlencoded')
  if (!isForm || intent.return_url === null) return render(intent, emulator.url)
  const back = new URL(intent.return_url)
  back.searchParams.set('payment_intent', intent.id)
  back.searchParams.set('payment_intent_client_secret', intent.client_secret)
  back.searchParams.set('redirect_status', outcome === 'succeed' ? 'succeeded' : 'failed')
  send(response, 303, { location: back.href }, '{}')
  return null
}

function settle(emulator: Emulator, id: string, body: Record<string, unknown>): unknown {
  const status = statusOf(body, SETTLED)
  const reason = textOf(body, 'failure_reason') ?? null
  return render(settleRefund(emulator, DASHBOARD, findRefund(emulator, id), status, reason), emulator.url)
}

function advance(emulator: Emulator, _id: string, body: Record<string, unknown>): unknown {
  const by_ms = body['advance_ms']
  if (typeof by_ms !== 'number' || !Number.isFinite(by_ms))
    throw parameterRefused('Invalid advance_ms: must be a number', 'advance_ms')
  emulator.clock.offset_ms += by_ms
  emulator.journal?.append({ clock: { offset_ms: emulator.clock.offset_ms } })
  expireDue(emulator)
  return { now_ms: nowMs(emulator), offset_ms: emulator.clock.offset_ms }
}

function changeWebhooks(emulator: Emulator, _id: string, body: Record<string, unknown>): unknown {
  const { paused, duplicate_percent, drop_percent, late_percent, late_ms, shuffle } = body
  emulator.webhooks?.change({
    ...(typeof paused === 'boolean' && { paused }),
    ...(typeof duplicate_percent === 'number' && { duplicate_percent }),
    ...(typeof drop_percent === 'number' && { drop_percent }),
    ...(typeof late_percent === 'number' && { late_percent }),
    ...(typeof late_ms === 'number' && { late_ms }),
    ...(typeof shuffle === 'boolean' && { shuffle }),
  })
  return emulator.webhooks?.describe() ?? { url: null }
}

async function sendEvent(emulator: Emulator, id: string): Promise<unknown> {
  const event = findEvent(emulator, id)
  if (!emulator.webhooks) throw parameterRefused('There is no webhook endpoint.', undefined)
  return { id, status: await emulator.webhooks.sendNow(event) }
}

async function wait(emulator: Emulator, _id: string, _body: unknown, query: Params): Promise<unknown> {
  const fault = textOf(query, 'fault') ?? null
  const happened = await waitForHits(
    emulator.faults,
    fault,
    Number(query['hits'] ?? 1),
    Number(query['timeout_ms'] ?? WAIT_MS),
  )
  if (happened) return { hits: hitsOf(emulator.faults, fault) }
  throw new Refusal(
    408,
    { type: 'invalid_request_error', message: `Only ${hitsOf(emulator.faults, fault)} hits by now.` },
    { executed: false },
  )
}

async function showEffects(emulator: Emulator, _id: string, _body: unknown, query: Params): Promise<unknown> {
  const { after_seq, metadata } = query
  const data = await findEffects(emulator.effects, {
    ...Object.fromEntries(EFFECT_FILTERS.map((name) => [name, textOf(query, name)])),
    after_seq: after_seq === undefined ? 0 : Number(after_seq),
    metadata: isParams(metadata) ? (metadata as Record<string, string>) : {},
  })
  return { data, count: data.length, amount: data.reduce((sum, line) => sum + line.amount, 0) }
}

function showRequests(emulator: Emulator, _id: string, _body: unknown, query: Params): unknown {
  const { path, since_ms } = query
  const { requests } = emulator
  const data = findRequests(requests, {
    method: textOf(query, 'method'),
    path: patternOf(path, 'path', parameterRefused),
    idempotency_key: textOf(query, 'idempotency_key'),
    since_ms: since_ms === undefined ? undefined : Number(since_ms),
  })
  const replayed = data.filter((each) => each.replayed).length
  return {
    total: requests.total,
    counts: Object.fromEntries(requests.counts),
    count: data.length,
    replayed,
    data,
  }
}

/** Of a control request: a JSON object, or nothing. */
function jsonBody(body: string): Record<string, unknown> {
  if (body.trim() === '') return {}
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    value = null
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>
  throw new Refusal(
    400,
    { type: 'invalid_request_error', message: 'The body must be a JSON object.' },
    { executed: false },
  )
}

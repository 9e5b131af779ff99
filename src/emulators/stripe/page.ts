// The overview page with buttons, and the authentication page of buyers.
import { quantity } from '#core/describe.ts'
import { formatMoney } from '#providers/sandbox/stripe/currencies.ts'
import type { StoredEvent } from '#providers/sandbox/stripe/event-log.ts'
import { METHOD_TOKENS } from '#providers/sandbox/stripe/methods.ts'
import type { Intent, Refund } from '#providers/sandbox/stripe/versions.ts'
import { answered, faultSection, refusalRow, REFUSAL_COLUMNS } from '../shared/fault-page.ts'
import { button, cell, choice, document, escape, section, type Cell } from '../shared/html.ts'
import { latestRequests, type LoggedRequest } from '../shared/requests.ts'
import type { Emulator } from './emulator.ts'
import { STRIPE_FAULT_TARGETS } from './faults.ts'
import { balanceSections } from './page-balance.ts'
import { disputeSection } from './page-disputes.ts'
import { sessionSection } from './page-identity.ts'
import { latest, metadataText, PAGE_ROWS, time } from './page-parts.ts'

const REFRESH_S = 5
/** Frequent polls, hidden from the list of requests. */
const POLL = 'GET /v1/events'

/** The page at `/`. The query `refresh` reloads it every few seconds. */
export function overviewPage(emulator: Emulator, query: string): string {
  const { engine, faults, requests } = emulator
  const { store, events } = engine
  const refreshing = query === 'refresh'
  const intents = latest(store.intents)
  const waiting = intents.filter(isAwaitingBuyer)
  const refused = latestRequests(requests, PAGE_ROWS, ({ status, fault }) => status >= 400 || fault !== null)
  const body = [
    `<p>An emulator of Stripe at <code>${escape(emulator.url)}</code>. No money moves. ${[quantity(store.intents.ids.length, 'payment intent'), quantity(store.refunds.ids.length, 'refund'), quantity(store.payouts.ids.length, 'payout'), quantity(events.list.length, 'event'), quantity(requests.total, 'request')].join(', ')}.</p>`,
    `<p>${refreshing ? `Shown again every ${REFRESH_S} s. <a href="/">Stop</a>` : `<a href="/">Show again</a> or <a href="/?refresh">every ${REFRESH_S} s</a>`}</p>`,
    section(
      'Waiting for the buyer',
      ['amount', 'what the buyer does', 'payment intent'],
      waiting.map(waitingRow),
    ),
    section(
      'Payment intents',
      ['id', 'status', 'in the dashboard', 'amount', 'received', 'created', 'metadata'],
      intents.map(intentRow),
    ),
    section(
      'Refunds',
      ['id', 'status', 'let it', 'amount', 'payment intent', 'created'],
      latest(store.refunds).map(refundRow),
    ),
    disputeSection(store),
    ...balanceSections(store),
    sessionSection(store),
    faultSection(faults, Object.keys(STRIPE_FAULT_TARGETS)),
    section('Refusals and faults met', REFUSAL_COLUMNS, refused.map(refusalRow)),
    section(
      'Requests',
      ['at', 'request', 'answer', 'idempotency key', 'request id'],
      latestRequests(requests, PAGE_ROWS, (request) => !isPoll(request)).map(requestRow),
      `<p>Without ${quantity(requests.counts.get(POLL) ?? 0, 'poll')} of the event list (${POLL}).</p>`,
    ),
    section(
      'Events',
      ['id', 'type', 'object', 'created', 'delivered'],
      events.list
        .slice(-PAGE_ROWS)
        .toReversed()
        .map((event) => eventRow(emulator, event)),
      webhooksForm(emulator),
    ),
  ]
  const head = refreshing ? `<meta http-equiv="refresh" content="${REFRESH_S}">` : ''
  return document('Stripe emulator', body.join('\n'), head)
}

/** The emulated page of the buyer's bank. */
export function authenticationPage(intent: Intent): string {
  const amount = formatMoney(intent.amount, intent.currency)
  const form =
    intent.status === 'requires_action'
      ? `<p>Do you confirm the payment of ${escape(amount)}?</p><form method="post">
         <button name="outcome" value="succeed">Complete authentication</button> <button name="outcome" value="fail">Fail authentication</button></form>`
      : `<p>No authentication is required: this payment has a status of ${intent.status}.</p>`
  return document('Authentication', form)
}

// Whether the page lets the buyer act. After a declined card, the buyer cannot try another card for this payment.
function isAwaitingBuyer({ status, error }: Intent): boolean {
  return (
    status === 'requires_action' || (status === 'requires_payment_method' && error?.type !== 'card_error')
  )
}

function waitingRow({ id, status, amount, currency }: Intent): Cell[] {
  const act =
    status === 'requires_action'
      ? cell(`<a href="/_emulator/payment_intents/${id}/authenticate">Authenticate (3-D Secure)</a>`)
      : cell(
          `<form method="post" action="/_emulator/page/confirm"><input type="hidden" name="id" value="${id}">${choice('value', 'Card', METHOD_TOKENS)} <button>Pay</button></form>`,
        )
  return [formatMoney(amount, currency), act, id]
}

function intentRow({ id, status, amount, amount_received, currency, created, metadata }: Intent): Cell[] {
  const buttons =
    status === 'requires_capture'
      ? [
          button('capture', 'Capture', { id }),
          button('cancel', 'Cancel', { id }),
          button('expire', 'Let it lapse', { id }),
        ]
      : status === 'succeeded'
        ? [button('refund', 'Refund', { id })]
        : []
  return [
    id,
    status,
    cell(buttons.join(' ')),
    formatMoney(amount, currency),
    formatMoney(amount_received, currency),
    time(created),
    metadataText(metadata),
  ]
}

function refundRow({ id, status, amount, currency, payment_intent, created }: Refund): Cell[] {
  const is_final = status === 'failed' || status === 'canceled'
  const next_statuses = is_final ? [] : status === 'succeeded' ? ['failed'] : ['succeeded', 'failed']
  const label = (value: string) => (value === 'failed' ? 'Fail' : 'Succeed')
  const buttons = next_statuses.map((value) => button('settle', label(value), { id, value }))
  return [id, status, cell(buttons.join(' ')), formatMoney(amount, currency), payment_intent, time(created)]
}

function webhooksForm({ webhooks }: Emulator): string {
  if (webhooks === null) return '<p>No webhook URL is set: events are not sent.</p>'
  const { url, paused, delivered, waiting, failed_attempts } = webhooks.describe()
  const [value, label] = paused ? ['resume', 'Resume'] : ['pause', 'Pause']
  return `<div class="forms"><p>Sent to <code>${escape(url)}</code>${paused ? ', paused' : ''}: ${delivered} delivered, ${waiting} waiting, ${failed_attempts} attempts failed.</p>
    ${button('webhooks', label, { value })}</div>`
}

function requestRow({
  at,
  method,
  path,
  status,
  idempotency_key,
  request_id,
  replayed,
}: LoggedRequest): Cell[] {
  return [
    at,
    `${method} ${path}`,
    `${answered(status)}${replayed ? ', replayed' : ''}`,
    idempotency_key ?? '',
    request_id,
  ]
}

function isPoll({ method, path }: LoggedRequest): boolean {
  return `${method} ${path}` === POLL
}

function eventRow({ webhooks }: Emulator, { id, type, object, created, pending }: StoredEvent): Cell[] {
  const is_sent = webhooks?.isSubscribed(type) ?? false
  return [id, type, object.id, time(created), pending ? 'not yet' : is_sent ? 'yes' : 'not sent']
}

// The API: authentication, idempotency, scripted faults, and the operations.
import { setTimeout as sleep } from 'node:timers/promises'
import { refused, reply, type ApiRequest } from './answers.ts'
import { nowMs, type Emulator } from './emulator.ts'
import {
  keyInUse,
  parameterRefused,
  rateLimited,
  Refusal,
  requestRefused,
  serverError,
  unknownUrl,
  invalidApiKey,
} from './errors.ts'
import { checkExpand, expandList, snapshotOf } from './expand.ts'
import { countHit, holdRequest, nextFault, type Fault } from '../shared/faults.ts'
import { header, send, sendHalf, type Exchange } from '../shared/http.ts'
import { findAnswer, fingerprintOf, storeAnswer, type Answer } from './idempotency.ts'
import { stripeId } from './ids.ts'
import { stringsOf } from './params.ts'
import { parseForm } from './parse.ts'
import { expireDue } from './payment-intents.ts'
import { API_VERSION } from './render.ts'
import { logRequest } from '../shared/requests.ts'
import type { PathIds, Route } from './route.ts'
import { checkParams } from './rules.ts'
import { findRoute } from './routes.ts'

const MAX_KEY_LENGTH = 255

/** Handles requests under `/v1/`. */
export function answerApi(emulator: Emulator, exchange: Exchange): void {
  const { request, method, path, body } = exchange
  const request_id = stripeId('req_', 14)
  const key = method === 'POST' ? header(request, 'idempotency-key') : null
  const log = logRequest(emulator.requests, { method, path, idempotency_key: key, request_id })
  const api_request: ApiRequest = {
    exchange,
    request_id,
    key,
    fingerprint: key === null ? '' : fingerprintOf(path, body),
    stored: null,
    log,
  }
  let fault: Fault | null = null
  let found: { route: Route; ids: PathIds } | null = null
  try {
    checkKey(emulator, exchange)
    found = findRoute(method, path)
    if (!found) throw unknownUrl(method, path)
    if (key !== null) {
      if (key.length > MAX_KEY_LENGTH)
        throw parameterRefused(`Idempotency keys can be up to ${MAX_KEY_LENGTH} characters`, undefined)
      api_request.stored = findAnswer(emulator.idempotency, key, api_request.fingerprint, nowMs(emulator))
    }
    if (emulator.faults.list.length > 0)
      fault = nextFault(emulator.faults, method, path, `${path}?${exchange.query}\n${body}`)
  } catch (error) {
    return reply(emulator, api_request, refused(error, request_id))
  }
  if (!fault)
    return reply(
      emulator,
      api_request,
      api_request.stored ?? perform(emulator, api_request, found.route, found.ids),
    )
  performWithFault(emulator, api_request, found.route, found.ids, fault).catch((error: unknown) => {
    console.error(error)
    exchange.response.destroy()
  })
}

function checkKey(emulator: Emulator, { request }: Exchange): void {
  const authorization = header(request, 'authorization')
  const [scheme, credentials = ''] = authorization?.split(' ') ?? []
  const key =
    scheme?.toLowerCase() === 'basic'
      ? Buffer.from(credentials, 'base64').toString('utf8').split(':')[0]!
      : credentials
  if (key === '') throw invalidApiKey(null)
  if (emulator.api_key !== null && !emulator.api_key.split(',').includes(key)) throw invalidApiKey(key)
}

/** Performs the operation and stores the answer under the key. */
function perform(emulator: Emulator, api_request: ApiRequest, route: Route, ids: PathIds): Answer {
  let answer: Answer
  try {
    answer = execute(emulator, api_request, route, ids)
  } catch (error) {
    answer = refused(error, api_request.request_id)
    if (!(error instanceof Refusal) || !error.executed) return answer
  }
  storeUnderKey(emulator, api_request, answer)
  return answer
}

function execute(
  emulator: Emulator,
  { exchange, request_id, key }: ApiRequest,
  route: Route,
  ids: PathIds,
): Answer {
  checkHeaders(exchange)
  const params = parseForm(exchange.method === 'GET' ? exchange.query : exchange.body)
  checkParams(params, route.accepts)
  const expand = params['expand'] === undefined ? [] : stringsOf(params, 'expand')
  if (route.object !== null) checkExpand(route.object, expand, 'list' in route)
  expireDue(emulator)
  if ('one' in route) {
    const object = route.one(emulator, { source: 'api', request_id, idempotency_key: key }, ids, params)
    return { status: 200, content: snapshotOf(emulator.store, object, expand) }
  }
  if ('rendered' in route) return { status: 200, content: JSON.stringify(route.rendered(emulator, ids)) }
  const list = route.list(emulator, params, ids)
  expandList(list.data, expand, emulator.store, emulator.url)
  return { status: 200, content: JSON.stringify(list) }
}

/** Refuses other API versions, and bodies that are not forms. */
function checkHeaders({ request, method, body }: Exchange): void {
  const version = header(request, 'stripe-version')
  if (version !== null && version !== API_VERSION)
    throw parameterRefused(`Invalid Stripe API version: ${version}`, undefined)
  const type = header(request, 'content-type')
  if (method === 'POST' && body !== '' && !type?.startsWith('application/x-www-form-urlencoded'))
    throw parameterRefused(
      'Invalid request (check that your POST content type is application/x-www-form-urlencoded).',
      undefined,
    )
}

function storeUnderKey(
  emulator: Emulator,
  { key, fingerprint, request_id }: ApiRequest,
  answer: Answer,
): void {
  if (key !== null)
    storeAnswer(emulator.idempotency, key, { ...answer, fingerprint, request_id, at_ms: nowMs(emulator) })
}

/** Handles a request with a fault. Until the answer, the idempotency key of the request is in use. */
async function performWithFault(
  emulator: Emulator,
  api_request: ApiRequest,
  route: Route,
  ids: PathIds,
  fault: Fault,
): Promise<void> {
  const { exchange, key, stored } = api_request
  const { inFlight } = emulator.idempotency
  if (api_request.log) api_request.log.fault = fault.id
  if (key !== null) inFlight.set(key, api_request.fingerprint)
  try {
    if (fault.action === null) countHit(emulator.faults, fault)
    if (fault.delay_ms > 0) await sleep(fault.delay_ms, undefined, { ref: false })
    if (emulator.closed) return
    let done = fault.when === 'after' ? (stored ?? perform(emulator, api_request, route, ids)) : null
    const refusal = refusalOfFault(fault)
    if (refusal && !stored)
      storeUnderKey(emulator, api_request, (done = refused(refusal, api_request.request_id)))
    if (fault.action !== null && fault.action !== 'hold') countHit(emulator.faults, fault)
    if (fault.action === 'hold') {
      const released = holdRequest(fault)
      countHit(emulator.faults, fault)
      await released
    }
    sendFaultyAnswer(
      emulator,
      api_request,
      fault,
      () => (done ??= stored ?? perform(emulator, api_request, route, ids)),
    )
  } finally {
    if (key !== null) inFlight.delete(key)
    if (exchange.response.destroyed && api_request.log) api_request.log.status = 0
  }
}

/** The refusal that the fault defines and that is stored under the idempotency key; null if the fault defines none. */
function refusalOfFault({ action, code }: Fault): Refusal | null {
  if (action === 'refuse_400') return requestRefused(code ?? 'balance_insufficient', undefined)
  return action === 'error_500' ? serverError() : null
}

/** Sends the answer that the fault defines. `answer` performs the operation if that has not happened yet. */
function sendFaultyAnswer(
  emulator: Emulator,
  api_request: ApiRequest,
  fault: Fault,
  answer: () => Answer,
): void {
  const { response } = api_request.exchange
  const ids = { 'request-id': api_request.request_id }
  switch (fault.action) {
    case null:
    case 'hold':
    case 'error_500':
    case 'refuse_400':
      return reply(emulator, api_request, answer())
    case 'drop':
      response.destroy()
      return
    case 'error_500_unstored':
      return reply(emulator, api_request, refused(serverError(), api_request.request_id))
    case 'conflict_409':
      return reply(
        emulator,
        api_request,
        refused(keyInUse(api_request.key ?? 'none'), api_request.request_id),
      )
    case 'rate_limited_429': {
      const retry_header: Record<string, string> =
        fault.retry_after_s === null ? {} : { 'retry-after': String(fault.retry_after_s) }
      return reply(emulator, api_request, refused(rateLimited(), api_request.request_id), send, retry_header)
    }
    case 'refuse_401':
      return reply(emulator, api_request, refused(invalidApiKey('sk_test_refused'), api_request.request_id))
    case 'cut_body':
      return reply(
        emulator,
        api_request,
        fault.when === 'after' ? answer() : refused(serverError(), api_request.request_id),
        sendHalf,
      )
    case 'html_503':
      return send(
        response,
        503,
        {},
        '<html><head><title>503 Service Temporarily Unavailable</title></head><body></body></html>',
        'text/html',
      )
    // The operation is performed, but the answer has another status.
    case 'still_processing':
      return reply(emulator, api_request, answer(), (to, status, headers, body) =>
        send(
          to,
          status,
          headers,
          JSON.stringify({ ...JSON.parse(body), status: fault.status ?? 'processing' }),
        ),
      )
    case 'empty_200':
      return send(response, 200, ids, '{}')
    case 'string_ok':
      return send(response, 200, ids, '"ok"')
  }
}

// The API: passes requests to the engine, and adds scripted faults and the request log.
import { setTimeout as sleep } from 'node:timers/promises'
import {
  invalidApiKey,
  keyInUse,
  rateLimited,
  requestRefused,
  serverError,
  type Refusal,
  type StripeError,
} from '#providers/sandbox/stripe/errors.ts'
import type { Answer } from '#providers/sandbox/stripe/idempotency.ts'
import {
  admitRequest,
  answerRequest,
  storeUnderKey,
  type AdmittedRequest,
} from '#providers/sandbox/stripe/requests.ts'
import { refused, respond } from '#providers/sandbox/stripe/responses.ts'
import { countHit, holdRequest, nextFault, type Fault } from '../shared/faults.ts'
import { send, sendHalf, type Exchange } from '../shared/http.ts'
import { logRequest, type LoggedRequest } from '../shared/requests.ts'
import type { Emulator } from './emulator.ts'

/** A request in progress. */
type ApiRequest = AdmittedRequest & { exchange: Exchange; log: LoggedRequest | null }

/** Handles requests under `/v1/`. */
export function answerApi(emulator: Emulator, exchange: Exchange): void {
  const { engine, faults } = emulator
  const { request, method, path, query, body } = exchange
  const admitted = admitRequest(engine, { method, path, query, body, headers: request.headers })
  const { key, request_id, refusal } = admitted
  const log = logRequest(emulator.requests, { method, path, idempotency_key: key, request_id })
  const api_request: ApiRequest = { ...admitted, exchange, log }
  const fault =
    refusal === null && faults.list.length > 0
      ? nextFault(faults, method, path, `${path}?${query}\n${body}`)
      : null
  if (!fault) return reply(emulator, api_request, answerRequest(engine, api_request))
  answerWithFault(emulator, api_request, fault).catch((error: unknown) => {
    console.error(error)
    exchange.response.destroy()
  })
}

/** Sends the answer and completes the log entry of the request. */
function reply(
  { engine }: Emulator,
  api_request: ApiRequest,
  answer: Answer,
  how = send,
  more: Record<string, string> = {},
): void {
  const { exchange, log } = api_request
  const { status, headers, body } = respond(engine, api_request, answer)
  if (log) {
    log.status = status
    if (status >= 400) log.refusal = reasonOf(body)
    if (headers['idempotent-replayed'] !== undefined) log.replayed = true
  }
  how(exchange.response, status, { ...headers, ...more }, body)
}

function reasonOf(body: string): string {
  const { error } = JSON.parse(body) as { error: StripeError }
  return error.decline_code ?? error.code ?? error.message
}

/** Handles a request with a fault. Until the answer, the idempotency key of the request is in use. */
async function answerWithFault(emulator: Emulator, api_request: ApiRequest, fault: Fault): Promise<void> {
  const { engine, faults } = emulator
  const { exchange, log, key, request_id, stored } = api_request
  const { inFlight } = engine.idempotency
  if (log) log.fault = fault.id
  if (key !== null) inFlight.set(key, api_request.fingerprint)
  try {
    if (fault.action === null) countHit(faults, fault)
    if (fault.delay_ms > 0) await sleep(fault.delay_ms, undefined, { ref: false })
    if (emulator.closed) return
    let done = fault.when === 'after' ? answerRequest(engine, api_request) : null
    const refusal = refusalOfFault(fault)
    if (refusal && !stored) {
      done = refused(engine, request_id, refusal)
      storeUnderKey(engine, api_request, done)
    }
    if (fault.action !== null && fault.action !== 'hold') countHit(faults, fault)
    if (fault.action === 'hold') {
      const released = holdRequest(fault)
      countHit(faults, fault)
      await released
    }
    sendFaultyAnswer(emulator, api_request, fault, () => (done ??= answerRequest(engine, api_request)))
  } finally {
    if (key !== null) inFlight.delete(key)
    if (exchange.response.destroyed && log) log.status = 0
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
  const { key, request_id, exchange } = api_request
  const { response } = exchange
  const ids = { 'request-id': request_id }
  const refuse = (refusal: Refusal) => refused(emulator.engine, request_id, refusal)
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
      return reply(emulator, api_request, refuse(serverError()))
    case 'conflict_409':
      return reply(emulator, api_request, refuse(keyInUse(key ?? 'none')))
    case 'rate_limited_429': {
      const retry_header: Record<string, string> =
        fault.retry_after_s === null ? {} : { 'retry-after': String(fault.retry_after_s) }
      return reply(emulator, api_request, refuse(rateLimited()), send, retry_header)
    }
    case 'refuse_401':
      return reply(emulator, api_request, refuse(invalidApiKey('sk_test_refused')))
    case 'cut_body':
      return reply(emulator, api_request, fault.when === 'after' ? answer() : refuse(serverError()), sendHalf)
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

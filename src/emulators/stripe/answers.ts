// Answers to requests of the API: their headers, bodies and log entries.
import type { LoggedRequest } from '../shared/requests.ts'
import { send, type Exchange } from '../shared/http.ts'
import { nowMs, type Emulator } from './emulator.ts'
import { errorBody, Refusal, serverError, type StripeError } from './errors.ts'
import { renderSnapshot } from './expand.ts'
import type { Answer, StoredAnswer } from './idempotency.ts'
import { API_VERSION } from './render.ts'

/** A request in progress. */
export type ApiRequest = {
  exchange: Exchange
  request_id: string
  /** The idempotency key; null unless the method is POST. */
  key: string | null
  fingerprint: string
  /** The stored answer of the idempotency key. */
  stored: StoredAnswer | null
  log: LoggedRequest | null
}

/** The answer for an error: a refusal, or 500 for an exception. */
export function refused(error: unknown, request_id: string): Answer {
  if (error instanceof Refusal) return { status: error.status, content: errorBody(error.error, request_id) }
  console.error(error)
  return { status: 500, content: errorBody(serverError().error, request_id) }
}

/** Writes the answer and completes the log entry of the request. */
export function reply(
  emulator: Emulator,
  api_request: ApiRequest,
  answer: Answer,
  how = send,
  more: Record<string, string> = {},
): void {
  const { content } = answer
  const body = typeof content === 'string' ? content : JSON.stringify(renderSnapshot(content, emulator.url))
  if (api_request.log) {
    api_request.log.status = answer.status
    if (answer.status >= 400) api_request.log.refusal = reasonOf(body)
  }
  const date = new Date(nowMs(emulator)).toUTCString()
  how(
    api_request.exchange.response,
    answer.status,
    { date, ...headersOf(api_request, answer), ...more },
    body,
  )
}

function reasonOf(body: string): string {
  const { error } = JSON.parse(body) as { error: StripeError }
  return error.decline_code ?? error.code ?? error.message
}

function headersOf(api_request: ApiRequest, answer: Answer): Record<string, string> {
  const headers: Record<string, string> = {
    'request-id': api_request.request_id,
    'stripe-version': API_VERSION,
  }
  if (api_request.key === null) return headers
  headers['idempotency-key'] = api_request.key
  if (answer.status === 409 || answer.status === 429) return headers
  const is_replay = api_request.stored !== null && answer === api_request.stored
  headers['original-request'] = is_replay ? api_request.stored!.request_id : api_request.request_id
  if (is_replay) headers['idempotent-replayed'] = 'true'
  if (is_replay && api_request.log) api_request.log.replayed = true
  return headers
}

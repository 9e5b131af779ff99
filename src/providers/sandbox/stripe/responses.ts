// Responses to requests of the API: their statuses, headers and bodies.
import { recordMs, type Engine } from './engine.ts'
import { errorBody, Refusal, serverError } from './errors.ts'
import { renderSnapshot } from './expand.ts'
import type { Answer, StoredAnswer } from './idempotency.ts'
import { API_VERSION } from './render.ts'

/** A response. The names of the headers are in lower case. */
export type EngineResponse = { status: number; headers: Record<string, string>; body: string }

/** What identifies a request and its answer. */
type Answered = {
  request_id: string
  /** The idempotency key; null unless the method is POST. */
  key: string | null
  /** The stored answer of the idempotency key. */
  stored: StoredAnswer | null
}

/** The answer for an error: a refusal, or 500 for an exception. */
export function refused({ clock, hooks }: Engine, request_id: string, error: unknown): Answer {
  if (!(error instanceof Refusal)) hooks.onFailure(error, null)
  const refusal = error instanceof Refusal ? error : serverError()
  const logged = { request_id, at_s: Math.floor(clock.hostMs() / 1000) }
  return { status: refusal.status, content: errorBody(refusal.error, logged) }
}

/** Renders an answer. */
export function respond(engine: Engine, answered: Answered, answer: Answer): EngineResponse {
  const { status, content } = answer
  const date = new Date(recordMs(engine)).toUTCString()
  return {
    status,
    headers: { date, ...headersOf(answered, answer) },
    body: typeof content === 'string' ? content : JSON.stringify(renderSnapshot(content, engine.pages_url)),
  }
}

function headersOf({ request_id, key, stored }: Answered, answer: Answer): Record<string, string> {
  const headers: Record<string, string> = { 'request-id': request_id, 'stripe-version': API_VERSION }
  if (key === null) return headers
  headers['idempotency-key'] = key
  if (answer.status === 409 || answer.status === 429) return headers
  const is_replay = stored !== null && answer === stored
  headers['original-request'] = is_replay ? stored.request_id : request_id
  if (is_replay) headers['idempotent-replayed'] = 'true'
  return headers
}

// Classifies failed calls to the AI provider. Provider texts are left out: they may repeat the request.
import type { AiFailure, UnsuccessfulOutcome } from '#core/outcome.ts'
import { isObject, NoAnswer, parseRetryAfter, type HttpAnswer } from '../http.ts'

/** Statuses below 500 after which a retry may succeed. */
const TRANSIENT = [408, 409, 429]
/** The error code with which some servers report their content filter. */
const CONTENT_FILTER = 'content_filter'

/** The outcome of a call without an answer. Rethrows `NotStarted`, and errors that the call did not cause. */
export function classifyAiError(error: unknown): UnsuccessfulOutcome<AiFailure> {
  if (!(error instanceof NoAnswer)) throw error
  return error.status !== null && isFinal(error.status) ? refused(error.status, null) : error.outcome
}

/** The outcome of a call whose answer has another status than 2xx. */
export function classifyAiStatus({ status, headers, body }: HttpAnswer): UnsuccessfulOutcome<AiFailure> {
  const code = isObject(body['error']) ? body['error']['code'] : undefined
  if (status < 400) return { kind: 'ambiguous', reason: 'the answer could not be read', replayed: false }
  if (code === CONTENT_FILTER)
    return declined('ai_refused', "The provider's content filter refused the request.")
  if (isFinal(status)) return refused(status, errorCodeOf(code))
  return {
    kind: 'retry',
    reason: `the provider answered ${status}`,
    ...parseRetryAfter(headers['retry-after']),
  }
}

/** A declined outcome with this failure. */
export function declined(code: AiFailure['code'], message: string): { kind: 'declined'; failure: AiFailure } {
  return { kind: 'declined', failure: { code, message } }
}

function isFinal(status: number): boolean {
  return status >= 400 && status < 500 && !TRANSIENT.includes(status)
}

function refused(status: number, code: string | null): UnsuccessfulOutcome<AiFailure> {
  const reported = `The AI provider refused the request: ${[status, code].filter(Boolean).join(' ')}.`
  if (status === 401 || status === 403) return { kind: 'misconfigured', reason: reported }
  return declined('ai_error', reported)
}

/** The value if it has the form of a code; otherwise null, because another text could repeat the request. */
function errorCodeOf(code: unknown): string | null {
  return typeof code === 'string' && /^[a-z0-9_]{1,64}$/i.test(code) ? code : null
}

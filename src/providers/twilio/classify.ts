// Maps errors of calls to Twilio to outcomes.
import type { UnsuccessfulOutcome } from '#core/outcome.ts'
import type { SendOutcome } from '../email.ts'
import { NoAnswer, parseRetryAfter } from '../http.ts'
import { NotStarted } from '../permit.ts'
import { twilioFailure } from './failures.ts'
import { TwilioRefusal } from './messages.ts'

type ErrorKind = 'limited' | 'misconfigured' | 'refused'

const RATE_LIMITED = 20429
/** Error codes that concern the credentials, or an account that is suspended or lacks a permission. */
const MISCONFIGURED = [20003, 20005, 20006]
/** Error codes that concern a message or its numbers. Some come with status 403. */
const MESSAGE_ERRORS = /^21\d{3}$/

/** The kind of an error answer. A request with an error answer had no effect. */
function kindOf({ status, code }: TwilioRefusal): ErrorKind {
  if (status === 429 || code === RATE_LIMITED) return 'limited'
  if (MESSAGE_ERRORS.test(String(code))) return 'refused'
  return status === 401 || status === 403 || MISCONFIGURED.includes(code ?? 0) ? 'misconfigured' : 'refused'
}

/**
 * The outcome of a failed send. An error after which the SMS may have been sent is ambiguous. Rethrows `NotStarted`.
 */
export function classifySmsSend(error: unknown): Exclude<SendOutcome<never>, { kind: 'done' }> {
  if (error instanceof NotStarted) throw error
  if (error instanceof TwilioRefusal) {
    const failure = twilioFailure(error.code, error.message)
    const kind = kindOf(error)
    if (kind === 'limited') return { kind: 'retry', failure, ...parseRetryAfter(error.retry_after) }
    return { kind: kind === 'misconfigured' ? kind : 'declined', failure }
  }
  if (error instanceof NoAnswer && !error.sent) {
    const message = `Twilio could not be reached (${error.message}).`
    return { kind: 'retry', failure: { code: 'connection_failed', message, provider_code: null } }
  }
  return { kind: 'ambiguous', reason: reasonOf(error) }
}

/**
 * The outcome of a failed lookup. A lookup changes nothing, so it is retried unless Twilio refuses the credentials.
 * Rethrows `NotStarted`.
 */
export function classifySmsLookup(error: unknown): Exclude<UnsuccessfulOutcome, { kind: 'declined' }> {
  if (error instanceof NotStarted) throw error
  if (error instanceof NoAnswer) return error.outcome
  if (!(error instanceof TwilioRefusal))
    return { kind: 'ambiguous', reason: reasonOf(error), replayed: false }
  const reason = `Twilio answered ${[error.status, error.code].filter((code) => code !== null).join(' ')}`
  const kind = kindOf(error)
  if (kind === 'limited') return { kind: 'retry', reason, ...parseRetryAfter(error.retry_after) }
  return kind === 'misconfigured' ? { kind, reason } : { kind: 'ambiguous', reason, replayed: false }
}

/** Whether Twilio reports that the message does not exist. */
export function isUnknownSms(error: unknown): boolean {
  return error instanceof TwilioRefusal && error.status === 404 && error.code === 20404
}

/** A text about the error without its message, which may repeat the request. */
function reasonOf(error: unknown): string {
  return error instanceof NoAnswer ? error.message : 'the answer could not be read'
}

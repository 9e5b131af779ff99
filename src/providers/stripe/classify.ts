// Maps errors of Stripe's SDK to outcomes.
import { Stripe } from 'stripe'
import type { Failure, Outcome } from '#core/outcome.ts'
import { isReplayed, NoAnswer, parseRetryAfter } from '../http.ts'

/** The outcome of a failed call. An error after which the call may have had an effect is ambiguous. Never throws. */
export function classify(error: unknown): Exclude<Outcome<never>, { kind: 'done' }> {
  const cause = causeOf(error)
  if (cause instanceof NoAnswer) return cause.outcome
  if (!(error instanceof Stripe.errors.StripeError)) {
    return {
      kind: 'ambiguous',
      reason: error instanceof Error ? error.message : String(error),
      replayed: false,
    }
  }

  const { statusCode: status, rawType: type, code } = error
  const reason = describe(error)
  // The SDK gives a 400 `rate_limit` the same class as a 429.
  if (error instanceof Stripe.errors.StripeRateLimitError)
    return { kind: 'retry', reason, ...parseRetryAfter(error.headers?.['retry-after']) }
  if (status === 401 || status === 403) return { kind: 'misconfigured', reason }
  if (status === 402) return declined('payment_declined', error)
  if (status === 400 || status === 404) {
    if (type === 'card_error') return declined('payment_declined', error)
    if (type === 'invalid_request_error') return declined('payment_invalid', error)
    // The key was used with other parameters: the database lost the request that first had it. This call had no effect,
    // but the first call with the key may have had one.
    if (type === 'idempotency_error') return declined('processor_error', error)
  }
  // An earlier request with this key is still in progress and may take effect.
  if (status === 409 && code === 'idempotency_key_in_use')
    return { kind: 'ambiguous', reason, replayed: false, ...parseRetryAfter(error.headers?.['retry-after']) }
  return { kind: 'ambiguous', reason, replayed: isReplayed(error.headers) }
}

/** The error of the HTTP client, which the SDK wraps. */
export function causeOf(error: unknown): unknown {
  return error instanceof Stripe.errors.StripeConnectionError ? error.detail : error
}

/** Whether the processor reports that the object does not exist. */
function isMissing(error: unknown): boolean {
  return (
    error instanceof Stripe.errors.StripeInvalidRequestError &&
    error.statusCode === 404 &&
    error.code === 'resource_missing'
  )
}

function declined(
  code: 'payment_declined' | 'payment_invalid' | 'processor_error',
  error: Stripe.errors.StripeError,
): { kind: 'declined'; failure: Failure; reference?: string } {
  const processor_code = error.code ?? error.rawType
  const reference = error.payment_intent?.id
  return {
    kind: 'declined',
    ...(typeof reference === 'string' && reference.startsWith('pi_') && { reference }),
    failure: {
      code,
      message: error.message,
      ...(processor_code && { processor_code }),
      ...(error.decline_code && { decline_code: error.decline_code }),
    },
  }
}

/** A text with codes only: on 401 Stripe's message contains a part of the key. */
function describe(error: Stripe.errors.StripeError): string {
  const codes = [error.statusCode, error.rawType, error.code, error.requestId]
  return codes.filter((code) => code !== undefined && code !== '').join(' ')
}

/** Replaces the refused token in Stripe's message, because the token may be neither returned nor stored. */
export function withoutToken<T>(token: string | null, instead: string, outcome: Outcome<T>): Outcome<T> {
  if (outcome.kind !== 'declined' || token === null) return outcome
  const message = outcome.failure.message.replaceAll(`'${token}'`, instead).replaceAll(token, instead)
  return { ...outcome, failure: { ...outcome.failure, message } }
}

/** Catches the error of a retrieval: returns null if the object does not exist, and rethrows other errors. */
export function nullIfMissing(error: unknown): null {
  if (isMissing(error)) return null
  throw error
}

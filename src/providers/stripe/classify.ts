// What an error of Stripe's SDK means for the work that was asked: the one place where that is decided.
import { Stripe } from 'stripe'
import type { Failure, Outcome } from '#core/outcome.ts'
import { isReplayed, NoAnswer, parseRetryAfter } from '../http.ts'

/** Never `done`, never throws. What is not known to be definitive is ambiguous. */
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
  // The SDK gives 400 `rate_limit` the same class as 429.
  if (error instanceof Stripe.errors.StripeRateLimitError)
    return { kind: 'retry', reason, ...parseRetryAfter(error.headers?.['retry-after']) }
  if (status === 401 || status === 403) return { kind: 'misconfigured', reason }
  if (status === 402) return declined('payment_declined', error)
  if (status === 400 || status === 404) {
    if (type === 'card_error') return declined('payment_declined', error)
    if (type === 'invalid_request_error') return declined('payment_invalid', error)
    // Other parameters under one key: our own bug. This call had no effect, but the one that used the key may have had.
    if (type === 'idempotency_error') return declined('processor_error', error)
  }
  // An earlier request with this key is being answered: that one may have an effect.
  if (status === 409 && code === 'idempotency_key_in_use')
    return { kind: 'ambiguous', reason, replayed: false, ...parseRetryAfter(error.headers?.['retry-after']) }
  return { kind: 'ambiguous', reason, replayed: isReplayed(error.headers) }
}

/** What our client rejected with, which the SDK wraps. */
export function causeOf(error: unknown): unknown {
  return error instanceof Stripe.errors.StripeConnectionError ? error.detail : error
}

/** The processor says that it knows no such object. */
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

/** Without the processor's own text: on 401 it repeats part of the key. */
function describe(error: Stripe.errors.StripeError): string {
  const words = [error.statusCode, error.rawType, error.code, error.requestId]
  return words.filter((word) => word !== undefined && word !== '').join(' ')
}

/** Stripe's refusals name the token that they refuse; it belongs neither into an answer nor into a row. */
export function withoutToken<T>(token: string | null, instead: string, outcome: Outcome<T>): Outcome<T> {
  if (outcome.kind !== 'declined' || token === null) return outcome
  const message = outcome.failure.message.replaceAll(`'${token}'`, instead).replaceAll(token, instead)
  return { ...outcome, failure: { ...outcome.failure, message } }
}

/** For a retrieval: what does not exist is null. */
export function nullIfMissing(error: unknown): null {
  if (isMissing(error)) return null
  throw error
}

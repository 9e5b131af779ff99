// Stripe's errors: a status, an `error` object, and whether the answer is stored under the idempotency key.

export type StripeError = {
  type: 'api_error' | 'card_error' | 'idempotency_error' | 'invalid_request_error'
  message: string
  code?: string
  param?: string
  decline_code?: string
  network_decline_code?: string
  charge?: string
  payment_intent?: unknown
  payment_method?: unknown
}

/**
 * An error answer, thrown by operations. `executed`: whether the endpoint had started. If so, the answer is stored
 * under the idempotency key.
 */
export class Refusal extends Error {
  status: number
  error: StripeError
  executed: boolean

  constructor(status: number, error: StripeError, { executed }: { executed: boolean }) {
    super(error.message)
    this.status = status
    this.error = error
    this.executed = executed
  }
}

/** The JSON body of a refusal. `logged`: the request and its time in unix seconds; null: no link to the log. */
export function errorBody(error: StripeError, logged: { request_id: string; at_s: number } | null): string {
  const { type, ...rest } = error
  return JSON.stringify({
    error: {
      ...rest,
      ...(error.code && {
        doc_url: `https://stripe.com/docs/error-codes/${error.code.replaceAll('_', '-')}`,
      }),
      ...(logged && {
        request_log_url: `https://dashboard.stripe.com/test/logs/${logged.request_id}?t=${logged.at_s}`,
      }),
      type,
    },
  })
}

/** A 400 for invalid parameters, before the endpoint started. */
export function parameterRefused(message: string, param: string | undefined, code?: string): Refusal {
  return new Refusal(
    400,
    { type: 'invalid_request_error', message, ...(code && { code }), ...(param && { param }) },
    { executed: false },
  )
}

/** A 404 for an unknown id in the path, or a 400 for an unknown id in a parameter. */
export function resourceMissing(status: 400 | 404, resource: string, id: string, param: string): Refusal {
  const message = `No such ${resource}: '${id}'`
  return new Refusal(
    status,
    { type: 'invalid_request_error', code: 'resource_missing', message, param },
    { executed: true },
  )
}

/** Stripe's messages for some error codes. */
const MESSAGES: Record<string, string> = {
  balance_insufficient:
    'You have insufficient available funds in your Stripe account. Try adding funds directly to your available balance by creating Charges using the 4000000000000077 test card.',
  bank_account_unusable:
    'The bank account provided cannot be used for payouts. A different bank account must be used.',
  insufficient_capabilities_for_transfer:
    'Your destination account needs to have at least one of the following capabilities enabled: transfers, crypto_transfers, legacy_payments',
}

/** A 400 after the endpoint started: the operation is refused. */
export function requestRefused(
  code: string | null,
  param: string | undefined,
  message = MESSAGES[code ?? ''] ?? 'This request was refused.',
): Refusal {
  return new Refusal(
    400,
    { type: 'invalid_request_error', message, ...(code && { code }), ...(param && { param }) },
    { executed: true },
  )
}

export function invalidState(message: string, payment_intent: unknown): Refusal {
  const error: StripeError = {
    type: 'invalid_request_error',
    code: 'payment_intent_unexpected_state',
    message,
    payment_intent,
  }
  return new Refusal(400, error, { executed: true })
}

export function unknownUrl(method: string, path: string): Refusal {
  const message = `Unrecognized request URL (${method}: ${path}). Please see https://stripe.com/docs or we can help at https://support.stripe.com/.`
  return new Refusal(404, { type: 'invalid_request_error', message }, { executed: false })
}

/** A 401 for an invalid key, or without a key (null). The message contains only the start and the end of the key. */
export function invalidApiKey(key: string | null): Refusal {
  const message =
    key === null
      ? "You did not provide an API key. You need to provide your API key in the Authorization header, using Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY')."
      : `Invalid API Key provided: ${key.slice(0, 8)}${'*'.repeat(8)}${key.slice(-4)}`
  return new Refusal(401, { type: 'invalid_request_error', message }, { executed: false })
}

export function keyInUse(key: string): Refusal {
  const message = `There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, and the other request is still going through): ${key}. Please try again later.`
  return new Refusal(
    409,
    { type: 'invalid_request_error', code: 'idempotency_key_in_use', message },
    { executed: false },
  )
}

export function keyReused(key: string): Refusal {
  const message = `Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '${key}' if you meant to execute a different request.`
  return new Refusal(400, { type: 'idempotency_error', message }, { executed: false })
}

export function rateLimited(): Refusal {
  const message =
    'Request rate limit exceeded. Learn more about rate limits here https://stripe.com/docs/rate-limits.'
  return new Refusal(429, { type: 'invalid_request_error', code: 'rate_limit', message }, { executed: false })
}

/** A 400 of a host that limits the size of a sandbox. Stripe has no such error. */
export function sandboxFull(): Refusal {
  const message =
    'The sandbox is full of objects that are still open. Capture or cancel payments, and cancel payouts and verifications, to make room.'
  return new Refusal(
    400,
    { type: 'invalid_request_error', code: 'sandbox_full', message },
    { executed: false },
  )
}

export function serverError(): Refusal {
  return new Refusal(500, { type: 'api_error', message: 'An unknown error occurred' }, { executed: true })
}

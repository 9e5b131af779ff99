// The error catalogue: one row per code, one status per code.

/** Every error code of the API, with its status and default message. */
export const ERRORS = {
  invalid_request: [400, 'The request is invalid.'],
  template_invalid: [400, 'The template does not render.'],
  unauthorized: [401, 'A valid API key is required: send `Authorization: Bearer <API_KEY>`.'],
  payment_declined: [402, 'The processor declined the payment.'],
  missing_scope: [403, 'The API key lacks a scope.'],
  forbidden: [403, 'This is not allowed.'],
  test_mode_only: [403, 'A key of test mode is required.'],
  not_found: [404, 'Not found.'],
  route_not_found: [404, 'There is no such route.'],
  customer_not_found: [404, 'Customer not found.'],
  recipient_not_found: [404, 'Recipient not found.'],
  merchant_not_found: [404, 'Merchant not found.'],
  payment_not_found: [404, 'Payment not found.'],
  refund_not_found: [404, 'Refund not found.'],
  dispute_not_found: [404, 'Dispute not found.'],
  payout_not_found: [404, 'Payout not found.'],
  top_up_not_found: [404, 'Top-up not found.'],
  kyc_not_found: [404, 'Verification not found.'],
  ai_task_not_found: [404, 'AI task not found.'],
  message_not_found: [404, 'Message not found.'],
  template_not_found: [404, 'Template not found.'],
  suppression_not_found: [404, 'Suppression not found.'],
  event_not_found: [404, 'Event not found.'],
  webhook_endpoint_not_found: [404, 'Webhook endpoint not found.'],
  webhook_delivery_not_found: [404, 'Delivery not found.'],
  webhook_recovery_not_found: [404, 'Recovery not found.'],
  idempotency_key_not_found: [404, 'No request with this idempotency key is known.'],
  request_timeout: [408, 'The request did not arrive in time.'],
  payment_not_capturable: [409, 'The payment cannot be captured in its present state.'],
  payment_not_cancelable: [409, 'The payment cannot be canceled in its present state.'],
  payment_not_refundable: [409, 'The payment cannot be refunded in its present state.'],
  payout_not_cancelable: [409, 'The payout cannot be canceled in its present state.'],
  payout_not_failable: [409, 'The payout cannot be failed in its present state.'],
  kyc_open: [409, 'A verification of this subject is still open.'],
  kyc_already_decided: [409, 'The verification is already decided.'],
  kyc_outdated: [
    409,
    'The verification no longer counts: its party has other content, or a later verification.',
  ],
  kyc_not_linkable: [409, 'The provider returns no link to the verification in its present state.'],
  ai_task_not_cancelable: [409, 'The AI task cannot be canceled in its present state.'],
  message_not_cancelable: [409, 'The message cannot be canceled in its present state.'],
  template_exists: [409, 'A template with this name already exists.'],
  event_expired: [409, 'The event is older than the retention of events.'],
  conflict: [409, 'The request conflicts with the present state.'],
  feed_restarted: [409, 'The event no longer exists: the feed was restarted.'],
  recovery_in_progress: [409, 'A recovery of this endpoint is still in progress.'],
  test_clock_ahead: [409, 'The clock only moves forward.'],
  payload_too_large: [413, 'The request body is too large.'],
  unsupported_media_type: [415, 'The body must be application/json.'],
  idempotency_key_reused: [422, 'The idempotency key was used before with other content.'],
  amount_too_large: [422, 'The amount is too large.'],
  refund_exceeds_captured: [422, 'The refund exceeds the captured amount that is not yet refunded.'],
  payment_invalid: [422, 'The payment is not acceptable.'],
  payout_invalid: [422, 'The payout is not acceptable.'],
  insufficient_balance: [422, 'The payout exceeds the available balance.'],
  payout_refused: [422, 'The processor refused the payout.'],
  kyc_invalid: [422, 'The subject cannot be verified.'],
  kyc_refused: [422, 'The provider refused the verification.'],
  destination_not_allowed: [422, 'SMS to the country of this number are not allowed.'],
  too_many_webhook_endpoints: [422, 'The limit of 20 webhook endpoints is reached.'],
  rate_limited: [429, 'Too many requests.'],
  headers_too_large: [431, 'The request headers are too large.'],
  internal_error: [500, 'Something went wrong on our side.'],
  email_send_failed: [500, 'The email could not be sent.'],
  misconfigured_gateway: [500, 'This part of the API is not deployed here.'],
  processor_error: [502, 'The payment processor failed.'],
  sms_send_failed: [502, 'The SMS could not be sent.'],
  overloaded: [503, 'The service is overloaded. Nothing was accepted: retry later.'],
  timeout: [
    503,
    'The answer took too long. If the request was a create, its outcome is unknown: repeat it with the same idempotency key.',
  ],
  database_unavailable: [
    503,
    'The database is unavailable. If the request was a create, its outcome is unknown: repeat it with the same idempotency key.',
  ],
} as const satisfies Record<string, readonly [number, string]>

export type ErrorCode = keyof typeof ERRORS

/** The limits that refuse requests with `rate_limited` or `overloaded`. `other`: a limit without a name. */
export const LIMIT_NAMES = [
  'key',
  'tenant',
  'address',
  'debt',
  'invalid_keys',
  'key_lookups',
  'sessions',
  'passwords',
  'connections',
  'bodies',
  'body_memory',
  'answers',
  'lists',
  'event_loop',
  'statements',
  'messages',
  'message_memory',
  'templates',
  'endpoints',
  'waits',
  'notifications',
  'other',
] as const
type LimitName = (typeof LIMIT_NAMES)[number]

/** An error for the caller. It may be thrown anywhere; one error handler turns it into an answer. */
export class AppError extends Error {
  readonly code: ErrorCode
  /** The invalid field or parameter. */
  readonly param: string | undefined
  readonly details: { param: string; message: string }[] | undefined
  /** Further facts of this code, e.g. `decline_code`. */
  readonly context: Record<string, unknown> | undefined
  readonly retry_after_s: number | undefined
  /** The limit that refused the request, for the metric `sluice_requests_limited_total`. Callers do not see it. */
  readonly limited_by: LimitName | undefined

  constructor(
    code: ErrorCode,
    facts: {
      message?: string
      param?: string
      details?: { param: string; message: string }[]
      context?: Record<string, unknown>
      retry_after_s?: number
      limited_by?: LimitName
      cause?: unknown
    } = {},
  ) {
    super(facts.message ?? ERRORS[code][1], { cause: facts.cause })
    this.name = 'AppError'
    this.code = code
    this.param = facts.param
    this.details = facts.details
    this.context = facts.context
    this.retry_after_s = facts.retry_after_s
    this.limited_by = facts.limited_by
  }

  get status(): number {
    return ERRORS[this.code][0]
  }
}

// The outcomes of a provider call, and of an attempt at a job: values, not exceptions.

/** The failure codes of AI tasks. The task shows them; API errors do not. */
export const AI_FAILURES = ['ai_refused', 'ai_invalid_output', 'ai_timeout', 'ai_error'] as const
export type AiFailure = { code: (typeof AI_FAILURES)[number]; message: string }

/** The failure codes of messages that were not sent or not delivered. */
export const MESSAGE_FAILURES = [
  'recipient_refused',
  'sender_refused',
  'content_refused',
  'connection_failed',
  'invalid_number',
  'opted_out',
  'unreachable',
  'provider_error',
  'not_resolved',
] as const
/** `message` and `provider_code` contain no email address and no phone number: they are stored and logged unchanged. */
export type MessageFailure = {
  code: (typeof MESSAGE_FAILURES)[number]
  message: string
  /** The provider's own code, e.g. `550 5.1.1` or `21211`. */
  provider_code: string | null
}

/** A definitive failure. `code`: a code of the error catalogue, or a failure code that only the resource shows. */
export type Failure = {
  code:
    | 'payment_declined'
    | 'payment_not_capturable'
    | 'payment_invalid'
    | 'payout_refused'
    | 'kyc_refused'
    | 'email_send_failed'
    | 'sms_send_failed'
    | 'processor_error'
  message: string
  /** The processor's own code, e.g. `insufficient_funds`. */
  processor_code?: string
  decline_code?: string
  /** For a message: the provider's own code and text. */
  provider_code?: string
  provider_message?: string
  /** Further facts for the caller. */
  context?: Record<string, string | number>
}

export type Outcome<T, F = Failure> =
  /** The effect happened. */
  | { kind: 'done'; value: T }
  /**
   * The effect did not happen and will not happen under this idempotency key. `reference`: the processor's id of the
   * failed object, if it created one.
   */
  | { kind: 'declined'; failure: F; reference?: string }
  /** The effect has certainly not happened yet; a retry with the same key is safe. */
  | { kind: 'retry'; reason: string; after_ms?: number }
  /**
   * The effect is unknown. `replayed`: the processor repeated a stored answer, so a retry with this key shows nothing
   * new. `late`: no answer arrived within the deadline. `after_ms`: the minimum delay of a retry.
   */
  | { kind: 'ambiguous'; reason: string; replayed: boolean; late?: boolean; after_ms?: number }
  /** Our credentials or configuration were refused; nothing happened. */
  | { kind: 'misconfigured'; reason: string }

/** Every outcome except `done`. */
export type UnsuccessfulOutcome<F = Failure> = Exclude<Outcome<unknown, F>, { kind: 'done' }>

/** The outcome of an attempt at a job. */
export type AttemptOutcome =
  | Outcome<unknown>['kind']
  /** The effect of the job's provider call is unknown; further attempts look the call up. */
  | 'unknown'
  /** The job is parked. */
  | 'parked'
  /** The attempt sent nothing, and the job was returned to the queue. */
  | 'returned'
  /** The job was ended without success. */
  | 'discarded'
  /** An operator decided that the call never took effect. */
  | 'resolved'
  /** The lease was lost, and the fence refused the write. */
  | 'fenced'

// The outcomes of a provider call, and of an attempt at a job: values, not exceptions.

/** Why an AI task failed; the task shows it, no error does. */
export const AI_FAILURES = ['ai_refused', 'ai_invalid_output', 'ai_timeout', 'ai_error'] as const
export type AiFailure = { code: (typeof AI_FAILURES)[number]; message: string }

/** Why a message was not sent or did not arrive. */
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
/** `message` and `provider_code` name no address and no number: they are stored and logged as they are. */
export type MessageFailure = {
  code: (typeof MESSAGE_FAILURES)[number]
  message: string
  /** The provider's own code, e.g. `550 5.1.1` or `21211`. */
  provider_code: string | null
}

/** Why something definitively did not happen. `code` is in the error catalogue, unless the resource shows its failure. */
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
  /** The processor's own word for it, e.g. `insufficient_funds`. */
  processor_code?: string
  decline_code?: string
  /** Of a message, what its provider said. */
  provider_code?: string
  provider_message?: string
  /** Facts for the caller. */
  context?: Record<string, string | number>
}

export type Outcome<T, F = Failure> =
  /** It happened. */
  | { kind: 'done'; value: T }
  /**
   * It definitively did not happen and will not under this key. `reference`: the processor's id of the failed object,
   * if it made one.
   */
  | { kind: 'declined'; failure: F; reference?: string }
  /** It certainly has not happened yet; it may be tried again with the same key. */
  | { kind: 'retry'; reason: string; after_ms?: number }
  /**
   * Not known. `replayed`: the processor repeated a stored answer, so sending again with this key tells nothing new.
   * `late`: no answer came within the deadline. `after_ms`: not to be sent again sooner.
   */
  | { kind: 'ambiguous'; reason: string; replayed: boolean; late?: boolean; after_ms?: number }
  /** Our credentials or set-up were refused; nothing happened. */
  | { kind: 'misconfigured'; reason: string }

/** All but `done`. */
export type UnsuccessfulOutcome<F = Failure> = Exclude<Outcome<unknown, F>, { kind: 'done' }>

/** How an attempt at a job ended. */
export type AttemptOutcome =
  | Outcome<unknown>['kind']
  /** Whether its call took effect is not known; it is looked up from now on. */
  | 'unknown'
  /** The job is set aside. */
  | 'parked'
  /** The attempt sent nothing and was given back. */
  | 'returned'
  /** The job was ended without being done. */
  | 'discarded'
  /** An operator decided that the call never took effect. */
  | 'resolved'
  /** Its lease was lost, and the fence refused what it wrote. */
  | 'fenced'

// The resources of the API, and what is sent to it.

/** Something that a language model does. */
export interface AiTask {
  /** The id of the task. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  kind: AiTaskKind
  status: AiTaskStatus
  /** The model that answered; before, the one that was asked for, null for the usual one. */
  model: string | null
  /** The most tokens that the answer may have, if it was said. */
  max_output_tokens: number | null
  /** By its kind; null unless it succeeded, once it is older than outputs are kept, and in lists. */
  output: GenerateOutput | ClassifyOutput | ExtractOutput | null
  /** Tokens of the attempt that ended it; null where the provider told none. */
  usage: AiTaskUsage | null
  /** Why it failed; null unless it did. */
  failure: AiTaskFailure | null
  /** How often the provider was asked. */
  attempts: number
  /** When the first attempt began. */
  started_at: string | null
  /** When it ended; null while it has not. */
  finished_at: string | null
  metadata: Metadata
  /** Unique among your AI tasks: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** The AI task as it then stood, without its output. */
export interface AiTaskEventData {
  /** The id of the task. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  kind: AiTaskKind
  status: AiTaskStatus
  /** The model that answered; before, the one that was asked for, null for the usual one. */
  model: string | null
  /** The most tokens that the answer may have, if it was said. */
  max_output_tokens: number | null
  /** Tokens of the attempt that ended it; null where the provider told none. */
  usage: AiTaskUsage | null
  /** Why it failed; null unless it did. */
  failure: AiTaskFailure | null
  /** How often the provider was asked. */
  attempts: number
  /** When the first attempt began. */
  started_at: string | null
  /** When it ended; null while it has not. */
  finished_at: string | null
  metadata: Metadata
  /** Unique among your AI tasks: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Why a task failed. */
export interface AiTaskFailure {
  code: AiTaskFailureCode
  /** The same for people. */
  message: string
}

/**
 * `ai_refused`: the model or its filter declined. `ai_invalid_output`: the answer is not what was
 * asked for. `ai_timeout`: no answer in time. `ai_error`: the provider failed or refused the request.
 */
export type AiTaskFailureCode = 'ai_refused' | 'ai_invalid_output' | 'ai_timeout' | 'ai_error'

/**
 * `generate`: a text. `classify`: one of the given labels. `extract`: data in the form of a JSON
 * Schema.
 */
export type AiTaskKind = 'generate' | 'classify' | 'extract'

/**
 * `queued`: waits, for its turn or after an attempt that came to nothing. `running`: an attempt is
 * under way. `succeeded`, `failed`, `canceled`: the end.
 */
export type AiTaskStatus = 'queued' | 'running' | 'succeeded' | 'failed' | 'canceled'

/** The tokens of the attempt that ended the task. */
export interface AiTaskUsage {
  /** Of what was sent. */
  input_tokens: number
  /** Of what was answered. */
  output_tokens: number
}

/** Nothing but a key. */
export interface CancelAiTask {
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** Nothing but a key. */
export interface CancelMessage {
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** Why it is canceled. */
export interface CancelPayment {
  /** Why; the processor is told too. */
  reason?: 'requested_by_customer' | 'duplicate' | 'fraudulent' | 'abandoned' | null
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** Nothing but a key. */
export interface CancelPayout {
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** What is taken. */
export interface CapturePayment {
  /** At most what is held; the rest is released. Left out: all. */
  amount_minor?: number
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** A text and its possible labels. */
export interface ClassifyInput {
  /** What is classified. */
  text: string
  /** One of these is the answer. */
  labels: string[]
}

/** Of a task of kind `classify`. */
export interface ClassifyOutput {
  /** One of the given labels. */
  label: string
}

/** An AI task to be. */
export type CreateAiTask =
  | {
      /** What is done. */
      kind: 'generate'
      input: GenerateInput
      /** The model, as the provider calls it; left out: the usual one of this installation. */
      model?: string | null
      /** The most tokens of the answer. A longer one is cut off, and the task fails. */
      max_output_tokens?: number | null
      /**
       * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
       * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
       */
      metadata?: Metadata
      /**
       * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
       * may stand in for it.
       */
      idempotency_key?: string
    }
  | {
      /** What is done. */
      kind: 'classify'
      input: ClassifyInput
      /** The model, as the provider calls it; left out: the usual one of this installation. */
      model?: string | null
      /** The most tokens of the answer. A longer one is cut off, and the task fails. */
      max_output_tokens?: number | null
      /**
       * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
       * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
       */
      metadata?: Metadata
      /**
       * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
       * may stand in for it.
       */
      idempotency_key?: string
    }
  | {
      /** What is done. */
      kind: 'extract'
      input: ExtractInput
      /** The model, as the provider calls it; left out: the usual one of this installation. */
      model?: string | null
      /** The most tokens of the answer. A longer one is cut off, and the task fails. */
      max_output_tokens?: number | null
      /**
       * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
       * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
       */
      metadata?: Metadata
      /**
       * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
       * may stand in for it.
       */
      idempotency_key?: string
    }

/** A customer to be. */
export interface CreateCustomer {
  /** What they are called. */
  name?: string | null
  /** Kept as it is sent; not checked. */
  email?: string | null
  /** Kept as it is sent; not checked. */
  phone?: string | null
  /** Your own identifier. */
  external_id?: string | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** A merchant to be. */
export interface CreateMerchant {
  /** What they are called in contracts. */
  legal_name: string
  /** What buyers know them by. */
  display_name: string
  /** ISO 3166-1 alpha-2 country code. */
  country: string
  /** Where buyers write to. */
  support_email: string
  /** Their site; http or https. */
  url?: string | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** A template to be. */
export interface CreateMessageTemplate {
  /** Unique among your templates. */
  name: string
  channel: MessageChannel
  /** Of an email; renders to one line. */
  subject?: string | null
  /** The text of an email. */
  text?: string | null
  /** The HTML of an email; what is filled in is escaped. */
  html?: string | null
  /** The text of an SMS. */
  body?: string | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** A payment to be. */
export interface CreatePayment {
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /** ISO 4217 currency code. */
  currency: string
  /** The payment method; `card` is the only one so far. */
  method: 'card'
  /** A customer of yours who pays. */
  customer_id?: string | null
  /** A merchant of yours on whose behalf it is taken. */
  merchant_id?: string | null
  /** Your words for it. */
  description?: string | null
  /**
   * A processor token, e.g. `pm_card_visa`. Without it the answer carries `client_secret` and the buyer
   * confirms with the processor's own front end.
   */
  payment_method?: string | null
  /** Where the buyer returns to after 3-D Secure; http or https. */
  return_url?: string | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** A payout to be. */
export interface CreatePayout {
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /** ISO 4217 currency code. */
  currency: string
  /** A recipient of yours who is paid, in the same currency. */
  recipient_id: string
  /** Your words for it. */
  description?: string | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** A recipient to be. */
export interface CreateRecipient {
  /** Whom the money goes to. */
  name: string
  /** Where they can be written to. */
  email?: string | null
  type: RecipientType
  /** ISO 4217 currency code of their payouts, in any case. */
  currency: string
  /** ISO 3166-1 alpha-2 country code. */
  country: string
  /**
   * The processor's token of where the money goes: `ba_...` with `bank_account`, `card_...` with `card`,
   * `acct_...` with `account`. Never the number of an account or a card: that is refused and kept
   * nowhere.
   */
  destination: string
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** What goes back. */
export interface CreateRefund {
  /** Left out: all that was captured and that no other refund gives back. */
  amount_minor?: number | null
  /** Why; the processor is told too. */
  reason?: 'duplicate' | 'fraudulent' | 'requested_by_customer' | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** An address or number that is to get nothing any more. */
export interface CreateSuppression {
  channel: MessageChannel
  /** An email address without a name, or a number in E.164. Compared without case. */
  address: string
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** A top-up to be. */
export interface CreateTopUp {
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /** ISO 4217 currency code. */
  currency: string
  /**
   * A processor's token of where the money comes from. Left out: the bank account that the platform has
   * set up with the processor. It is shown masked.
   */
  source?: string | null
  /** Your words for it. */
  description?: string | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** A verification to be. */
export interface CreateVerification {
  subject_type: KycSubjectType
  /** The customer, merchant or recipient who is verified. */
  subject_id: string
  /** Where the person is sent after the page of the provider; http or https. */
  return_url?: string | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** Where events are to be sent to. */
export interface CreateWebhookEndpoint {
  /**
   * http or https, in production https on port 443 or 8443. It may lead to no private address, and have
   * no user or password.
   */
  url: string
  /** Which events are sent: `*` for all, `<noun>.*`, or types. */
  types: EventTypes[]
  /** Yours. */
  description?: string | null
  /** Headers of yours that each request carries. Stored encrypted. */
  headers?: Record<string, string>
  /**
   * Whether events are sent one after the other, by their sequence. One that fails then holds up the
   * later ones until it is final.
   *
   * `false` unless said otherwise.
   */
  ordered?: boolean
  /**
   * The most requests at one moment; fewer while the endpoint is slow or only fails. Tests and replays
   * come on top.
   *
   * `10` unless said otherwise.
   */
  max_in_flight?: number
  /** The most requests in a second, spread over it; null: as many as there are. */
  rate_per_s?: number | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** Somebody who pays. */
export interface Customer {
  /** The id of the customer. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  /** What they are called. */
  name: string | null
  /** As it was sent. */
  email: string | null
  /** As it was sent. */
  phone: string | null
  /** Your own identifier. */
  external_id: string | null
  kyc_status: KycStatus
  metadata: Metadata
  /** Unique among your customers: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** When it was deleted; null while it is not. */
  deleted_at: string | null
}

/** The customer as it then stood; without what is personal once it is deleted. */
export interface CustomerEventData {
  /** The id of the customer. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  /** What they are called. */
  name?: string | null
  /** As it was sent. */
  email?: string | null
  /** As it was sent. */
  phone?: string | null
  /** Your own identifier. */
  external_id: string | null
  kyc_status?: KycStatus
  metadata?: Metadata
  /** Unique among your customers: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** When it was deleted; null while it is not. */
  deleted_at: string | null
}

/** What is decided, and why. */
export interface DecideVerification {
  decision: KycDecision
  /** Why; shown as `decision_reason`. */
  reason: string
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** Money of a payment that the buyer's bank asks back. */
export interface Dispute {
  /** The id of the dispute. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The payment that is disputed. */
  payment_id: string
  /** Who moves the money. */
  processor: string
  /** The dispute at the processor. */
  processor_reference: string
  status: DisputeStatus
  /** What the buyer says, in the words of the processor. */
  reason: string | null
  /** What is disputed, in the smallest unit. */
  amount_minor: number
  /** ISO 4217 currency code. */
  currency: string
  /** What was taken from your balance. */
  amount_withdrawn_minor: number
  /** What of it came back. */
  amount_reinstated_minor: number
  /** Until when the processor takes your answer; null where it takes none. */
  evidence_due_by: string | null
  /** When it was opened at the processor. */
  opened_at: string
  /** When its end became known here; null while it is open, also again. */
  closed_at: string | null
  metadata: Metadata
  /** Unique among your disputes: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/**
 * `needs_response`: you can answer it at the processor. `under_review`: the buyer's bank decides.
 * `won`: the money is yours again. `lost`: the buyer has it; an appeal can still change that.
 * `warning`: an inquiry, which takes no money; `closed_at` says whether it is over.
 */
export type DisputeStatus = 'needs_response' | 'under_review' | 'won' | 'lost' | 'warning'

/** Where our books and the processor differ. */
export interface Drift {
  /** The id of the drift. */
  id: string
  /** Whose it is. */
  tenant_id: string
  subject: DriftSubject
  /** The row that differs. */
  subject_id: string
  /** The payment; null for what belongs to none. */
  payment_id: string | null
  state: DriftState
  /** What we think. */
  ours: DriftSide
  /** What the processor says, in our words; null while it is not known, or where it knows none. */
  theirs: DriftSide | null
  /** What else is known. */
  detail: string | null
  /** Since when. */
  since: string
  /** For how many seconds. */
  age_s: number
  /** When the processor was last asked. */
  checked_at: string | null
  /** When it was noticed: the cursor of lists. */
  created_at: string
}

/** How one side sees it. */
export interface DriftSide {
  /** In our words. */
  status: string
  /** The whole amount. */
  amount_minor?: number
  /** What is held; of payments only. */
  amount_capturable_minor?: number
  /** What was taken; of payments only. */
  amount_captured_minor?: number
  /**
   * What went back; of payments only. Ours: by refunds that have succeeded. Theirs: by all that have not
   * failed.
   */
  amount_refunded_minor?: number | null
  /** By refunds that are under way or have succeeded here; of payments only. */
  amount_refund_reserved_minor?: number
  /** ISO 4217 currency code. */
  currency?: string
  /** Its id at the processor. */
  processor_reference?: string | null
  /** What was taken from the balance; of disputes only. */
  amount_withdrawn_minor?: number | null
  /** What of it came back; of disputes only. */
  amount_reinstated_minor?: number | null
  /** What was paid of it and has not come back; of payouts only. */
  out_minor?: number
  /** Its id at the provider; of verifications only. */
  provider_reference?: string | null
  /** Who decided it here; of verifications only. */
  decided_by?: string | null
}

/**
 * `unknown`: whether a call to the processor took effect is not known; `stale`: under way here, and
 * not there; `differs`: settled on both sides and not alike, or the processor did what finds no place
 * here, as `detail` says.
 */
export type DriftState = 'unknown' | 'stale' | 'differs'

/** What differs. */
export type DriftSubject = 'payment' | 'refund' | 'dispute' | 'payout' | 'top_up' | 'kyc'

/** A refusal or failure. */
export interface ErrorAnswer {
  error: ErrorBody
}

/** What went wrong, and where to read on. */
export interface ErrorBody {
  code: ErrorCode
  /** The same for people. Its words may change. */
  message: string
  /** The field, parameter or header at fault. */
  param?: string
  /** Every field at fault, where there may be several. */
  details?: ErrorDetail[]
  /** Facts of this code, e.g. `decline_code` and `payment_id` of `payment_declined`. */
  context?: Record<string, unknown>
  /** The id of the request, as in `x-request-id`. */
  request_id: string
  /** What to do about this code. */
  doc_url: string
}

/** What went wrong. New codes may come: go by the status of one you do not know. */
export type ErrorCode =
  | 'invalid_request'
  | 'template_invalid'
  | 'unauthorized'
  | 'payment_declined'
  | 'missing_scope'
  | 'forbidden'
  | 'not_found'
  | 'route_not_found'
  | 'customer_not_found'
  | 'recipient_not_found'
  | 'merchant_not_found'
  | 'payment_not_found'
  | 'refund_not_found'
  | 'dispute_not_found'
  | 'payout_not_found'
  | 'top_up_not_found'
  | 'kyc_not_found'
  | 'ai_task_not_found'
  | 'message_not_found'
  | 'template_not_found'
  | 'suppression_not_found'
  | 'event_not_found'
  | 'webhook_endpoint_not_found'
  | 'webhook_delivery_not_found'
  | 'webhook_recovery_not_found'
  | 'idempotency_key_not_found'
  | 'request_timeout'
  | 'payment_not_capturable'
  | 'payment_not_cancelable'
  | 'payment_not_refundable'
  | 'payout_not_cancelable'
  | 'payout_not_failable'
  | 'kyc_open'
  | 'kyc_already_decided'
  | 'kyc_not_linkable'
  | 'ai_task_not_cancelable'
  | 'message_not_cancelable'
  | 'template_exists'
  | 'event_expired'
  | 'conflict'
  | 'recovery_in_progress'
  | 'payload_too_large'
  | 'unsupported_media_type'
  | 'idempotency_key_reused'
  | 'amount_too_large'
  | 'refund_exceeds_captured'
  | 'payment_invalid'
  | 'payout_invalid'
  | 'insufficient_balance'
  | 'payout_refused'
  | 'kyc_invalid'
  | 'kyc_refused'
  | 'destination_not_allowed'
  | 'too_many_webhook_endpoints'
  | 'rate_limited'
  | 'headers_too_large'
  | 'internal_error'
  | 'email_send_failed'
  | 'misconfigured_gateway'
  | 'processor_error'
  | 'sms_send_failed'
  | 'overloaded'
  | 'database_unavailable'

/** One field at fault. */
export interface ErrorDetail {
  /** The field or parameter. */
  param: string
  /** What is wrong with it. */
  message: string
}

/** `*` for all, `<noun>.*`, or a type. */
export type EventTypes =
  | '*'
  | 'customer.*'
  | 'recipient.*'
  | 'merchant.*'
  | 'payment.*'
  | 'refund.*'
  | 'payout.*'
  | 'top_up.*'
  | 'kyc.*'
  | 'ai_task.*'
  | 'message.*'
  | 'template.*'
  | 'suppression.*'
  | 'webhook_endpoint.*'
  | 'customer.created'
  | 'customer.updated'
  | 'customer.deleted'
  | 'recipient.created'
  | 'recipient.updated'
  | 'recipient.archived'
  | 'merchant.created'
  | 'merchant.updated'
  | 'merchant.archived'
  | 'payment.created'
  | 'payment.requires_action'
  | 'payment.authorized'
  | 'payment.authorization_failed'
  | 'payment.capture_expiring'
  | 'payment.captured'
  | 'payment.capture_failed'
  | 'payment.canceled'
  | 'payment.cancel_failed'
  | 'payment.failed'
  | 'payment.disputed'
  | 'payment.dispute_won'
  | 'payment.dispute_lost'
  | 'payment.dispute_closed'
  | 'refund.created'
  | 'refund.succeeded'
  | 'refund.failed'
  | 'payout.created'
  | 'payout.processing'
  | 'payout.paid'
  | 'payout.failed'
  | 'payout.canceled'
  | 'top_up.created'
  | 'top_up.succeeded'
  | 'top_up.failed'
  | 'top_up.canceled'
  | 'top_up.reversed'
  | 'kyc.created'
  | 'kyc.requires_input'
  | 'kyc.processing'
  | 'kyc.approved'
  | 'kyc.rejected'
  | 'ai_task.created'
  | 'ai_task.succeeded'
  | 'ai_task.failed'
  | 'ai_task.canceled'
  | 'message.created'
  | 'message.sent'
  | 'message.delivered'
  | 'message.undelivered'
  | 'message.failed'
  | 'message.unknown'
  | 'message.suppressed'
  | 'message.canceled'
  | 'message.bounced'
  | 'message.complained'
  | 'template.created'
  | 'template.updated'
  | 'template.deleted'
  | 'suppression.created'
  | 'suppression.deleted'
  | 'webhook_endpoint.created'
  | 'webhook_endpoint.updated'
  | 'webhook_endpoint.disabled'
  | 'webhook_endpoint.enabled'
  | 'webhook_endpoint.deleted'

/** A text, and the form of the data to take from it. */
export interface ExtractInput {
  /** What data is taken from. */
  text: string
  /**
   * A JSON Schema, draft 2020-12, that the data validates against; at most 16 KiB and 1,000 values.
   * `$ref` leads into the schema itself only (`#/$defs/...`); `$id`, `$anchor`, `$dynamicRef`,
   * `$dynamicAnchor`, `$vocabulary` and `$async` are refused. `format` is not checked.
   */
  schema: Record<string, unknown>
}

/** Of a task of kind `extract`. */
export interface ExtractOutput {
  /** What the text says, valid by the given JSON Schema. */
  data: unknown
}

/** Why it has failed. */
export interface FailPayout {
  /** Why; shown as its failure. */
  reason: string
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** What a text is made from. */
export interface GenerateInput {
  /** What to write. */
  prompt: string
  /** Who the model is and how it writes. */
  system?: string | null
}

/** Of a task of kind `generate`. */
export interface GenerateOutput {
  /** What was written. */
  text: string
}

/** What was decided. */
export type KycDecision = 'approved' | 'rejected'

/** What was wrong. */
export interface KycFailure {
  /**
   * Of one that requires input, the provider's word for what was wrong. `kyc_refused`,
   * `processor_error`: the provider did not take it. Of one whose session ended without a decision:
   * `canceled`, at the provider; `abandoned`, nobody went on with it for too long; `subject_gone`, the
   * customer was deleted, or the merchant or recipient archived.
   */
  code: string
  /** The same for people. */
  message: string
}

/** How the latest verification stands; `none` while there was none. */
export type KycStatus = 'none' | 'pending' | 'requires_input' | 'processing' | 'approved' | 'rejected'

/** What is verified. */
export type KycSubjectType = 'customer' | 'merchant' | 'recipient'

/** Nothing but a key. */
export interface LinkVerification {
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** Somebody on whose behalf you take payments. */
export interface Merchant {
  /** The id of the merchant. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  /** What they are called in contracts. */
  legal_name: string
  /** What buyers know them by. */
  display_name: string
  /** ISO 3166-1 alpha-2 country code, in upper case. */
  country: string
  /** Where buyers write to. */
  support_email: string
  /** Their site. */
  url: string | null
  kyc_status: KycStatus
  /** When it was archived; null while it is not. */
  archived_at: string | null
  metadata: Metadata
  /** Unique among your merchants: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** An email or SMS. Texts and attachments are null in lists, and once they are erased. */
export interface Message {
  /** The id of the message. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  channel: MessageChannel
  status: MessageStatus
  /** Your words to find it by. */
  tags: string[]
  /** Who sends it. */
  provider: string
  /** The provider's id of an SMS, or the Message-ID of an email; null until it was sent. */
  provider_reference: string | null
  /** Why it was not sent or did not arrive; null otherwise. */
  failure: MessageFailure | null
  /** Of an SMS: into how many parts it is cut, each of which is charged. */
  segments: number | null
  /** Of an SMS: how its characters are written. */
  encoding: 'GSM-7' | 'UCS-2' | null
  /** Of an SMS: what it cost; null until the provider says so. */
  price: MessagePrice | null
  /** When it is to go; null: at once. */
  send_at: string | null
  /** When the provider took it. */
  sent_at: string | null
  /** When the provider says that it arrived. */
  delivered_at: string | null
  /** When its text and attachments were erased. */
  redacted_at: string | null
  metadata: Metadata
  /** Unique among your messages: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** Whom it is from. */
  from: string
  /** Whom it goes to: addresses of an email, the number of an SMS. */
  to: string | string[]
  /** Whom an email also goes to. */
  cc: string[] | null
  /** Whom an email also goes to, unseen by the others. */
  bcc: string[] | null
  /** Where answers to an email go. */
  reply_to: string | null
  /** Of an email. */
  subject: string | null
  /** Where somebody unsubscribes with one click (RFC 8058). */
  list_unsubscribe_url: string | null
  /** The text of an email. */
  text: string | null
  /** The HTML of an email. */
  html: string | null
  /** The text of an SMS. */
  body: string | null
  /** Additional headers of an email. */
  headers: Record<string, string> | null
  /** The files that go with an email. */
  attachments: MessageAttachment[] | null
  /** For how many seconds an SMS is worth delivering. */
  validity_s: number | null
  /** Of an email: each of them. */
  recipients: MessageRecipient[] | null
}

/** What became of one of several messages. */
export interface MessageAnswer {
  /**
   * The status that it would have been answered with by itself: 202 while it is queued, 201 when it is
   * scheduled or suppressed, else that of its error.
   */
  status: number
  /** The message, if it was accepted, now or before. */
  message?: Message
  /** Why it was refused. */
  error?: ErrorBody
}

/** A file that goes with an email. */
export interface MessageAttachment {
  /** Its name. */
  filename: string
  /** Its media type. */
  content_type: string
  /** In bytes. */
  size: number
}

/** How it goes. */
export type MessageChannel = 'email' | 'sms'

/** The message as it then stood, without addresses and texts. */
export interface MessageEventData {
  /** The id of the message. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  channel: MessageChannel
  status: MessageStatus
  /** Your words to find it by. */
  tags: string[]
  /** Who sends it. */
  provider: string
  /** The provider's id of an SMS, or the Message-ID of an email; null until it was sent. */
  provider_reference: string | null
  /** Why it was not sent or did not arrive; null otherwise. */
  failure: MessageFailure | null
  /** Of an SMS: into how many parts it is cut, each of which is charged. */
  segments: number | null
  /** Of an SMS: how its characters are written. */
  encoding: 'GSM-7' | 'UCS-2' | null
  /** Of an SMS: what it cost; null until the provider says so. */
  price: MessagePrice | null
  /** When it is to go; null: at once. */
  send_at: string | null
  /** When the provider took it. */
  sent_at: string | null
  /** When the provider says that it arrived. */
  delivered_at: string | null
  /** When its text and attachments were erased. */
  redacted_at: string | null
  metadata: Metadata
  /** Unique among your messages: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Why a message was not sent or did not arrive. */
export interface MessageFailure {
  code: MessageFailureCode
  /** The same for people. */
  message: string
  /** The provider's own code. */
  provider_code: string | null
}

/**
 * `recipient_refused`, `sender_refused`, `content_refused`: what the server did not take.
 * `connection_failed`: the server could not be reached, or refused us. `invalid_number`, `opted_out`,
 * `unreachable`: of the number. `provider_error`: anything else. `not_resolved`: whether it was sent
 * could not be found out.
 */
export type MessageFailureCode =
  | 'recipient_refused'
  | 'sender_refused'
  | 'content_refused'
  | 'connection_failed'
  | 'invalid_number'
  | 'opted_out'
  | 'unreachable'
  | 'provider_error'
  | 'not_resolved'

/** What the provider charges. */
export interface MessagePrice {
  /** A decimal number. */
  amount: string
  /** In upper case. */
  currency: string
}

/** One of those whom an email goes to. */
export interface MessageRecipient {
  /** The address. */
  address: string
  /** What became of it; null while nothing did. */
  status: MessageRecipientStatus | null
  /** The code of the server, if it refused. */
  code: string | null
  /** The same for people. */
  message: string | null
}

/**
 * `accepted`: the server took it for this recipient. `refused`: it did not. `bounced`: it came back
 * later, or was complained about. `suppressed`: nothing was sent. `delivered`: it arrived.
 */
export type MessageRecipientStatus = 'accepted' | 'refused' | 'bounced' | 'suppressed' | 'delivered'

/**
 * `scheduled`: it goes at `send_at`. `queued`: it waits for its turn. `sending`: the provider is being
 * asked. `sent`: the provider has taken it. `delivered`: it has arrived. `undelivered`: the provider
 * took it, and it did not arrive. `failed`: the provider did not take it. `unknown`: the provider may
 * or may not have it; it is never sent again by itself. `suppressed`: all of its recipients are
 * suppressed, nothing left. `canceled`: by you, before it left.
 */
export type MessageStatus =
  | 'scheduled'
  | 'queued'
  | 'sending'
  | 'unknown'
  | 'sent'
  | 'delivered'
  | 'undelivered'
  | 'failed'
  | 'canceled'
  | 'suppressed'

/** A text in Liquid, rendered when a message is accepted. `text`, `html` and `body` are null in lists. */
export interface MessageTemplate {
  /** The id of the template. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string | null
  /** Unique among your templates. */
  name: string
  channel: MessageChannel
  metadata: Metadata
  /** Unique among your templates: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** Of an email. */
  subject: string | null
  /** The text of an email. */
  text: string | null
  /** The HTML of an email; what is filled in is escaped. */
  html: string | null
  /** The text of an SMS. */
  body: string | null
}

/** The template as it then stood, without its texts. */
export interface MessageTemplateEventData {
  /** The id of the template. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string | null
  /** Unique among your templates. */
  name: string
  channel: MessageChannel
  metadata: Metadata
  /** Unique among your templates: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Free-form JSON of yours: any value. It comes back as sent. */
export type Metadata = unknown

/** Money that is held, taken and perhaps given back. */
export interface Payment {
  /** The id of the payment. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  status: PaymentStatus
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /** ISO 4217 currency code. */
  currency: string
  /** The payment method. */
  method: 'card'
  /** Who pays, if it was said. */
  customer_id: string | null
  /** On whose behalf it is taken, if it was said. */
  merchant_id: string | null
  /** Your words for it. */
  description: string | null
  /** Where the buyer returns to after 3-D Secure. */
  return_url: string | null
  /** What is held and can be captured. */
  amount_capturable_minor: number
  /** What was taken. */
  amount_captured_minor: number
  /** What of it went back. */
  amount_refunded_minor: number
  /** What refunds that are `pending` give back. It cannot be refunded again, unless they fail. */
  amount_refund_pending_minor: number
  /** Who moves the money. */
  processor: string
  /** The payment at the processor. */
  processor_reference: string | null
  /** For the processor's own front end, while the buyer has to act (`requires_action`); else null. */
  client_secret: string | null
  /**
   * Why it failed; while it is `requires_action`, why the last try of the buyer did; while it is
   * `authorized`, why the last capture or cancellation did; else null.
   */
  failure: PaymentFailure | null
  /** Why it was canceled, if it was said. */
  cancellation_reason: string | null
  /** When the hold lapses. Capture before. */
  capture_before: string | null
  /** When the money was held. */
  authorized_at: string | null
  /** When it was taken. */
  captured_at: string | null
  /** When it was released. */
  canceled_at: string | null
  /** The latest dispute of it; null when there is none. */
  dispute: PaymentDispute | null
  metadata: Metadata
  /** Unique among your payments: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** A dispute, as its payment shows it. */
export interface PaymentDispute {
  /** The id of the dispute. */
  id: string
  /** The dispute at the processor. */
  processor_reference: string
  status: DisputeStatus
  /** What the buyer says, in the words of the processor. */
  reason: string | null
  /** What is disputed, in the smallest unit. */
  amount_minor: number
  /** ISO 4217 currency code. */
  currency: string
  /** Until when the processor takes your answer; null where it takes none. */
  evidence_due_by: string | null
  /** When it was opened at the processor. */
  opened_at: string
  /** When its end became known here; null while it is open, also again. */
  closed_at: string | null
}

/** The payment as it then stood; when it tells of a dispute, `dispute` is that one. */
export interface PaymentEventData {
  /** The id of the payment. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  status: PaymentStatus
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /** ISO 4217 currency code. */
  currency: string
  /** The payment method. */
  method: 'card'
  /** Who pays, if it was said. */
  customer_id: string | null
  /** On whose behalf it is taken, if it was said. */
  merchant_id?: string | null
  /** Your words for it. */
  description: string | null
  /** Where the buyer returns to after 3-D Secure. */
  return_url: string | null
  /** What is held and can be captured. */
  amount_capturable_minor: number
  /** What was taken. */
  amount_captured_minor: number
  /** What of it went back. */
  amount_refunded_minor: number
  /** Who moves the money. */
  processor: string
  /** The payment at the processor. */
  processor_reference: string | null
  /**
   * Why it failed; while it is `requires_action`, why the last try of the buyer did; while it is
   * `authorized`, why the last capture or cancellation did; else null.
   */
  failure: PaymentFailure | null
  /** Why it was canceled, if it was said. */
  cancellation_reason: string | null
  /** When the hold lapses. Capture before. */
  capture_before: string | null
  /** When the money was held. */
  authorized_at: string | null
  /** When it was taken. */
  captured_at: string | null
  /** When it was released. */
  canceled_at: string | null
  /** The latest dispute of it; null when there is none. */
  dispute?: PaymentDispute | null
  metadata: Metadata
  /** Unique among your payments: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Why a payment, or the last try at it, failed. */
export interface PaymentFailure {
  /** As of errors. */
  code: string
  /** The same for people. */
  message: string
  /** The bank's reason, if it gave one. */
  decline_code?: string | null
}

/**
 * `pending`: the authorization is under way. `requires_action`: the buyer has to act. `authorized`:
 * the money is held. `capturing`, `canceling`: under way. `captured`, `canceled`, `failed`: the end.
 */
export type PaymentStatus =
  | 'pending'
  | 'requires_action'
  | 'authorized'
  | 'capturing'
  | 'captured'
  | 'canceling'
  | 'canceled'
  | 'failed'

/** Money that leaves your balance for a recipient. */
export interface Payout {
  /** The id of the payout. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  status: PayoutStatus
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /** ISO 4217 currency code, in lower case. */
  currency: string
  /** Who is paid. */
  recipient_id: string
  /** Your words for it. */
  description: string | null
  /** Who moves the money. */
  processor: string
  /** The payout or transfer at the processor; null until it has taken it. */
  processor_reference: string | null
  /** The day on which the processor expects it to arrive, once it has said so. */
  arrival_date: string | null
  /** Why it failed; null while it has not. */
  failure: PayoutFailure | null
  /** When the processor took it. */
  processing_at: string | null
  /** When it was paid. */
  paid_at: string | null
  /** When it failed. */
  failed_at: string | null
  /** When it was canceled. */
  canceled_at: string | null
  metadata: Metadata
  /** Unique among your payouts: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Why a payout failed. */
export interface PayoutFailure {
  /**
   * `payout_refused`: the processor did not take it. `failed_manually`: it was failed by hand. Else the
   * processor's word for it.
   */
  code: string
  /** The same for people; of one failed by hand, the reason that was given. */
  message: string
  /** Whether it was failed by hand. */
  manual: boolean
}

/**
 * `pending`: the processor has not taken it yet. `processing`: it is on its way. `paid`: the processor
 * has paid it; it can still come back, and is `failed` then. `failed`: it was refused, came back, or
 * was failed by hand. `canceled`: it was stopped in time. While it is `pending` or `processing` its
 * amount is reserved.
 */
export type PayoutStatus = 'pending' | 'processing' | 'paid' | 'failed' | 'canceled'

/** What is filled in. */
export interface PreviewMessageTemplate {
  /** What the template names: any JSON, up to 1,000 values in it. */
  variables?: Record<string, unknown>
}

/** Somebody who is paid. */
export interface Recipient {
  /** The id of the recipient. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  /** Whom the money goes to. */
  name: string
  /** As it was sent. */
  email: string | null
  type: RecipientType
  /** ISO 4217 currency code of their payouts, in lower case. */
  currency: string
  /** ISO 3166-1 alpha-2 country code, in upper case. */
  country: string
  /** The processor's token of where the money goes. */
  destination: string
  kyc_status: KycStatus
  /** When it was archived; null while it is not. */
  archived_at: string | null
  metadata: Metadata
  /** Unique among your recipients: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/**
 * What they are paid to. `bank_account`, `card`: payouts to a bank account or a debit card. `account`:
 * a transfer to a connected account at the processor.
 */
export type RecipientType = 'bank_account' | 'card' | 'account'

/** The time of what is sent again. */
export interface RecoverWebhookEndpoint {
  /** Of deliveries that were made from then on. */
  since: string
  /** And before then; now when left out or in the future. */
  until?: string | null
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** Money that goes back. */
export interface Refund {
  /** The id of the refund. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The payment that it gives back. */
  payment_id: string
  /** The key that it was created with; null for a refund made in the processor's dashboard. */
  idempotency_key: string | null
  status: RefundStatus
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /** ISO 4217 currency code. */
  currency: string
  /** Why, if it was said. */
  reason: string | null
  /** Whether it was made in the processor's dashboard. */
  imported: boolean
  /** Who moves the money. */
  processor: string
  /** The refund at the processor. */
  processor_reference: string | null
  /** Why it failed; null while it has not. */
  failure: RefundFailure | null
  metadata: Metadata
  /** Unique among your refunds: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Why a refund failed. */
export interface RefundFailure {
  /** What went wrong. */
  code: string
  /** The same for people. */
  message: string
}

/**
 * `pending`: under way. `succeeded`: on its way to the buyer. `failed`: the money stays; also a refund
 * that succeeded can fail, up to 30 days later.
 */
export type RefundStatus = 'pending' | 'succeeded' | 'failed'

/** A request that was accepted with this key. */
export interface RememberedRequest {
  /** The key. */
  key: string
  /** The route that it came to. */
  route: string
  /**
   * What came of it: `customer`, `recipient`, `merchant`, `payment`, `refund`, `dispute`, `payout`,
   * `top_up`, `kyc`, `ai_task`, `message`, `template`, `suppression`, `webhook_endpoint`,
   * `webhook_delivery`, `webhook_recovery`.
   */
  resource: string
  /** The id of that. */
  resource_id: string
  status: RememberedStatus
  /** When it was accepted. */
  created_at: string
}

/** How the request stands. `unknown`: whether a call to the provider took effect is being found out. */
export type RememberedStatus = 'finished' | 'under_way' | 'failed' | 'unknown'

/** What a template says with these variables. */
export interface RenderedTemplate {
  /** Of an email. */
  subject: string | null
  /** The text of an email. */
  text: string | null
  /** The HTML of an email. */
  html: string | null
  /** The text of an SMS. */
  body: string | null
}

/** Nothing but a key. */
export interface ReplayWebhookDelivery {
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** How long the secrets before it sign too. */
export interface RotateWebhookSecret {
  /**
   * For how many seconds the secrets before it sign too.
   *
   * `86400` unless said otherwise.
   */
  grace_s?: number
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** An email to be. */
export interface SendEmail {
  /** Whom it goes to. With `cc` and `bcc` at most 50; each address gets it once. */
  to: string[]
  /** Whom it also goes to. */
  cc?: string[] | null
  /** Whom it also goes to, unseen by the others. */
  bcc?: string[] | null
  /**
   * Whom it is from, at one of the domains that this installation sends for; left out: its usual
   * address.
   */
  from?: string | null
  /** Where answers go. */
  reply_to?: string | null
  /**
   * Its subject, without which only a template is taken. A template has one; the one that is given here
   * wins.
   */
  subject?: string | null
  /** Its text. One of `text`, `html` and `template` is needed. */
  text?: string | null
  /** Its HTML, with or without a `text`. */
  html?: string | null
  /** Further headers: `X-...`, `In-Reply-To`, `References`, `Auto-Submitted` and `Precedence`, each once. */
  headers?: Record<string, string> | null
  /** Words of yours to find it by. */
  tags?: string[] | null
  /** Files that go with it. The whole request takes 15 MiB at most. */
  attachments?: SentAttachment[] | null
  /**
   * Where somebody unsubscribes with one click; sets `List-Unsubscribe` and `List-Unsubscribe-Post` (RFC
   * 8058).
   */
  list_unsubscribe_url?: string | null
  /** Instead of the texts: the name or the id of a template. */
  template?: string | null
  /** What is filled into the template; up to 64 KiB and 1,000 values. */
  variables?: Record<string, unknown> | null
  /** When it is to go: in the future, at most 30 days ahead. Left out: at once. */
  send_at?: string | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** Up to 100 messages. */
export interface SendEmailBatch {
  /** The messages, each with a key of its own. */
  messages: SendEmail[]
}

/** An SMS to be. */
export interface SendSms {
  /** Whom it goes to, in the form E.164. */
  to: string
  /** Its text. Either `body` or `template` is needed. */
  body?: string | null
  /**
   * Whom it is from: a number, a messaging service (`MG...`), or a name of up to 11 letters and digits;
   * left out: the usual one of this installation.
   */
  from?: string | null
  /** For how many seconds it is worth delivering. */
  validity_s?: number | null
  /** Instead of the texts: the name or the id of a template. */
  template?: string | null
  /** What is filled into the template; up to 64 KiB and 1,000 values. */
  variables?: Record<string, unknown> | null
  /** When it is to go: in the future, at most 30 days ahead. Left out: at once. */
  send_at?: string | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** Up to 100 messages. */
export interface SendSmsBatch {
  /** The messages, each with a key of its own. */
  messages: SendSms[]
}

/** A file that goes with an email. */
export interface SentAttachment {
  /** Its name, without a path. */
  filename: string
  /** Its media type. */
  content_type: string
  /** The file itself, base64. */
  content: string
}

/** An address or number that gets nothing any more. */
export interface Suppression {
  /** The id of the suppression. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string | null
  channel: MessageChannel
  reason: SuppressionReason
  /** The message that brought it about; null where none did. */
  message_id: string | null
  metadata: Metadata
  /** Unique among your suppressions: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** The email address, or the number. */
  address: string
}

/** The suppression, without the address. */
export interface SuppressionEventData {
  /** The id of the suppression. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string | null
  channel: MessageChannel
  reason: SuppressionReason
  /** The message that brought it about; null where none did. */
  message_id: string | null
  metadata: Metadata
  /** Unique among your suppressions: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/**
 * `hard_bounce`: the address does not exist. `complaint`: somebody said that it is spam. `opt_out`:
 * somebody answered STOP, or the like, to an SMS. `manual`: by you.
 */
export type SuppressionReason = 'hard_bounce' | 'complaint' | 'opt_out' | 'manual'

/** Which event is sent. */
export interface TestWebhookEndpoint {
  /**
   * What the event is to be like; the endpoint need not take such events. When left out:
   * `payment.captured`, or the first type that the endpoint takes where it does not take that.
   */
  type?:
    | 'customer.created'
    | 'customer.updated'
    | 'customer.deleted'
    | 'recipient.created'
    | 'recipient.updated'
    | 'recipient.archived'
    | 'merchant.created'
    | 'merchant.updated'
    | 'merchant.archived'
    | 'payment.created'
    | 'payment.requires_action'
    | 'payment.authorized'
    | 'payment.authorization_failed'
    | 'payment.capture_expiring'
    | 'payment.captured'
    | 'payment.capture_failed'
    | 'payment.canceled'
    | 'payment.cancel_failed'
    | 'payment.failed'
    | 'payment.disputed'
    | 'payment.dispute_won'
    | 'payment.dispute_lost'
    | 'payment.dispute_closed'
    | 'refund.created'
    | 'refund.succeeded'
    | 'refund.failed'
    | 'payout.created'
    | 'payout.processing'
    | 'payout.paid'
    | 'payout.failed'
    | 'payout.canceled'
    | 'top_up.created'
    | 'top_up.succeeded'
    | 'top_up.failed'
    | 'top_up.canceled'
    | 'top_up.reversed'
    | 'kyc.created'
    | 'kyc.requires_input'
    | 'kyc.processing'
    | 'kyc.approved'
    | 'kyc.rejected'
    | 'ai_task.created'
    | 'ai_task.succeeded'
    | 'ai_task.failed'
    | 'ai_task.canceled'
    | 'message.created'
    | 'message.sent'
    | 'message.delivered'
    | 'message.undelivered'
    | 'message.failed'
    | 'message.unknown'
    | 'message.suppressed'
    | 'message.canceled'
    | 'message.bounced'
    | 'message.complained'
    | 'template.created'
    | 'template.updated'
    | 'template.deleted'
    | 'suppression.created'
    | 'suppression.deleted'
    | 'webhook_endpoint.created'
    | 'webhook_endpoint.updated'
    | 'webhook_endpoint.disabled'
    | 'webhook_endpoint.enabled'
    | 'webhook_endpoint.deleted'
  /**
   * Repeating a request with the same key and content does nothing twice. The header `Idempotency-Key`
   * may stand in for it.
   */
  idempotency_key?: string
}

/** One thing that happened to a payment, payout, top-up, verification or message. */
export interface TimelineEntry {
  /** When it happened or, if it took time, began. */
  at: string
  kind: TimelineKind
  /**
   * Of an attempt the job (`payment.capture`), of a call the operation (`capture`), of a notification
   * its type (`payment_intent.succeeded`), of a posting its kind (`capture`, `payout_paid`), of an event
   * its type (`payment.captured`).
   */
  name: string
  /**
   * How it ended; null while it has not.
   * - Of an attempt: `done`; `declined`: refused for good; `retry`: nothing happened, it is tried again;
   * `ambiguous`: no answer, it is sent again under the same key; `unknown`: it is looked up and not sent
   * again; `misconfigured`: credentials were refused; `returned`: nothing was sent, another attempt
   * follows; `parked`: it waits for an operator; `discarded`, `resolved`: an operator ended it. Null
   * also when the worker was lost.
   * - Of a call: `done`, `declined`, `discarded`, or `rotated`: it failed and was replaced by one under
   * a new key.
   * - Of a notification: `received`, `applied`, `parked` until what it names is there, `ignored`.
   * - Postings and events have none.
   */
  outcome: string | null
  /**
   * What else is known.
   * - Of an attempt: `job_id`; `attempt`, its number; `ended_at`; `error`, with `code` and `message`, or
   * null; where a provider refused, also what it said.
   * - Of a call: `job_id`; `generation`, which rises with each new key; `last_sent_at` (`at` is when it
   * was first sent); `provider_reference`, the provider's id of the object.
   * - Of a notification: `provider`; `event_id` and `object_id`, its ids there; `applied_at`.
   * - Of a posting: `transfer_id`; `subject_id`, what it is of, for example the refund; `debit_account`
   * and `credit_account`; `amount_minor` and `currency`.
   * - Of an event: `event_id`; of a decision by hand also `decided_by_key_id`, the API key; `failure`,
   * the code of what was wrong, where something was.
   */
  details: Record<string, unknown>
}

/**
 * `attempt`: a try at a job of ours. `provider_call`: a call to the provider. `notification`: what the
 * provider told. `posting`: what was written to the ledger. `event`: what was announced.
 */
export type TimelineKind = 'attempt' | 'provider_call' | 'notification' | 'posting' | 'event'

/** Money that you bring into your balance. */
export interface TopUp {
  /** The id of the top-up. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  status: TopUpStatus
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /** ISO 4217 currency code, in lower case. */
  currency: string
  /** Where the money comes from, masked; null: from the bank account of the platform. */
  source: string | null
  /** Your words for it. */
  description: string | null
  /** Who moves the money. */
  processor: string
  /** The top-up at the processor; null until it has taken it. */
  processor_reference: string | null
  /** Why it failed; null while it has not. */
  failure: TopUpFailure | null
  /** When the money came; it stays when the money was taken back. */
  succeeded_at: string | null
  /** When it failed or was taken back. */
  failed_at: string | null
  metadata: Metadata
  /** Unique among your top-ups: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Why a top-up failed. */
export interface TopUpFailure {
  /**
   * `payment_declined`, `payment_invalid`, `processor_error`: the processor did not take it. `reversed`:
   * the money was taken back. Else the processor's word for it.
   */
  code: string
  /** The same for people. */
  message: string
}

/**
 * `pending`: the money is on its way. `succeeded`: it is in your balance. `failed`: it did not come,
 * or was taken back after it had succeeded. `canceled`: it was canceled at the processor before it
 * came.
 */
export type TopUpStatus = 'pending' | 'succeeded' | 'failed' | 'canceled'

/**
 * Sent for the data where the body would be above 20 kB. `GET /v1/events/{id}` has all of them, or
 * retrieve the resource.
 */
export interface TruncatedData {
  /** The id of the resource. */
  id: string
  /** Always true. */
  truncated: true
}

/** What changes. */
export interface UpdateCustomer {
  /** What they are called. */
  name?: string | null
  /** Kept as it is sent; not checked. */
  email?: string | null
  /** Kept as it is sent; not checked. */
  phone?: string | null
  /** Your own identifier. */
  external_id?: string | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
}

/** What changes. */
export interface UpdateMerchant {
  /** What they are called in contracts. */
  legal_name?: string
  /** What buyers know them by. */
  display_name?: string
  /** ISO 3166-1 alpha-2 country code. */
  country?: string
  /** Where buyers write to. */
  support_email?: string
  /** Their site; http or https. */
  url?: string | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
}

/** What changes. */
export interface UpdateMessageTemplate {
  /** Unique among your templates. */
  name?: string
  /** Of an email; renders to one line. */
  subject?: string | null
  /** The text of an email. */
  text?: string | null
  /** The HTML of an email; what is filled in is escaped. */
  html?: string | null
  /** The text of an SMS. */
  body?: string | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
}

/** What changes. */
export interface UpdateRecipient {
  /** Whom the money goes to. */
  name?: string
  /** Where they can be written to. */
  email?: string | null
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
}

/** What changes. */
export interface UpdateWebhookEndpoint {
  /**
   * http or https, in production https on port 443 or 8443. It may lead to no private address, and have
   * no user or password.
   */
  url?: string
  /** Which events are sent: `*` for all, `<noun>.*`, or types. */
  types?: EventTypes[]
  /** Yours. */
  description?: string | null
  /** Headers of yours that each request carries. Stored encrypted. */
  headers?: Record<string, string>
  /**
   * Whether events are sent one after the other, by their sequence. One that fails then holds up the
   * later ones until it is final.
   */
  ordered?: boolean
  /**
   * The most requests at one moment; fewer while the endpoint is slow or only fails. Tests and replays
   * come on top.
   */
  max_in_flight?: number
  /** The most requests in a second, spread over it; null: as many as there are. */
  rate_per_s?: number | null
  status?: WebhookEndpointStatus
  /**
   * Any JSON value, up to 16 KiB and 1,000 values in it; comes back as sent. Left out of a create it is
   * `{}`. Whole numbers up to 2^53 - 1, others not closer to zero than 1e-15.
   */
  metadata?: Metadata
}

/** Whether somebody is who they say they are. */
export interface Verification {
  /** The id of the verification. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  status: VerificationStatus
  subject_type: KycSubjectType
  /** The customer, merchant or recipient. */
  subject_id: string
  /** Where the person is sent after the page of the provider. */
  return_url: string | null
  /** Who verifies. */
  provider: string
  /** The session at the provider; null until it has begun. */
  provider_reference: string | null
  /** What was wrong the last time; null where nothing was. */
  failure: KycFailure | null
  /** What was decided; null while nothing is, and where the provider did not take it. */
  decision: KycDecision | null
  /** Why it was decided so by hand. */
  decision_reason: string | null
  /** `manual`: it was decided by hand, which is final. */
  decided_by: 'provider' | 'manual' | null
  /** The id of the API key with which it was decided by hand. */
  decided_by_key_id: string | null
  /** When it was decided. */
  decided_at: string | null
  metadata: Metadata
  /** Unique among your verifications: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /**
   * The provider's page for this person. It is shown once: in the first answer to the create that can
   * carry it, or in the answer to `link`. It is null everywhere else, and good for one visit within 48
   * hours.
   */
  url: string | null
}

/** The verification as it then stood. */
export interface VerificationEventData {
  /** The id of the verification. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string
  status: VerificationStatus
  subject_type: KycSubjectType
  /** The customer, merchant or recipient. */
  subject_id: string
  /** Where the person is sent after the page of the provider. */
  return_url: string | null
  /** Who verifies. */
  provider: string
  /** The session at the provider; null until it has begun. */
  provider_reference: string | null
  /** What was wrong the last time; null where nothing was. */
  failure: KycFailure | null
  /** What was decided; null while nothing is, and where the provider did not take it. */
  decision: KycDecision | null
  /** Why it was decided so by hand. */
  decision_reason: string | null
  /** `manual`: it was decided by hand, which is final. */
  decided_by: 'provider' | 'manual' | null
  /** The id of the API key with which it was decided by hand. */
  decided_by_key_id: string | null
  /** When it was decided. */
  decided_at: string | null
  metadata: Metadata
  /** Unique among your verifications: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/**
 * `pending`: the provider has not begun. `requires_input`: it waits for the person, at first or once
 * more; `failure` says why. `processing`: it looks at what the person showed. `approved`, `rejected`:
 * decided. Until then the verification is open.
 */
export type VerificationStatus = 'pending' | 'requires_input' | 'processing' | 'approved' | 'rejected'

/** What you have in one currency. */
export interface WalletBalance {
  /** ISO 4217 currency code, in lower case. */
  currency: string
  /** What you have: the sum of all transactions. It can be negative, e.g. after a refund. */
  balance_minor: number
  /**
   * What payouts have reserved of it: those that are `pending` or `processing`, and those that were
   * failed by hand while the processor was asked, until it has answered.
   */
  pending_payouts_minor: number
  /** `balance_minor` less `pending_payouts_minor`: what can be paid out. */
  available_minor: number
}

/** One change of a balance. It never changes. */
export interface WalletTransaction {
  /** The id of the transaction. */
  id: string
  kind: WalletTransactionKind
  /** ISO 4217 currency code, in lower case. */
  currency: string
  /** By how much it changed the balance: below zero, it fell. */
  amount_minor: number
  /** The balance of this currency after it. */
  balance_after_minor: number
  /** What caused it; null for what stands for itself. */
  subject_type: 'payment' | 'refund' | 'dispute' | 'payout' | 'top_up' | null
  /** The id of that. */
  subject_id: string
  /** When it was posted: the cursor of lists. */
  created_at: string
}

/**
 * `capture`: a payment was captured. `refund`: money went back to a buyer; `refund_failed`: and came
 * back. `top_up`: you brought money in; `top_up_reversed`: it was taken back. `payout_paid`: a payout
 * was paid; `payout_returned`: it came back. `dispute_withdrawn`, `dispute_reinstated`: a buyer
 * disputed a payment; you won. `fee`: what it cost. `correction`: a mistake was put right.
 */
export type WalletTransactionKind =
  | 'capture'
  | 'refund'
  | 'refund_failed'
  | 'dispute_withdrawn'
  | 'dispute_reinstated'
  | 'payout_paid'
  | 'payout_returned'
  | 'top_up'
  | 'top_up_reversed'
  | 'fee'
  | 'correction'

/** An event on its way to an endpoint. */
export interface WebhookDelivery {
  /** The id of the delivery. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The endpoint. */
  endpoint_id: string
  /** The event, and the header `webhook-id` of each attempt. */
  event_id: string
  /** The type of the event. */
  type: string
  /** Of the event, in your feed; null: it is a test. */
  sequence: number | null
  status: WebhookDeliveryStatus
  /** Scheduled attempts so far; replays do not count. */
  attempts: number
  /**
   * When the next attempt is due; null: there is none. It may come later: an endpoint that only fails
   * gets one request at a time, and an ordered one its events in turn.
   */
  next_attempt_at: string | null
  /** The status of the last answer; null: there was none. */
  last_status_code: number | null
  /** Why there was no answer to the last attempt. */
  last_error: string | null
  /** When it arrived. */
  delivered_at: string | null
  /** The cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** An attempt to deliver an event. */
export interface WebhookDeliveryAttempt {
  /** When it began. */
  at: string
  /** Of the answer; null: there was none. */
  status_code: number | null
  /** How long it took. */
  duration_ms: number
  /** Why there was no answer. */
  error: string | null
  /**
   * How the body of the answer begins: 1,000 bytes at most, 200 of a success. Null: there was no answer,
   * five attempts came after it, or what the event said of a person was erased.
   */
  response_excerpt: string | null
  /** Whether it was a replay. */
  manual: boolean
}

/** A delivery with its attempts and what is sent. */
export interface WebhookDeliveryDetail {
  /** The id of the delivery. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The endpoint. */
  endpoint_id: string
  /** The event, and the header `webhook-id` of each attempt. */
  event_id: string
  /** The type of the event. */
  type: string
  /** Of the event, in your feed; null: it is a test. */
  sequence: number | null
  status: WebhookDeliveryStatus
  /** Scheduled attempts so far; replays do not count. */
  attempts: number
  /**
   * When the next attempt is due; null: there is none. It may come later: an endpoint that only fails
   * gets one request at a time, and an ordered one its events in turn.
   */
  next_attempt_at: string | null
  /** The status of the last answer; null: there was none. */
  last_status_code: number | null
  /** Why there was no answer to the last attempt. */
  last_error: string | null
  /** When it arrived. */
  delivered_at: string | null
  /** The cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** The attempts, oldest first, replays among them. */
  attempts_log: WebhookDeliveryAttempt[]
  /**
   * What is sent: `{ id, type, timestamp, sequence, tenant_id, data }`. Above 20 kB `data` is only `{
   * id, truncated: true }`. Null: the event is older than events are kept.
   */
  payload: unknown
}

/**
 * `pending` until it is final. `failed`: the endpoint answered 410, or was disabled by its answers
 * while this waited. `exhausted`: the last attempt of the schedule failed, or the only one of a test.
 * `skipped`: the endpoint was disabled when the event happened, or you disabled it while this waited.
 */
export type WebhookDeliveryStatus = 'pending' | 'delivered' | 'failed' | 'exhausted' | 'skipped'

/** Where your events are sent to. */
export interface WebhookEndpoint {
  /** The id of the endpoint. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string | null
  /** Where events are sent to. */
  url: string
  /** Which events: `*` for all, `<noun>.*`, or types. */
  types: string[]
  /** Yours. */
  description: string | null
  /**
   * Whether events are sent one after the other, by their sequence: one that fails holds up the later
   * ones until it is final.
   */
  ordered: boolean
  /**
   * The most requests at one moment; fewer while the endpoint is slow or only fails. Tests and replays
   * come on top.
   */
  max_in_flight: number
  /** The most requests in a second; null: as many as there are. */
  rate_per_s: number | null
  status: WebhookEndpointStatus
  disabled_reason: WebhookEndpointDisabledReason
  metadata: Metadata
  /** Unique among your endpoints: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** Headers of yours that each request carries. */
  headers: Record<string, string>
  /**
   * What requests are signed with. Shown once, when it was made: in the answer to the create, or to its
   * rotation. Null later.
   */
  secret: string | null
}

/**
 * `gone`: it answered 410. `failing`: for five days every attempt failed. `manual`: by you. Null while
 * it is enabled.
 */
export type WebhookEndpointDisabledReason = 'gone' | 'failing' | 'manual' | null

/** The endpoint as it then stood, without its secret and its headers. */
export interface WebhookEndpointEventData {
  /** The id of the endpoint. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The key that it was created with. */
  idempotency_key: string | null
  /** Where events are sent to. */
  url: string
  /** Which events: `*` for all, `<noun>.*`, or types. */
  types: string[]
  /** Yours. */
  description: string | null
  /**
   * Whether events are sent one after the other, by their sequence: one that fails holds up the later
   * ones until it is final.
   */
  ordered: boolean
  /**
   * The most requests at one moment; fewer while the endpoint is slow or only fails. Tests and replays
   * come on top.
   */
  max_in_flight: number
  /** The most requests in a second; null: as many as there are. */
  rate_per_s: number | null
  status: WebhookEndpointStatus
  disabled_reason: WebhookEndpointDisabledReason
  metadata: Metadata
  /** Unique among your endpoints: the cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** What came of deliveries in the last seven days. Tests do not count, nor do replays. */
export interface WebhookEndpointStats {
  /** Deliveries that arrived. */
  delivered: number
  /** Deliveries that ended without arriving: `failed` or `exhausted`. */
  failed: number
  /** Deliveries that wait for an attempt or are being sent, at this moment. */
  pending: number
  /** How long half of the successful requests took at most; null: there were none. */
  p50_ms: number | null
  /** How long 95 in 100 of them took at most, to about 5 in 100. */
  p95_ms: number | null
  /** When the last attempt succeeded. */
  last_success_at: string | null
  /** When the last attempt failed. */
  last_failure_at: string | null
}

/**
 * `disabled`: no events are sent there, and what happens meanwhile is not sent later by itself. Tests,
 * replays and recoveries are sent.
 */
export type WebhookEndpointStatus = 'enabled' | 'disabled'

/** A request to send again what an endpoint missed within a time. */
export interface WebhookRecovery {
  /** The id of the recovery. */
  id: string
  /** Whose it is. */
  tenant_id: string
  /** The endpoint. */
  endpoint_id: string
  /** Of deliveries that were made from then on. */
  since: string
  /** And before then. */
  until: string
  status: WebhookRecoveryStatus
  /** How many deliveries it has found so far. */
  found: number
  /**
   * How many of these were sent again: they neither wait nor are under way, and were not dropped because
   * the endpoint was disabled. Whether they arrived, the deliveries show.
   */
  sent: number
  /** When it was asked for. */
  created_at: string
  /** When it last went on. */
  updated_at: string
}

/** `completed`: of all that was missed nothing waits any more. */
export type WebhookRecoveryStatus = 'pending' | 'running' | 'completed'

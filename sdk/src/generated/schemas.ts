// Resources and request bodies of the API.

/** A request that was accepted with this key. */
export interface AcceptedRequest {
  /** The key. */
  key: string
  /** The route of the request. */
  route: string
  /**
   * The type of the resource: `customer`, `recipient`, `merchant`, `payment`, `refund`, `dispute`,
   * `payout`, `top_up`, `kyc`, `ai_task`, `message`, `template`, `suppression`, `webhook_endpoint`,
   * `webhook_delivery`, `webhook_recovery`, `feed`, `request`.
   */
  resource: string
  /** The id of the resource. */
  resource_id: string
  status: AcceptedRequestStatus
  /** When the request was accepted. */
  created_at: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
}

/**
 * The state of the request. `unknown`: Sluice is finding out whether a call to the provider took
 * effect.
 */
export type AcceptedRequestStatus = 'finished' | 'under_way' | 'failed' | 'unknown'

/** The time to which the clock moves. */
export interface AdvanceTestClock {
  /**
   * The time to which the clock moves: later than `now` of the clock, and at most 365 days ahead of the
   * real time.
   */
  advance_to: string
}

/** A task for a language model. */
export interface AiTask {
  /** The id of the task. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string
  kind: AiTaskKind
  status: AiTaskStatus
  /** The model that answered. Until then, the requested model; null for the default. */
  model: string | null
  /** The maximum number of tokens of the answer, if you set one. */
  max_output_tokens: number | null
  /**
   * The output, which depends on the kind. Null unless the task succeeded, after the retention period of
   * outputs, and in lists.
   */
  output: GenerateOutput | ClassifyOutput | ExtractOutput | null
  /** The tokens of the final attempt; null if the provider reported none. */
  usage: AiTaskUsage | null
  /** Why it failed; null if it has not. */
  failure: AiTaskFailure | null
  /** The number of attempts. */
  attempts: number
  /** When the first attempt began. */
  started_at: string | null
  /** When it ended; null while it is open. */
  finished_at: string | null
  metadata: Metadata
  /** When it was created. Unique among your AI tasks, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** The AI task as it was then. */
export interface AiTaskEventData {
  /** The id of the task. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string
  kind: AiTaskKind
  status: AiTaskStatus
  /** The model that answered. Until then, the requested model; null for the default. */
  model: string | null
  /** The maximum number of tokens of the answer, if you set one. */
  max_output_tokens: number | null
  /**
   * The output, which depends on the kind. Null unless the task succeeded, after the retention period of
   * outputs, and above 20 kB in lists of events.
   */
  output: GenerateOutput | ClassifyOutput | ExtractOutput | null
  /** The tokens of the final attempt; null if the provider reported none. */
  usage: AiTaskUsage | null
  /** Why it failed; null if it has not. */
  failure: AiTaskFailure | null
  /** The number of attempts. */
  attempts: number
  /** When the first attempt began. */
  started_at: string | null
  /** When it ended; null while it is open. */
  finished_at: string | null
  metadata: Metadata
  /** When it was created. Unique among your AI tasks, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Why a task failed. */
export interface AiTaskFailure {
  code: AiTaskFailureCode
  /** A description for people. */
  message: string
}

/**
 * `ai_refused`: the model or its filter declined. `ai_invalid_output`: the answer does not fit the
 * request. `ai_timeout`: no answer came in time. `ai_error`: the provider failed or refused the
 * request.
 */
export type AiTaskFailureCode = 'ai_refused' | 'ai_invalid_output' | 'ai_timeout' | 'ai_error'

/**
 * What the task returns. `generate`: a text. `classify`: one of the given labels. `extract`: data that
 * follows a JSON Schema.
 */
export type AiTaskKind = 'generate' | 'classify' | 'extract'

/**
 * `queued`: waits for its first or next attempt. `running`: an attempt is in progress. `succeeded`,
 * `failed`, `canceled`: final.
 */
export type AiTaskStatus = 'queued' | 'running' | 'succeeded' | 'failed' | 'canceled'

/** The tokens of the final attempt. */
export interface AiTaskUsage {
  /** Input tokens. */
  input_tokens: number
  /** Output tokens. */
  output_tokens: number
}

/** Only an idempotency key. */
export interface CancelAiTask {
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** Only an idempotency key. */
export interface CancelMessage {
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** The reason of the cancellation. */
export interface CancelPayment {
  /** The reason. It is also sent to the processor. */
  reason?: 'requested_by_customer' | 'duplicate' | 'fraudulent' | 'abandoned' | null
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** Only an idempotency key. */
export interface CancelPayout {
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** The amount to capture. */
export interface CapturePayment {
  /**
   * The amount to capture, at most the amount on hold; the rest is released. Defaults to the full
   * amount.
   */
  amount_minor?: number
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** How the message is sent. */
export type Channel = 'email' | 'sms'

/** A text and its possible labels. */
export interface ClassifyInput {
  /** The text to classify. */
  text: string
  /** The possible labels. */
  labels: string[]
}

/** The output of a `classify` task. */
export interface ClassifyOutput {
  /** One of the given labels. */
  label: string
}

/** The AI task to create. */
export type CreateAiTask =
  | {
      /** The kind of task. */
      kind: 'generate'
      input: GenerateInput
      /** The provider's name of the model. Defaults to the model of this installation. */
      model?: string | null
      /** The maximum number of tokens of the answer. A longer answer is cut off, and the task fails. */
      max_output_tokens?: number | null
      /**
       * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
       * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
       * zero than 1e-15.
       */
      metadata?: Metadata
      /**
       * A repeated request with the same key and content takes effect once. You may send the header
       * `Idempotency-Key` instead.
       */
      idempotency_key?: string
    }
  | {
      /** The kind of task. */
      kind: 'classify'
      input: ClassifyInput
      /** The provider's name of the model. Defaults to the model of this installation. */
      model?: string | null
      /** The maximum number of tokens of the answer. A longer answer is cut off, and the task fails. */
      max_output_tokens?: number | null
      /**
       * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
       * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
       * zero than 1e-15.
       */
      metadata?: Metadata
      /**
       * A repeated request with the same key and content takes effect once. You may send the header
       * `Idempotency-Key` instead.
       */
      idempotency_key?: string
    }
  | {
      /** The kind of task. */
      kind: 'extract'
      input: ExtractInput
      /** The provider's name of the model. Defaults to the model of this installation. */
      model?: string | null
      /** The maximum number of tokens of the answer. A longer answer is cut off, and the task fails. */
      max_output_tokens?: number | null
      /**
       * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
       * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
       * zero than 1e-15.
       */
      metadata?: Metadata
      /**
       * A repeated request with the same key and content takes effect once. You may send the header
       * `Idempotency-Key` instead.
       */
      idempotency_key?: string
    }

/** The customer to create. */
export interface CreateCustomer {
  /** The customer's name. */
  name?: string | null
  /** Stored exactly as you send it; not validated. */
  email?: string | null
  /** Stored exactly as you send it; not validated. */
  phone?: string | null
  /** Your own identifier for the customer. */
  external_id?: string | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** The merchant to create. */
export interface CreateMerchant {
  /** The legal name, as in contracts. */
  legal_name: string
  /** The name that buyers know. */
  display_name: string
  /** ISO 3166-1 alpha-2 country code. */
  country: string
  /** The email address for buyers. */
  support_email: string
  /** The merchant's website; http or https. */
  url?: string | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** The template to create. */
export interface CreateMessageTemplate {
  /** Unique among your templates. */
  name: string
  channel: Channel
  /** The subject of an email; renders to one line. */
  subject?: string | null
  /** The text of an email. */
  text?: string | null
  /** The HTML of an email; values are escaped. */
  html?: string | null
  /** The text of an SMS. */
  body?: string | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** The payment to create. */
export interface CreatePayment {
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /**
   * ISO 4217 currency code. The processor supports all except BTN, CUP, ERN, GHS, IQD, IRR, KPW, LYD,
   * MRU, SDG, SSP, STN, SVC, SYP, TMT, VED, VES, ZWG.
   */
  currency: string
  /** The payment method. Currently only `card`. */
  method: 'card'
  /** The id of the customer who pays. */
  customer_id?: string | null
  /** The id of the merchant on whose behalf you accept the payment. */
  merchant_id?: string | null
  /** Your own description. */
  description?: string | null
  /**
   * A processor token, such as `pm_card_visa`; never a card number, which is refused and not stored.
   * Without it, the answer has a `client_secret`, and the buyer confirms in the processor's front end.
   */
  payment_method?: string | null
  /** Where the buyer returns after 3-D Secure; http or https. */
  return_url?: string | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** The payout to create. */
export interface CreatePayout {
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /**
   * ISO 4217 currency code. The processor supports all except BTN, CUP, ERN, GHS, IQD, IRR, KPW, LYD,
   * MRU, SDG, SSP, STN, SVC, SYP, TMT, VED, VES, ZWG.
   */
  currency: string
  /** The id of the recipient. The currency of the recipient must be the same. */
  recipient_id: string
  /** Your own description. */
  description?: string | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** The recipient to create. */
export interface CreateRecipient {
  /** The name of the recipient. */
  name: string
  /** The recipient's email address. */
  email?: string | null
  type: RecipientType
  /**
   * The currency of payouts to the recipient, in upper or lower case. ISO 4217 currency code. The
   * processor supports all except BTN, CUP, ERN, GHS, IQD, IRR, KPW, LYD, MRU, SDG, SSP, STN, SVC, SYP,
   * TMT, VED, VES, ZWG.
   */
  currency: string
  /** ISO 3166-1 alpha-2 country code. */
  country: string
  /**
   * The processor's token of the destination: `ba_...` with `bank_account`, `card_...` with `card`,
   * `acct_...` with `account`. Never an account or card number: numbers are refused and not stored.
   */
  destination: string
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** The amount and reason of the refund. */
export interface CreateRefund {
  /** The amount to refund. Defaults to the captured amount minus all other refunds. */
  amount_minor?: number | null
  /** The reason. It is also sent to the processor. */
  reason?: 'duplicate' | 'fraudulent' | 'requested_by_customer' | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** An address or number that should no longer get messages. */
export interface CreateSuppression {
  channel: Channel
  /** An email address without a name, or a number in E.164 format. Case is ignored. */
  address: string
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** The top-up to create. */
export interface CreateTopUp {
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /**
   * ISO 4217 currency code. The processor supports all except BTN, CUP, ERN, GHS, IQD, IRR, KPW, LYD,
   * MRU, SDG, SSP, STN, SVC, SYP, TMT, VED, VES, ZWG.
   */
  currency: string
  /**
   * The processor's token of the source of the money. Default: the bank account that the platform has
   * set up with the processor. Answers show the token masked.
   */
  source?: string | null
  /** Your own description. */
  description?: string | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** The verification to create. */
export interface CreateVerification {
  subject_type: KycSubjectType
  /** The id of the customer, merchant or recipient to verify. */
  subject_id: string
  /** The URL to which the person is sent after the provider's page; http or https. */
  return_url?: string | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** The endpoint to create. */
export interface CreateWebhookEndpoint {
  /**
   * http or https, in production https on port 443 or 8443. The URL must not lead to a private address,
   * and must not contain a user or password.
   */
  url: string
  /** The events to send: `*` for all, `<resource>.*`, or single types. */
  types: EventTypes[]
  /** Your own description. */
  description?: string | null
  /** Your own headers, sent with each request. Stored encrypted. */
  headers?: Record<string, string>
  /**
   * Whether events are sent one at a time, by their sequence. Then an event whose delivery fails delays
   * later events until its delivery is final.
   *
   * `Default: `false`.
   */
  ordered?: boolean
  /**
   * The maximum number of requests at once; fewer while the endpoint is slow or fails. Tests and replays
   * are not counted.
   *
   * `Default: `10`.
   */
  max_in_flight?: number
  /** The maximum number of requests a second, spread evenly over the second; null means no limit. */
  rate_per_s?: number | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** A customer: somebody who pays. */
export interface Customer {
  /** The id of the customer. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string
  /** The customer's name. */
  name: string | null
  /** Stored exactly as you sent it. */
  email: string | null
  /** Stored exactly as you sent it. */
  phone: string | null
  /** Your own identifier for the customer. */
  external_id: string | null
  kyc_status: KycStatus
  metadata: Metadata
  /** When it was created. Unique among your customers, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** When it was deleted; null otherwise. */
  deleted_at: string | null
}

/** The customer as it was then; without personal data once the customer is deleted. */
export interface CustomerEventData {
  /** The id of the customer. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string
  /** The customer's name. */
  name?: string | null
  /** Stored exactly as you sent it. */
  email?: string | null
  /** Stored exactly as you sent it. */
  phone?: string | null
  /** Your own identifier for the customer. */
  external_id: string | null
  kyc_status: KycStatus
  metadata?: Metadata
  /** When it was created. Unique among your customers, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** When it was deleted; null otherwise. */
  deleted_at: string | null
}

/** The decision and its reason. */
export interface DecideVerification {
  decision: KycDecision
  /** The reason; shown as `decision_reason`. */
  reason: string
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** A dispute: money of a payment that the buyer's bank asks back. */
export interface Dispute {
  /** The id of the dispute. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The payment that is disputed. */
  payment_id: string
  /** The processor that moves the money. */
  processor: string
  /** The dispute at the processor. */
  processor_reference: string
  status: DisputeStatus
  /** The buyer's reason, as a code of the processor. */
  reason: string | null
  /** The disputed amount, in the smallest unit. */
  amount_minor: number
  /** ISO 4217 currency code. */
  currency: string
  /** The amount taken from your balance. */
  amount_withdrawn_minor: number
  /** The amount that came back. */
  amount_reinstated_minor: number
  /** The deadline for your answer at the processor; null if it accepts none. */
  evidence_due_by: string | null
  /** When it was opened at the processor. */
  opened_at: string
  /** When Sluice recorded that it was closed; null while it is open or reopened. */
  closed_at: string | null
  metadata: Metadata
  /** When it was created. Unique among your disputes, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/**
 * `needs_response`: you can answer it at the processor. `under_review`: the buyer's bank is deciding.
 * `won`: the money is yours again. `lost`: the buyer has the money; an appeal can still change that.
 * `warning`: an inquiry, which takes no money; `closed_at` shows whether it is closed.
 */
export type DisputeStatus = 'needs_response' | 'under_review' | 'won' | 'lost' | 'warning'

/** A difference between our books and the processor's. */
export interface Drift {
  /** The id of the drift. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  subject: DriftSubject
  /** The id of the resource that differs. */
  subject_id: string
  /** The payment; null if it belongs to none. */
  payment_id: string | null
  state: DriftState
  /** Our record; null for an orphan, which has none. */
  ours: DriftSide | null
  /** The processor's record, in our terms; null if it is not known yet or does not exist. */
  theirs: DriftSide | null
  /** Further details. */
  detail: string | null
  /** When the drift began. */
  since: string
  /** The age of the drift in seconds. */
  age_s: number
  /** When the processor was last queried. */
  checked_at: string | null
  /** When the drift was detected: the cursor of lists. */
  created_at: string
}

/** The record of one side. */
export interface DriftSide {
  /** The status, in our terms. */
  status: string
  /** The full amount. */
  amount_minor?: number
  /** The amount that is held; for payments only. */
  amount_capturable_minor?: number
  /** The amount that was captured; for payments only. */
  amount_captured_minor?: number
  /**
   * The amount that was refunded; for payments only. Ours: succeeded refunds. Theirs: all refunds that
   * have not failed.
   */
  amount_refunded_minor?: number | null
  /** The amount reserved by refunds that are in progress or have succeeded here; for payments only. */
  amount_refund_reserved_minor?: number
  /** ISO 4217 currency code. */
  currency?: string
  /** Its id at the processor. */
  processor_reference?: string | null
  /** The amount taken from the balance; for disputes only. */
  amount_withdrawn_minor?: number | null
  /** The amount that came back to the balance; for disputes only. */
  amount_reinstated_minor?: number | null
  /** The amount that was paid and has not come back; for payouts only. */
  out_minor?: number
  /** The id of the session at the provider; for verifications only. */
  provider_reference?: string | null
  /** `provider` or `manual`, once it is decided here; for verifications only. */
  decided_by?: string | null
  /**
   * Whether it does not count, because its party has other content than it was requested for, or a later
   * verification; for verifications only.
   */
  outdated?: boolean | null
}

/**
 * `unknown`: it is not known whether a call to the processor took effect. `stale`: it is in progress
 * here, and not at the processor. `differs`: it ended differently on both sides, or the processor did
 * something that we cannot apply; `detail` describes it. `orphan`: an object that was created here and
 * has no row, and no row can be made for it; `subject_id` names no row.
 */
export type DriftState = 'unknown' | 'stale' | 'differs' | 'orphan'

/** What differs. */
export type DriftSubject = 'payment' | 'refund' | 'dispute' | 'payout' | 'top_up' | 'kyc'

/** A refusal or failure. */
export interface ErrorAnswer {
  error: ErrorBody
}

/** The error and a link to its explanation. */
export interface ErrorBody {
  code: ErrorCode
  /** A description for people. Its wording may change. */
  message: string
  /** The invalid field, parameter or header. */
  param?: string
  /** All invalid fields, in errors that can report several. */
  details?: ErrorDetail[]
  /** Facts about this error, such as `decline_code` and `payment_id` for `payment_declined`. */
  context?: Record<string, unknown>
  /** The id of the request, as in `x-request-id`. */
  request_id: string
  /** A link to the explanation of this error. */
  doc_url: string
}

/** The error code. New codes may be added: handle an unknown code by its status. */
export type ErrorCode =
  | 'invalid_request'
  | 'template_invalid'
  | 'unauthorized'
  | 'payment_declined'
  | 'missing_scope'
  | 'forbidden'
  | 'test_mode_only'
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
  | 'kyc_outdated'
  | 'kyc_not_linkable'
  | 'ai_task_not_cancelable'
  | 'message_not_cancelable'
  | 'template_exists'
  | 'event_expired'
  | 'conflict'
  | 'feed_restarted'
  | 'recovery_in_progress'
  | 'test_clock_ahead'
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
  | 'timeout'
  | 'database_unavailable'

/** One invalid field. */
export interface ErrorDetail {
  /** The field or parameter. */
  param: string
  /** The problem. */
  message: string
}

/** An event type, `<resource>.*` for all events of a resource, or `*` for all events. */
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
  | 'feed.*'
  | 'request.*'
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
  | 'payment.recovered'
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
  | 'refund.recovered'
  | 'refund.succeeded'
  | 'refund.failed'
  | 'payout.created'
  | 'payout.recovered'
  | 'payout.processing'
  | 'payout.paid'
  | 'payout.failed'
  | 'payout.fail_overtaken'
  | 'payout.canceled'
  | 'top_up.created'
  | 'top_up.recovered'
  | 'top_up.succeeded'
  | 'top_up.failed'
  | 'top_up.canceled'
  | 'top_up.reversed'
  | 'kyc.created'
  | 'kyc.recovered'
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
  | 'message.recipients_settled'
  | 'message.received'
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
  | 'feed.restarted'
  | 'request.lost'

/** A text, and the schema of the data to extract from it. */
export interface ExtractInput {
  /** The text to extract data from. */
  text: string
  /**
   * A JSON Schema, draft 2020-12, that the data validates against; at most 16 KiB and 1,000 values.
   * `$ref` may refer to the schema itself only (`#/$defs/...`); `$id`, `$anchor`, `$dynamicRef`,
   * `$dynamicAnchor`, `$vocabulary` and `$async` are refused. `format` is not checked.
   */
  schema: Record<string, unknown>
}

/** The output of an `extract` task. */
export interface ExtractOutput {
  /** The extracted data, valid against the given JSON Schema. */
  data: unknown
}

/** The reason of the failure. */
export interface FailPayout {
  /** The reason; shown as the payout's failure. */
  reason: string
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** A restart of the feed. */
export interface FeedRestart {
  /** The id of the restart. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /**
   * The last sequence before the restart; 0 if there was none. Higher sequences below `next_sequence`
   * name events that no longer exist.
   */
  last_sequence_before: number
  /** The sequence of this event, with which the feed continues. */
  next_sequence: number
  /** When the feed was restarted. */
  created_at: string
}

/** A prompt. */
export interface GenerateInput {
  /** What to write. */
  prompt: string
  /** The system prompt: who the model is and how it writes. */
  system?: string | null
}

/** The output of a `generate` task. */
export interface GenerateOutput {
  /** The generated text. */
  text: string
}

/** The decision. */
export type KycDecision = 'approved' | 'rejected'

/** What was wrong. */
export interface KycFailure {
  /**
   * While input is required: the provider's own code for what was wrong. `kyc_refused`,
   * `processor_error`: the provider did not accept it. If the session ended without a decision:
   * `canceled`: it was canceled at the provider; `abandoned`: nobody continued it for too long;
   * `subject_gone`: the customer was deleted, or the merchant or recipient archived; `outdated`: after a
   * loss of data, the party was created with other content than the verification was requested for, or
   * has a later verification.
   */
  code: string
  /** A description for people. */
  message: string
}

/** The status of the latest verification; `none` if there has been none. */
export type KycStatus = 'none' | 'pending' | 'requires_input' | 'processing' | 'approved' | 'rejected'

/** What is verified. */
export type KycSubjectType = 'customer' | 'merchant' | 'recipient'

/** Only an idempotency key. */
export interface LinkVerification {
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** An accepted request that the database has lost. */
export interface LostRequest {
  /** The id of the report. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /**
   * The idempotency key of the request; null if it had none: then retrieve the resource before you
   * repeat the request.
   */
  idempotency_key: string | null
  /** The method and the path of the request. */
  path: string
  /** The resource that the request created or changed. */
  resource_id: string
  /** When the request was accepted. */
  accepted_at: string
}

/** A merchant: somebody you take payments for. */
export interface Merchant {
  /** The id of the merchant. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string
  /** The legal name, as in contracts. */
  legal_name: string
  /** The name that buyers know. */
  display_name: string
  /** ISO 3166-1 alpha-2 country code, in upper case; `ZZ` if it was lost. */
  country: string
  /** The email address for buyers. */
  support_email: string
  /** The merchant's website. */
  url: string | null
  kyc_status: KycStatus
  /** When it was archived; null otherwise. */
  archived_at: string | null
  metadata: Metadata
  /** When it was created. Unique among your merchants, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** An email or SMS. Texts and attachments are null in lists, and once they are erased. */
export interface Message {
  /** The id of the message. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was sent with; null for an SMS that you received. */
  idempotency_key: string | null
  channel: Channel
  status: MessageStatus
  /** Your tags, to filter emails by. */
  tags: string[]
  /** The provider that sends it. */
  provider: string
  /** The provider's id of an SMS, or the Message-ID of an email; null until it is sent. */
  provider_reference: string | null
  /** Why it was not sent or did not arrive; null otherwise. */
  failure: MessageFailure | null
  /** For an SMS: the number of segments. Each is charged. */
  segments: number | null
  /** For an SMS: the encoding of its text. */
  encoding: 'GSM-7' | 'UCS-2' | null
  /** For an SMS: its price; null until the provider reports it. */
  price: MessagePrice | null
  /** When it will be sent; null means at once. */
  send_at: string | null
  /** When the provider accepted it. */
  sent_at: string | null
  /** When the provider reported that it arrived. */
  delivered_at: string | null
  /** When its text and attachments were erased. */
  redacted_at: string | null
  metadata: Metadata
  /** When it was created. Unique among your messages, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** The sender. */
  from: string
  /** The recipients: addresses for an email, the number for an SMS. */
  to: string | string[]
  /** The cc recipients of an email. */
  cc: string[] | null
  /** The bcc recipients of an email, hidden from the others. */
  bcc: string[] | null
  /** The addresses for replies to an email. */
  reply_to: string | null
  /** The subject of an email. */
  subject: string | null
  /** The one-click unsubscribe URL (RFC 8058). */
  list_unsubscribe_url: string | null
  /** The text of an email. */
  text: string | null
  /** The HTML of an email. */
  html: string | null
  /** The text of an SMS. */
  body: string | null
  /** Additional headers of an email. */
  headers: Record<string, string> | null
  /** The files attached to an email. */
  attachments: MessageAttachment[] | null
  /** The time for delivery attempts of an SMS by the provider, in seconds. */
  validity_s: number | null
  /** For an email: each recipient with its outcome. */
  recipients: MessageRecipient[] | null
}

/** The result for one message of the batch. */
export interface MessageAnswer {
  /**
   * The status that a request for this message alone would get: 202 if it is queued, 201 if it is
   * scheduled or suppressed, otherwise the status of its error.
   */
  status: number
  /** The message, if it was accepted by this request or an earlier one. */
  message?: Message
  /** The error, if the message was refused. */
  error?: ErrorBody
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
}

/** A file attached to an email. */
export interface MessageAttachment {
  /** Its name. */
  filename: string
  /** Its media type. */
  content_type: string
  /** In bytes. */
  size: number
}

/** The message as it was then, without texts except that of an SMS that you received. */
export interface MessageEventData {
  /** The id of the message. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was sent with; null for an SMS that you received. */
  idempotency_key: string | null
  channel: Channel
  status: MessageStatus
  /** Your tags, to filter emails by. */
  tags: string[]
  /** The provider that sends it. */
  provider: string
  /** The provider's id of an SMS, or the Message-ID of an email; null until it is sent. */
  provider_reference: string | null
  /** Why it was not sent or did not arrive; null otherwise. */
  failure: MessageFailure | null
  /** For an SMS: the number of segments. Each is charged. */
  segments: number | null
  /** For an SMS: the encoding of its text. */
  encoding: 'GSM-7' | 'UCS-2' | null
  /** For an SMS: its price; null until the provider reports it. */
  price: MessagePrice | null
  /** When it will be sent; null means at once. */
  send_at: string | null
  /** When the provider accepted it. */
  sent_at: string | null
  /** When the provider reported that it arrived. */
  delivered_at: string | null
  /** When its text and attachments were erased. */
  redacted_at: string | null
  metadata: Metadata
  /** When it was created. Unique among your messages, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** The sender. */
  from: string | null
  /** The recipients: addresses for an email, the number for an SMS. */
  to: string | string[] | null
  /** The cc recipients of an email. */
  cc: string[] | null
  /** The bcc recipients of an email, hidden from the others. */
  bcc: string[] | null
  /** The addresses for replies to an email. */
  reply_to: string | null
  /** The subject of an email. */
  subject: string | null
  /** The one-click unsubscribe URL (RFC 8058). */
  list_unsubscribe_url: string | null
  /**
   * For an email: each recipient with its outcome as it was then. In `message.bounced`,
   * `message.complained` and `message.recipients_settled` only those that the event is about.
   */
  recipients: MessageRecipient[] | null
  /** The text of an SMS that you received, until it is erased; null in other events. */
  body: string | null
}

/** Why a message was not sent or did not arrive. */
export interface MessageFailure {
  code: MessageFailureCode
  /** A description for people. */
  message: string
  /** The provider's own code. */
  provider_code: string | null
}

/**
 * `recipient_refused`, `sender_refused`, `content_refused`: the part that the server did not accept.
 * `connection_failed`: the server was unreachable or refused the connection. `invalid_number`,
 * `opted_out`, `unreachable`: a problem with the number. `provider_error`: anything else.
 * `not_resolved`: whether the message was sent remains unknown.
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

/** A recipient of an email. */
export interface MessageRecipient {
  /** The address. */
  address: string
  /**
   * The outcome for this recipient; null while it is unknown. A recipient that the server deferred has a
   * `code`, and another attempt follows.
   */
  status: MessageRecipientStatus | null
  /** The server's code, if it refused. */
  code: string | null
  /** A description for people. */
  message: string | null
}

/**
 * `accepted`: the server accepted the email for this recipient. `refused`: the server refused it.
 * `bounced`: it bounced later, or the recipient complained. `suppressed`: nothing was sent.
 * `delivered`: it arrived.
 */
export type MessageRecipientStatus = 'accepted' | 'refused' | 'bounced' | 'suppressed' | 'delivered'

/**
 * `scheduled`: it will be sent at `send_at`. `queued`: it waits to be sent. `sending`: a call to the
 * provider is in progress. `sent`: the provider has accepted it. `delivered`: it has arrived.
 * `undelivered`: the provider accepted it, but it did not arrive. `failed`: the provider did not
 * accept it. `unknown`: the provider may or may not have accepted it; it is never sent again
 * automatically. `suppressed`: all its recipients are suppressed, so nothing was sent. `canceled`: you
 * canceled it before it was sent. `received`: an SMS that somebody sent to you.
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
  | 'received'

/**
 * A template: a text in Liquid, rendered when a message is accepted. `text`, `html` and `body` are
 * null in lists.
 */
export interface MessageTemplate {
  /** The id of the template. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string | null
  /** Unique among your templates. */
  name: string
  channel: Channel
  metadata: Metadata
  /** When it was created. Unique among your templates, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** The subject of an email. */
  subject: string | null
  /** The text of an email. */
  text: string | null
  /** The HTML of an email; values are escaped. */
  html: string | null
  /** The text of an SMS. */
  body: string | null
}

/** The template as it was then, without its texts. */
export interface MessageTemplateEventData {
  /** The id of the template. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string | null
  /** Unique among your templates. */
  name: string
  channel: Channel
  metadata: Metadata
  /** When it was created. Unique among your templates, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Any JSON value of your own. It is returned as you sent it. */
export type Metadata = unknown

/** A payment: money that is held, captured and possibly refunded. */
export interface Payment {
  /** The id of the payment. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string
  status: PaymentStatus
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /** ISO 4217 currency code. */
  currency: string
  /** The payment method. */
  method: 'card'
  /** The customer who pays, if you named one. */
  customer_id: string | null
  /** The merchant on whose behalf you accept the payment, if you named one. */
  merchant_id: string | null
  /** A description of your own. */
  description: string | null
  /** Where the buyer returns after 3-D Secure. */
  return_url: string | null
  /** The amount that is held and can be captured. */
  amount_capturable_minor: number
  /** The amount that was captured. */
  amount_captured_minor: number
  /** The amount that was refunded. */
  amount_refunded_minor: number
  /** The amount of `pending` refunds. It cannot be refunded again unless they fail. */
  amount_refund_pending_minor: number
  /** The processor that moves the money. */
  processor: string
  /** The payment at the processor. */
  processor_reference: string | null
  /**
   * The secret for the processor's front end while the buyer has to act (`requires_action`); otherwise
   * null.
   */
  client_secret: string | null
  /**
   * Why the payment failed. While it is `requires_action`, why the buyer's last attempt failed; while it
   * is `authorized`, why the last capture or cancellation failed. Otherwise null.
   */
  failure: PaymentFailure | null
  /** Why it was canceled, if a reason was given. */
  cancellation_reason: string | null
  /** When the hold expires. Capture the payment before this time. */
  capture_before: string | null
  /** When the money was held. */
  authorized_at: string | null
  /** When the money was captured. */
  captured_at: string | null
  /** When the hold was released. */
  canceled_at: string | null
  /** The payment's latest dispute; null if there is none. */
  dispute: PaymentDispute | null
  metadata: Metadata
  /** When it was created. Unique among your payments, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** A dispute, as shown on its payment. */
export interface PaymentDispute {
  /** The id of the dispute. */
  id: string
  /** The dispute at the processor. */
  processor_reference: string
  status: DisputeStatus
  /** The buyer's reason, as a code of the processor. */
  reason: string | null
  /** The disputed amount, in the smallest unit. */
  amount_minor: number
  /** ISO 4217 currency code. */
  currency: string
  /** The deadline for your answer at the processor; null if it accepts none. */
  evidence_due_by: string | null
  /** When it was opened at the processor. */
  opened_at: string
  /** When Sluice recorded that it was closed; null while it is open or reopened. */
  closed_at: string | null
}

/** The payment as it was then. In an event about a dispute, `dispute` is that dispute. */
export interface PaymentEventData {
  /** The id of the payment. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string
  status: PaymentStatus
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /** ISO 4217 currency code. */
  currency: string
  /** The payment method. */
  method: 'card'
  /** The customer who pays, if you named one. */
  customer_id: string | null
  /** The merchant on whose behalf you accept the payment, if you named one. */
  merchant_id: string | null
  /** A description of your own. */
  description: string | null
  /** Where the buyer returns after 3-D Secure. */
  return_url: string | null
  /** The amount that is held and can be captured. */
  amount_capturable_minor: number
  /** The amount that was captured. */
  amount_captured_minor: number
  /** The amount that was refunded. */
  amount_refunded_minor: number
  /** The processor that moves the money. */
  processor: string
  /** The payment at the processor. */
  processor_reference: string | null
  /**
   * Why the payment failed. While it is `requires_action`, why the buyer's last attempt failed; while it
   * is `authorized`, why the last capture or cancellation failed. Otherwise null.
   */
  failure: PaymentFailure | null
  /** Why it was canceled, if a reason was given. */
  cancellation_reason: string | null
  /** When the hold expires. Capture the payment before this time. */
  capture_before: string | null
  /** When the money was held. */
  authorized_at: string | null
  /** When the money was captured. */
  captured_at: string | null
  /** When the hold was released. */
  canceled_at: string | null
  /** The payment's latest dispute; null if there is none. */
  dispute: PaymentDispute | null
  metadata: Metadata
  /** When it was created. Unique among your payments, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Why a payment, or its last attempt, failed. */
export interface PaymentFailure {
  /** An error code of the API. */
  code: string
  /** A description for people. */
  message: string
  /** The bank's reason, if it gave one. */
  decline_code?: string | null
}

/**
 * `pending`: the authorization is in progress. `requires_action`: the buyer has to act. `authorized`:
 * the money is held. `capturing`, `canceling`: a capture or cancellation is in progress. `captured`,
 * `canceled`, `failed`: final.
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

/** A payout: money that you send from your balance to a recipient. */
export interface Payout {
  /** The id of the payout. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string
  status: PayoutStatus
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /** ISO 4217 currency code, in lower case. */
  currency: string
  /** The recipient who is paid. */
  recipient_id: string
  /** A description of your own. */
  description: string | null
  /** The processor that moves the money. */
  processor: string
  /** The payout or transfer at the processor; null until the processor has accepted it. */
  processor_reference: string | null
  /** The day on which the processor expects the money to arrive, once known. */
  arrival_date: string | null
  /**
   * Why it failed. While it is `pending` or `processing`: the reason that was given with a requested
   * failure. Otherwise null.
   */
  failure: PayoutFailure | null
  /** When the processor accepted it. */
  processing_at: string | null
  /** When it was paid. */
  paid_at: string | null
  /** When it failed. */
  failed_at: string | null
  /** When it was canceled. */
  canceled_at: string | null
  /**
   * When a manual failure was requested that could not take effect at once. The payout then becomes
   * `failed` as soon as it can no longer be paid, or `paid` if the processor pays it.
   */
  fail_requested_at: string | null
  metadata: Metadata
  /** When it was created. Unique among your payouts, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Why a payout failed. */
export interface PayoutFailure {
  /**
   * `payout_refused`: the processor did not accept it. `failed_manually`: it was failed manually, or
   * that was requested. Otherwise the processor's own code.
   */
  code: string
  /** A description for people; if it was failed manually, the reason that was given. */
  message: string
  /** Whether it was failed manually, or that was requested. */
  manual: boolean
}

/**
 * `pending`: the processor has not accepted it yet. `processing`: the money is on its way. `paid`: the
 * processor has paid it; it can still come back, and is then `failed`. `failed`: it was refused, came
 * back, or was failed manually, and can no longer be paid. `canceled`: it was stopped in time. While
 * it is `pending` or `processing`, its amount is reserved.
 */
export type PayoutStatus = 'pending' | 'processing' | 'paid' | 'failed' | 'canceled'

/** The variables to render with. */
export interface PreviewMessageTemplate {
  /** The variables of the template: any JSON, up to 1,000 values. */
  variables?: Record<string, unknown>
}

/** A recipient: somebody you pay. */
export interface Recipient {
  /** The id of the recipient. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string
  /** The name of the recipient. */
  name: string
  /** Stored exactly as you sent it. */
  email: string | null
  type: RecipientType
  /** ISO 4217 currency code of payouts to the recipient, in lower case. */
  currency: string
  /** ISO 3166-1 alpha-2 country code, in upper case; `ZZ` if it was lost. */
  country: string
  /** The processor's token of the destination. */
  destination: string
  kyc_status: KycStatus
  /** When it was archived; null otherwise. */
  archived_at: string | null
  metadata: Metadata
  /** When it was created. Unique among your recipients, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/**
 * How the recipient is paid. `bank_account`, `card`: payouts to a bank account or a debit card.
 * `account`: a transfer to a connected account at the processor.
 */
export type RecipientType = 'bank_account' | 'card' | 'account'

/** The period of the deliveries to send again. */
export interface RecoverWebhookEndpoint {
  /** Only deliveries created at or after this time. */
  since: string
  /** Only deliveries created before this time. Defaults to now; a time in the future also means now. */
  until?: string | null
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** A refund: money that goes back to the buyer. */
export interface Refund {
  /** The id of the refund. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The payment that is refunded. */
  payment_id: string
  /** The idempotency key that it was created with; null for a refund made in the processor's dashboard. */
  idempotency_key: string | null
  status: RefundStatus
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /** ISO 4217 currency code. */
  currency: string
  /** Why it was refunded, if a reason was given. */
  reason: string | null
  /** Whether it was made in the processor's dashboard. */
  imported: boolean
  /** The processor that moves the money. */
  processor: string
  /** The refund at the processor. */
  processor_reference: string | null
  /** Why it failed; null if it has not. */
  failure: RefundFailure | null
  metadata: Metadata
  /** When it was created. Unique among your refunds, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Why a refund failed. */
export interface RefundFailure {
  /** What went wrong. */
  code: string
  /** A description for people. */
  message: string
}

/**
 * `pending`: the refund is in progress. `succeeded`: the money is on its way to the buyer. `failed`:
 * the money stays with you. A refund that succeeded can still fail, up to 30 days later.
 */
export type RefundStatus = 'pending' | 'succeeded' | 'failed'

/** A template rendered with these variables. */
export interface RenderedTemplate {
  /** The subject of an email. */
  subject: string | null
  /** The text of an email. */
  text: string | null
  /** The HTML of an email. */
  html: string | null
  /** The text of an SMS. */
  body: string | null
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
}

/** Only an idempotency key. */
export interface ReplayWebhookDelivery {
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** How long the old secrets stay valid. */
export interface RotateWebhookSecret {
  /**
   * How many seconds the old secrets stay valid.
   *
   * `Default: `86400`.
   */
  grace_s?: number
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** The email to send. */
export interface SendEmail {
  /** The recipients. With `cc` and `bcc`, at most 50; each address gets the email once. */
  to: string[]
  /** The cc recipients. */
  cc?: string[] | null
  /** The bcc recipients, hidden from the others. */
  bcc?: string[] | null
  /**
   * The sender, at one of the domains that you may send from. It may not be the system's own address.
   * Defaults to the installation's address.
   */
  from?: string | null
  /** The addresses for replies; not the system's own. */
  reply_to?: string | null
  /** The subject. Required unless you use a template; it replaces the template's subject. */
  subject?: string | null
  /** The text. One of `text`, `html` and `template` is required. */
  text?: string | null
  /** The HTML, with or without a `text`. */
  html?: string | null
  /**
   * Further headers: `X-...`, `In-Reply-To`, `References`, `Auto-Submitted` and `Precedence`, each once.
   * Headers that control relays, such as `X-SMTPAPI`, are refused.
   */
  headers?: Record<string, string> | null
  /** Your own tags, by which lists can be filtered. */
  tags?: string[] | null
  /** The attached files. The whole request may have at most 15 MiB. */
  attachments?: SentAttachment[] | null
  /** The one-click unsubscribe URL; sets `List-Unsubscribe` and `List-Unsubscribe-Post` (RFC 8058). */
  list_unsubscribe_url?: string | null
  /** The name or id of a template, instead of the texts. */
  template?: string | null
  /** The variables of the template; up to 64 KiB and 1,000 values. */
  variables?: Record<string, unknown> | null
  /** When to send the message: at most 30 days in the future. Default: now. */
  send_at?: string | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** Up to 100 messages. */
export interface SendEmailBatch {
  /** The messages, each with its own key. */
  messages: SendEmail[]
}

/** The SMS to send. */
export interface SendSms {
  /** The recipient's number, in E.164 format. */
  to: string
  /**
   * The text, at most 1,600 UTF-16 code units: an emoji counts as two or more. Either `body` or
   * `template` is required.
   */
  body?: string | null
  /**
   * The sender: a number, a messaging service (`MG...`), or a name. A name has up to 11 characters
   * (letters, digits, blanks, `&`, `_` and `-`) with at least one letter, and begins and ends with a
   * letter or digit. If you have senders of your own, the sender must be one of them, and the default is
   * the first; otherwise the default is the installation's sender.
   */
  from?: string | null
  /** How many seconds the provider may try to deliver the SMS. */
  validity_s?: number | null
  /** The name or id of a template, instead of the texts. */
  template?: string | null
  /** The variables of the template; up to 64 KiB and 1,000 values. */
  variables?: Record<string, unknown> | null
  /** When to send the message: at most 30 days in the future. Default: now. */
  send_at?: string | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** Up to 100 messages. */
export interface SendSmsBatch {
  /** The messages, each with its own key. */
  messages: SendSms[]
}

/** A file attached to an email. */
export interface SentAttachment {
  /** The name, without a path. */
  filename: string
  /** The media type. */
  content_type: string
  /** The content of the file, in base64. */
  content: string
}

/** A suppression: an address or number that no longer gets messages. */
export interface Suppression {
  /** The id of the suppression. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string | null
  channel: Channel
  reason: SuppressionReason
  /**
   * For a bounce or a complaint: the message that caused it. For an opt-out: the latest SMS to the
   * number. Null if there is none.
   */
  message_id: string | null
  metadata: Metadata
  /** When it was created. Unique among your suppressions, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** The email address, or the number. */
  address: string
}

/** The suppression as it was then. */
export interface SuppressionEventData {
  /** The id of the suppression. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string | null
  channel: Channel
  reason: SuppressionReason
  /**
   * For a bounce or a complaint: the message that caused it. For an opt-out: the latest SMS to the
   * number. Null if there is none.
   */
  message_id: string | null
  metadata: Metadata
  /** When it was created. Unique among your suppressions, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** The email address, or the number; null once it is erased. */
  address: string | null
}

/**
 * `hard_bounce`: the address does not exist. `complaint`: somebody marked a message as spam.
 * `opt_out`: somebody replied STOP, or a similar keyword, to an SMS. `manual`: you created it.
 */
export type SuppressionReason = 'hard_bounce' | 'complaint' | 'opt_out' | 'manual'

/** The clock of your tenant in test mode. */
export interface TestClock {
  /** The time of the clock. */
  now: string
  /** The time to which the clock moves; null if it does not move. */
  advance_to: string | null
  status: TestClockStatus
  /**
   * The number of deadlines until `advance_to` that are still ahead of the clock, counted up to 10,000.
   * What runs may add deadlines. Null until they are counted.
   */
  remaining: number | null
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
}

/**
 * `advancing`: the clock moves to `advance_to`, from one deadline to the next. At each it waits until
 * what was due has run, but at most 30 seconds, and not for what a pause stops. `ready`: it has
 * arrived.
 */
export type TestClockStatus = 'ready' | 'advancing'

/** The event to send. */
export interface TestWebhookEndpoint {
  /**
   * The type of the test event; the endpoint need not subscribe to it. Default: `payment.captured`, or
   * the endpoint's first type if it does not subscribe to `payment.captured`.
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
    | 'payment.recovered'
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
    | 'refund.recovered'
    | 'refund.succeeded'
    | 'refund.failed'
    | 'payout.created'
    | 'payout.recovered'
    | 'payout.processing'
    | 'payout.paid'
    | 'payout.failed'
    | 'payout.fail_overtaken'
    | 'payout.canceled'
    | 'top_up.created'
    | 'top_up.recovered'
    | 'top_up.succeeded'
    | 'top_up.failed'
    | 'top_up.canceled'
    | 'top_up.reversed'
    | 'kyc.created'
    | 'kyc.recovered'
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
    | 'message.recipients_settled'
    | 'message.received'
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
    | 'feed.restarted'
    | 'request.lost'
  /**
   * A repeated request with the same key and content takes effect once. You may send the header
   * `Idempotency-Key` instead.
   */
  idempotency_key?: string
}

/** One entry in the timeline of a payment, payout, top-up, verification or message. */
export interface TimelineEntry {
  /** When it happened or began. */
  at: string
  kind: TimelineKind
  /**
   * For an attempt, the job (`payment.capture`); for a call, the operation (`capture`); for a
   * notification, its type (`payment_intent.succeeded`); for a posting, its kind (`capture`,
   * `payout_paid`); for an event, its type (`payment.captured`).
   */
  name: string
  /**
   * How it ended; null while it is in progress.
   * - An attempt: `done`; `declined`: refused, final; `retry`: this attempt had no effect, and another
   * attempt follows; `ambiguous`: it may have had an effect, and another attempt sends it again with the
   * same key or looks it up; `unknown`: it is looked up, and sent again only if it had no effect;
   * `misconfigured`: credentials were refused; `returned`: nothing was sent, another attempt follows;
   * `parked`: it waits for an operator; `discarded`, `resolved`: an operator ended it. Also null if the
   * worker failed.
   * - A call: `done`, `declined`, `discarded`, or `rotated`: it failed and was replaced by a call with a
   * new key.
   * - A notification: `received`, `applied`, `parked` until the object it names exists, `ignored`.
   * - Postings and events have no outcome.
   */
  outcome: string | null
  /**
   * Details by kind.
   * - An attempt: `job_id`; `attempt`, its number; `ended_at`; `in_doubt`, whether an earlier attempt
   * with the same key may have had an effect; `rotated`, whether the call had no effect and the next
   * attempt sends it with a new key; `error`, with `code` and `message`, or null; if a provider refused,
   * also the provider's answer.
   * - A call: `job_id`; `generation`, which rises with each new key; `last_sent_at` (`at` is when it was
   * first sent); `provider_reference`, the provider's id of the object.
   * - A notification: `provider`; `event_id` and `object_id`, its ids at the provider; `applied_at`.
   * - A posting: `transfer_id`; `subject_id`, the resource that caused it, for example the refund;
   * `debit_account` and `credit_account`; `amount_minor` and `currency`.
   * - An event: `event_id`; for a manual decision also `decided_by_key_id`, the API key; `failure`, the
   * code of the failure, if any.
   */
  details: Record<string, unknown>
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
}

/**
 * `attempt`: one try at a job. `provider_call`: a call to the provider. `notification`: a notification
 * from the provider. `posting`: an entry in the ledger. `event`: an event of the feed.
 */
export type TimelineKind = 'attempt' | 'provider_call' | 'notification' | 'posting' | 'event'

/** A top-up: money that you add to your balance. */
export interface TopUp {
  /** The id of the top-up. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string
  status: TopUpStatus
  /** Amount in the smallest unit of the currency: 1000 is ten dollars. */
  amount_minor: number
  /** ISO 4217 currency code, in lower case. */
  currency: string
  /** Where the money comes from, masked; null means the bank account of the platform. */
  source: string | null
  /** A description of your own. */
  description: string | null
  /** The processor that moves the money. */
  processor: string
  /** The top-up at the processor; null until the processor has accepted it. */
  processor_reference: string | null
  /** Why it failed; null if it has not. */
  failure: TopUpFailure | null
  /** When the money came. It stays set if the money was taken back. */
  succeeded_at: string | null
  /** When it failed or was taken back. */
  failed_at: string | null
  metadata: Metadata
  /** When it was created. Unique among your top-ups, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Why a top-up failed. */
export interface TopUpFailure {
  /**
   * `payment_declined`, `payment_invalid`, `processor_error`: the processor did not accept it.
   * `reversed`: the money was taken back. Otherwise the processor's own code.
   */
  code: string
  /** A description for people. */
  message: string
}

/**
 * `pending`: the money is on its way. `succeeded`: the money is in your balance. `failed`: the money
 * did not come, or was taken back after it had come. `canceled`: the top-up was canceled at the
 * processor before the money came.
 */
export type TopUpStatus = 'pending' | 'succeeded' | 'failed' | 'canceled'

/**
 * Sent instead of the data if the body would exceed 20 kB. `GET /v1/events/{id}` returns the complete
 * data; you can also retrieve the resource.
 */
export interface TruncatedData {
  /** The id of the resource. */
  id: string
  /** Always true. */
  truncated: true
}

/** The fields to change. */
export interface UpdateCustomer {
  /** The customer's name. */
  name?: string | null
  /** Stored exactly as you send it; not validated. */
  email?: string | null
  /** Stored exactly as you send it; not validated. */
  phone?: string | null
  /** Your own identifier for the customer. */
  external_id?: string | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
}

/** The fields to change. */
export interface UpdateMerchant {
  /** The legal name, as in contracts. */
  legal_name?: string
  /** The name that buyers know. */
  display_name?: string
  /** ISO 3166-1 alpha-2 country code. */
  country?: string
  /** The email address for buyers. */
  support_email?: string
  /** The merchant's website; http or https. */
  url?: string | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
}

/** The fields to change. */
export interface UpdateMessageTemplate {
  /** Unique among your templates. */
  name?: string
  /** The subject of an email; renders to one line. */
  subject?: string | null
  /** The text of an email. */
  text?: string | null
  /** The HTML of an email; values are escaped. */
  html?: string | null
  /** The text of an SMS. */
  body?: string | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
}

/** The fields to change. */
export interface UpdateRecipient {
  /** The name of the recipient. */
  name?: string
  /** The recipient's email address. */
  email?: string | null
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
}

/** The fields to change. */
export interface UpdateWebhookEndpoint {
  /**
   * http or https, in production https on port 443 or 8443. The URL must not lead to a private address,
   * and must not contain a user or password.
   */
  url?: string
  /** The events to send: `*` for all, `<resource>.*`, or single types. */
  types?: EventTypes[]
  /** Your own description. */
  description?: string | null
  /** Your own headers, sent with each request. Stored encrypted. */
  headers?: Record<string, string>
  /**
   * Whether events are sent one at a time, by their sequence. Then an event whose delivery fails delays
   * later events until its delivery is final.
   */
  ordered?: boolean
  /**
   * The maximum number of requests at once; fewer while the endpoint is slow or fails. Tests and replays
   * are not counted.
   */
  max_in_flight?: number
  /** The maximum number of requests a second, spread evenly over the second; null means no limit. */
  rate_per_s?: number | null
  status?: WebhookEndpointStatus
  /**
   * Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the
   * resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to
   * zero than 1e-15.
   */
  metadata?: Metadata
}

/** A verification: whether somebody is who they say they are. */
export interface Verification {
  /** The id of the verification. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string
  status: VerificationStatus
  subject_type: KycSubjectType
  /** The customer, merchant or recipient. */
  subject_id: string
  /** The URL to which the person is sent after the provider's page. */
  return_url: string | null
  /** The provider that verifies. */
  provider: string
  /** The session at the provider; null until it has started. */
  provider_reference: string | null
  /** What was wrong the last time; null if nothing was. */
  failure: KycFailure | null
  /** The decision; null until there is one, and if the provider did not accept the verification. */
  decision: KycDecision | null
  /** The reason given for a manual decision. */
  decision_reason: string | null
  /** `manual`: it was decided manually, which is final. */
  decided_by: 'provider' | 'manual' | null
  /** The id of the API key that made the manual decision. */
  decided_by_key_id: string | null
  /** When it was decided. */
  decided_at: string | null
  metadata: Metadata
  /** When it was created. Unique among your verifications, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /**
   * Whether the verification no longer counts, whatever its status: after a loss of data, the customer,
   * merchant or recipient was created with other content than the verification was requested for, or has
   * a later verification.
   */
  outdated: boolean
  /**
   * The provider's page for this person. It is shown once: in the first answer to the create that can
   * have it, or in the answer to `link`. It is null everywhere else, and works for one visit within 48
   * hours.
   */
  url: string | null
}

/** The verification as it was then. */
export interface VerificationEventData {
  /** The id of the verification. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string
  status: VerificationStatus
  subject_type: KycSubjectType
  /** The customer, merchant or recipient. */
  subject_id: string
  /** The URL to which the person is sent after the provider's page. */
  return_url: string | null
  /** The provider that verifies. */
  provider: string
  /** The session at the provider; null until it has started. */
  provider_reference: string | null
  /** What was wrong the last time; null if nothing was. */
  failure: KycFailure | null
  /** The decision; null until there is one, and if the provider did not accept the verification. */
  decision: KycDecision | null
  /** The reason given for a manual decision. */
  decision_reason: string | null
  /** `manual`: it was decided manually, which is final. */
  decided_by: 'provider' | 'manual' | null
  /** The id of the API key that made the manual decision. */
  decided_by_key_id: string | null
  /** When it was decided. */
  decided_at: string | null
  metadata: Metadata
  /** When it was created. Unique among your verifications, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/**
 * `pending`: the provider has not started. `requires_input`: it waits for the person, for the first
 * time or again; `failure` says why. `processing`: the provider is checking what the person submitted.
 * `approved`, `rejected`: decided. Until it is decided, the verification is open.
 */
export type VerificationStatus = 'pending' | 'requires_input' | 'processing' | 'approved' | 'rejected'

/** Your balance in one currency. */
export interface WalletBalance {
  /** ISO 4217 currency code, in lower case. */
  currency: string
  /** The sum of all transactions. It can be negative, e.g. after a refund. */
  balance_minor: number
  /** The amount that payouts have reserved: the sum of those that are `pending` or `processing`. */
  pending_payouts_minor: number
  /** `balance_minor` minus `pending_payouts_minor`: the amount that can be paid out. */
  available_minor: number
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
}

/** One change of a balance. It never changes. */
export interface WalletTransaction {
  /** The id of the transaction. */
  id: string
  kind: WalletTransactionKind
  /** ISO 4217 currency code, in lower case. */
  currency: string
  /** The change of the balance; negative if it fell. */
  amount_minor: number
  /** The balance of this currency after it. */
  balance_after_minor: number
  /** The type of the resource that caused it; null if none did. */
  subject_type: 'payment' | 'refund' | 'dispute' | 'payout' | 'top_up' | null
  /** The id of that resource. */
  subject_id: string
  /** When it was posted: the cursor of lists. */
  created_at: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
}

/**
 * `capture`: a payment was captured. `refund`: money went back to a buyer; `refund_failed`: the refund
 * failed and the money came back. `top_up`: you added money; `top_up_reversed`: it was taken back.
 * `payout_paid`: a payout was paid; `payout_returned`: it came back. `dispute_withdrawn`: a buyer
 * disputed a payment; `dispute_reinstated`: you won the dispute. `fee`: a fee was charged.
 * `correction`: a mistake was corrected.
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

/** The delivery of an event to an endpoint. */
export interface WebhookDelivery {
  /** The id of the delivery. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The endpoint. */
  endpoint_id: string
  /** The id of the event, which is also the header `webhook-id` of each attempt. */
  event_id: string
  /** The type of the event. */
  type: string
  /** The sequence of the event in your feed; null for a test. */
  sequence: number | null
  status: WebhookDeliveryStatus
  /** Scheduled attempts so far; replays do not count. */
  attempts: number
  /**
   * When the next attempt is due; null if there is none. It may come later: a failing endpoint gets one
   * request at a time, and an ordered endpoint gets its events in order.
   */
  next_attempt_at: string | null
  /** The HTTP status of the last response; null if there was none. */
  last_status_code: number | null
  /** Why the last attempt got no response. */
  last_error: string | null
  /** When it was delivered. */
  delivered_at: string | null
  /** The cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** An attempt to deliver an event. */
export interface WebhookDeliveryAttempt {
  /** When the attempt began. */
  at: string
  /** The HTTP status of the response; null if there was none. */
  status_code: number | null
  /** How long it took. */
  duration_ms: number
  /** Why there was no response. */
  error: string | null
  /**
   * The beginning of the response body: at most 1,000 bytes, 200 for a success. Null if there was no
   * response, if five more attempts have followed, or if the personal data of the event was erased.
   */
  response_excerpt: string | null
  /** Whether it was a replay. */
  manual: boolean
}

/** A delivery with its attempts and its payload. */
export interface WebhookDeliveryDetail {
  /** The id of the delivery. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The endpoint. */
  endpoint_id: string
  /** The id of the event, which is also the header `webhook-id` of each attempt. */
  event_id: string
  /** The type of the event. */
  type: string
  /** The sequence of the event in your feed; null for a test. */
  sequence: number | null
  status: WebhookDeliveryStatus
  /** Scheduled attempts so far; replays do not count. */
  attempts: number
  /**
   * When the next attempt is due; null if there is none. It may come later: a failing endpoint gets one
   * request at a time, and an ordered endpoint gets its events in order.
   */
  next_attempt_at: string | null
  /** The HTTP status of the last response; null if there was none. */
  last_status_code: number | null
  /** Why the last attempt got no response. */
  last_error: string | null
  /** When it was delivered. */
  delivered_at: string | null
  /** The cursor of lists. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** The attempts, oldest first, replays among them. */
  attempts_log: WebhookDeliveryAttempt[]
  /**
   * The payload: `{ id, type, timestamp, sequence, tenant_id, livemode, data }`. If it would exceed 20
   * kB, `data` is only `{ id, truncated: true }`. Null if the event's retention period has passed.
   */
  payload: unknown
}

/**
 * `pending` until it is final. `failed`: the endpoint answered 410, or was disabled automatically
 * while this delivery waited. `exhausted`: the last attempt of the schedule failed, or the only
 * attempt of a test. `skipped`: the endpoint was disabled when the event happened, or you disabled it
 * while this delivery waited.
 */
export type WebhookDeliveryStatus = 'pending' | 'delivered' | 'failed' | 'exhausted' | 'skipped'

/** A webhook endpoint: a URL that your events are sent to. */
export interface WebhookEndpoint {
  /** The id of the endpoint. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string | null
  /** The URL that events are sent to. */
  url: string
  /** The events to send: `*` for all, `<resource>.*`, or single types. */
  types: string[]
  /** Your description. */
  description: string | null
  /**
   * Whether events are sent one at a time, by their sequence. Then an event whose delivery fails delays
   * later events until its delivery is final.
   */
  ordered: boolean
  /**
   * The maximum number of requests at once; fewer while the endpoint is slow or fails. Tests and replays
   * are not counted.
   */
  max_in_flight: number
  /** The maximum number of requests a second; null means no limit. */
  rate_per_s: number | null
  status: WebhookEndpointStatus
  disabled_reason: WebhookEndpointDisabledReason
  metadata: Metadata
  /** When it was created. Unique among your endpoints, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
  /** Your own headers, sent with each request. */
  headers: Record<string, string>
  /** Since when every attempt has failed; null if the last one succeeded or there was none. */
  failing_since: string | null
  /**
   * The secret that signs requests. Returned once, in the response to the creation or the rotation; null
   * after that.
   */
  secret: string | null
}

/**
 * Why the endpoint was disabled. `gone`: it answered 410. `failing`: every attempt failed for five
 * days. `manual`: you disabled it. Null while it is enabled.
 */
export type WebhookEndpointDisabledReason = 'gone' | 'failing' | 'manual' | null

/** The endpoint as it was then, without its secret and its headers. */
export interface WebhookEndpointEventData {
  /** The id of the endpoint. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The idempotency key that it was created with. */
  idempotency_key: string | null
  /** The URL that events are sent to. */
  url: string
  /** The events to send: `*` for all, `<resource>.*`, or single types. */
  types: string[]
  /** Your description. */
  description: string | null
  /**
   * Whether events are sent one at a time, by their sequence. Then an event whose delivery fails delays
   * later events until its delivery is final.
   */
  ordered: boolean
  /**
   * The maximum number of requests at once; fewer while the endpoint is slow or fails. Tests and replays
   * are not counted.
   */
  max_in_flight: number
  /** The maximum number of requests a second; null means no limit. */
  rate_per_s: number | null
  status: WebhookEndpointStatus
  disabled_reason: WebhookEndpointDisabledReason
  metadata: Metadata
  /** When it was created. Unique among your endpoints, so lists use it as their cursor. */
  created_at: string
  /** When it last changed. */
  updated_at: string
}

/** Delivery statistics for the last seven days. Tests and replays are not counted. */
export interface WebhookEndpointStats {
  /** The number of successful deliveries. */
  delivered: number
  /** The number of deliveries that failed: `failed` or `exhausted`. */
  failed: number
  /** The number of deliveries that currently wait for an attempt or are being sent. */
  pending: number
  /** The median response time of successful requests (p50); null if there were none. */
  p50_ms: number | null
  /** The 95th percentile of their response time (p95), accurate to about 5 %. */
  p95_ms: number | null
  /** When the last attempt succeeded. */
  last_success_at: string | null
  /** When the last attempt failed. */
  last_failure_at: string | null
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
}

/**
 * `disabled`: no events are sent to the endpoint, and events that happen in the meantime are not sent
 * later automatically. Tests, replays and recoveries are sent.
 */
export type WebhookEndpointStatus = 'enabled' | 'disabled'

/** A request to send again what an endpoint missed in a period. */
export interface WebhookRecovery {
  /** The id of the recovery. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The endpoint. */
  endpoint_id: string
  /** Only deliveries created at or after this time. */
  since: string
  /** Only deliveries created before this time. */
  until: string
  status: WebhookRecoveryStatus
  /** The number of missed deliveries found so far. */
  found: number
  /**
   * The number of these deliveries that were sent again. Deliveries that still wait or are in progress,
   * or that were dropped because the endpoint was disabled, are not counted. Each delivery shows whether
   * it was delivered.
   */
  sent: number
  /** When it was created. */
  created_at: string
  /** When it last made progress. */
  updated_at: string
}

/** `completed`: all missed deliveries have been sent or dropped. */
export type WebhookRecoveryStatus = 'pending' | 'running' | 'completed'

// The interface of the SMS provider.
import type { MessageFailure, Outcome } from '#core/outcome.ts'
import type { SendOutcome } from './email.ts'

export type OutgoingSms = {
  /** A number, a name of up to 11 characters, or the id of a messaging service. */
  from: string
  /** E.164. */
  to: string
  body: string
  validity_s: number | null
  /** URL for status callbacks. */
  callback_url: string | null
}

/**
 * The delivery status of an accepted SMS. A status replaces only the statuses before it in this order, with one
 * exception: `sent` also replaces `failed`. `sending` never replaces `failed`, because a callback with `sending` may
 * have been delayed and be older than the failure.
 */
export type SmsStatus = 'sending' | 'sent' | 'failed' | 'undelivered' | 'delivered'

/** The provider's record of an SMS. */
export type ProviderSms = {
  reference: string

  status: SmsStatus
  /** The status as the provider names it. */
  provider_status: string
  failure: MessageFailure | null
  /** Null until the provider reports it. `amount` is a positive decimal number. */
  price: { amount: string; currency: string } | null
}

/** An SMS that the provider has received. */
export type ReceivedSms = {
  account: string
  sid: string
  from: string
  /** The number that received the SMS, and its messaging service, if any. */
  received_by: string[]
  body: string
  keyword: 'opt_out' | 'opt_in' | 'help' | 'other'
  /** ISO 8601. */
  received_at: string
}

export type ReceivedPage = { received: ReceivedSms[]; unreadable: number; next: string | null }

export type SmsProvider = {
  /** Sends an SMS once; the provider has no idempotency keys. Returned texts contain no number. */
  sendSms(sms: OutgoingSms): Promise<SendOutcome<ProviderSms>>
  /** Looks up an SMS. Null: the provider has no such SMS. */
  findSms(reference: string): Promise<Outcome<ProviderSms | null>>
  /** Lists the SMS with this text to this number, created at or after `since_s` (unix seconds), oldest first. */
  searchSms(sms: { from: string; to: string; body: string; since_s: number }): Promise<Outcome<ProviderSms[]>>
  /**
   * A page of the SMS that the provider has received since `from_s` (unix seconds), newest first. `page`: `next` of the
   * previous page; null for the first one. `next` null: there are no more. `unreadable`: the number of SMS that lack a
   * field and are left out.
   */
  listReceived(list: {
    from_s: number
    page: string | null
    /** The number of SMS on a page, sent ones included. Default: the provider's maximum. */
    page_size?: number
  }): Promise<Outcome<ReceivedPage>>
  close(): Promise<void>
}

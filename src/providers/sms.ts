// What we ask of whoever sends SMS, and what comes back.
import type { MessageFailure, Outcome } from '#core/outcome.ts'
import type { SendOutcome } from './email.ts'

export type OutgoingSms = {
  /** A number, a name of up to 11 characters, or the id of a messaging service. */
  from: string
  /** E.164. */
  to: string
  body: string
  validity_s: number | null
  /** Where the provider tells what becomes of it. */
  callback_url: string | null
}

/**
 * How far an SMS has come since its provider took it, in this order; a later one never goes back to an earlier, but
 * `failed` may be corrected by any but `sending`, which may have been on its way for longer.
 */
export type SmsStatus = 'sending' | 'sent' | 'failed' | 'undelivered' | 'delivered'

/** An SMS as its provider has it. */
export type ProviderSms = {
  reference: string
  /** In our words. */
  status: SmsStatus
  /** The provider's own word. */
  provider_status: string
  failure: MessageFailure | null
  /** Null until it is known. `amount` is a positive decimal number. */
  price: { amount: string; currency: string } | null
}

export type SmsProvider = {
  /** Sends an SMS once: the provider does not recognize a repetition. No text that comes back names a number. */
  sendSms(sms: OutgoingSms): Promise<SendOutcome<ProviderSms>>
  /** Null: the provider does not know it. */
  findSms(reference: string): Promise<Outcome<ProviderSms | null>>
  /** The SMS of this text to this number that are listed, made no earlier than `since_s` (Unix time), the oldest first. */
  searchSms(sms: { from: string; to: string; body: string; since_s: number }): Promise<Outcome<ProviderSms[]>>
  close(): Promise<void>
}

// What we ask of whoever sends email, and what comes back.
import type { MessageFailure } from '#core/outcome.ts'

export type OutgoingEmail = {
  /** The Message-ID, with its angle brackets: the same for each attempt. */
  message_id: string
  /** Addresses as people write them. */
  from: string
  to: string[]
  cc: string[]
  reply_to: string | null
  subject: string
  text: string | null
  html: string | null
  headers: Record<string, string>
  list_unsubscribe_url: string | null
  attachments: { filename: string; content_type: string; content: Buffer }[]
  /** The bare addresses that it really goes to: to, cc and bcc without those that are suppressed. */
  recipients: string[]
}

/** A recipient whom the server refused; `address` is one of `recipients`. `deferred`: for now, another attempt may succeed. */
export type RefusedRecipient = { address: string; deferred: boolean } & MessageFailure

/**
 * `declined`, `retry` and `misconfigured`: it certainly was not sent. `reported`: by the provider, of us and not of the message;
 * only operators are told.
 */
export type SendOutcome<Sent> =
  | { kind: 'done'; value: Sent; reported?: string }
  /** Refused for good. */
  | { kind: 'declined'; failure: MessageFailure; refused?: RefusedRecipient[]; reported?: string }
  /** Not now: another attempt may succeed. */
  | {
      kind: 'retry'
      failure: MessageFailure
      after_ms?: number
      refused?: RefusedRecipient[]
      reported?: string
    }
  /** It may have been sent. */
  | { kind: 'ambiguous'; reason: string }
  /** Our credentials or our set-up were refused. */
  | { kind: 'misconfigured'; failure: MessageFailure; reported?: string }

export type EmailProvider = {
  /**
   * Does `work`, which sends one email, when there is a connection for it: who waits is served by turns of `whose`. What an
   * email needs is read in its turn, so that a slow server keeps few of them in memory, and few begun. Throws NotStarted when
   * the signal aborts first.
   */
  withConnection<T>(fairness_key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>
  /**
   * Sends an email once. `refused`: recipients for whom the server did not take it, while it did for others. No text that
   * comes back names an address. Throws NotStarted where a pause, or the end of the worker, kept it from leaving.
   */
  sendEmail(email: OutgoingEmail, signal: AbortSignal): Promise<SendOutcome<{ refused: RefusedRecipient[] }>>
  close(): Promise<void>
}

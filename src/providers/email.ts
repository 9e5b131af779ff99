// The interface of the email provider.
import type { MessageFailure } from '#core/outcome.ts'

export type OutgoingEmail = {
  /** The Message-ID with its angle brackets. It is the same for each attempt. */
  message_id: string
  /** Addresses, with or without display names. */
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
  /** The bare addresses of the envelope: to, cc and bcc without suppressed addresses. */
  recipients: string[]
}

/**
 * A recipient that the server refused. `address` is one of `recipients`. `deferred`: the refusal is temporary, so
 * another attempt may succeed.
 */
export type RefusedRecipient = { address: string; deferred: boolean } & MessageFailure

/**
 * The outcome of a send. `declined`, `retry` and `misconfigured`: the message was certainly not sent. `reported`: a
 * provider text about the connection or the login, for operators only.
 */
export type SendOutcome<Sent> =
  | { kind: 'done'; value: Sent; reported?: string }
  /** Permanently refused. */
  | { kind: 'declined'; failure: MessageFailure; refused?: RefusedRecipient[]; reported?: string }
  /** Temporarily refused: another attempt may succeed. */
  | {
      kind: 'retry'
      failure: MessageFailure
      after_ms?: number
      refused?: RefusedRecipient[]
      reported?: string
    }
  /** The message may have been sent. */
  | { kind: 'ambiguous'; reason: string }
  /** The credentials or the configuration were refused. */
  | { kind: 'misconfigured'; failure: MessageFailure; reported?: string }

export type EmailProvider = {
  /**
   * Runs `work`, which sends one email, when a connection is free. Waiting callers are served round robin by
   * `fairness_key`. The email is loaded by `work`, so that a slow server does not fill the memory with emails. Throws
   * NotStarted if the signal aborts first.
   */
  withConnection<T>(fairness_key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>
  /**
   * Sends an email once. `refused`: the recipients that the server refused although it accepted others. Returned texts
   * contain no address. Throws NotStarted if a pause or the stop of the worker prevented the send.
   */
  sendEmail(email: OutgoingEmail, signal: AbortSignal): Promise<SendOutcome<{ refused: RefusedRecipient[] }>>
  close(): Promise<void>
}

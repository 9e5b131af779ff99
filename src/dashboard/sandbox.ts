// The sandbox of a tenant in test mode, as the dashboard uses it: the inbox of what was sent, and what buyers, banks
// and phones do in live mode.
import { AppError } from '#core/errors.ts'
import type { Channel } from '#core/addresses.ts'
import type { Sql } from '#core/db.ts'

/** The statuses of messages in the inbox. `received`: an SMS that answers one. */
export const INBOX_STATUSES = ['sent', 'delivered', 'undelivered', 'failed', 'received'] as const

/**
 * An email or SMS in the inbox, without its texts. `reference`: the provider's id of the message. Only an SMS can be
 * received.
 */
export type InboxEntry = {
  id: string
  channel: Channel
  reference: string
  status: (typeof INBOX_STATUSES)[number]
  from: string
  to: string[]
  subject: string | null
  created_at: string
}
/** `text`: the text of an email or SMS. */
export type InboxEntryDetails = InboxEntry & {
  text: string | null
  html: string | null
  attachments: { filename: string; content_type: string; bytes: number }[]
}

/** `to`: an address or number. `before`: the `created_at` of the last entry of the previous page. */
type InboxFilters = { channel?: Channel; to?: string; before?: string; limit: number }

/** `finished`: whether the sandbox has done it. Otherwise it is accepted, and a worker does it soon. */
export type SandboxResult = { finished: boolean }

/**
 * The resource of an act changes when the notification about it is applied. Errors of an act: the `not_found` code of
 * the resource, and `conflict` with the reason if the sandbox refuses it, such as for a payment that waits for no
 * authentication.
 */
export type Sandbox = {
  /** The inbox, newest first. */
  listInbox(sql: Sql, tenant_id: string, filters: InboxFilters): Promise<InboxEntry[]>
  findInboxMessage(sql: Sql, tenant_id: string, id: string): Promise<InboxEntryDetails | undefined>
  /** Sends an SMS back, from the number that received the SMS with this id of the inbox. */
  replyToSms(tenant_id: string, id: string, text: string): Promise<SandboxResult>
  /** Ends the authentication that a payment waits for, as its buyer does. */
  authenticatePayment(
    tenant_id: string,
    payment_id: string,
    outcome: AuthenticationOutcome,
  ): Promise<SandboxResult>
  /** Opens a dispute of a captured payment, as the buyer's bank does. */
  disputePayment(tenant_id: string, payment_id: string): Promise<SandboxResult>
  /** Fails a payout that the processor has, or returns a paid one, as the recipient's bank does. */
  failPayout(tenant_id: string, payout_id: string): Promise<SandboxResult>
}

export const AUTHENTICATION_OUTCOMES = ['succeeded', 'failed'] as const
type AuthenticationOutcome = (typeof AUTHENTICATION_OUTCOMES)[number]

/** Refuses everything: this version keeps no state of a sandbox. */
export const MISSING_SANDBOX: Sandbox = {
  listInbox: refuse,
  findInboxMessage: refuse,
  replyToSms: refuse,
  authenticatePayment: refuse,
  disputePayment: refuse,
  failPayout: refuse,
}

async function refuse(): Promise<never> {
  throw new AppError('misconfigured_gateway', { message: 'This installation has no sandbox.' })
}

// The sandbox of a tenant in test mode, as the dashboard uses it: the inbox of what was sent, and what buyers, banks,
// verified persons and phones do in live mode.
import { setTimeout } from 'node:timers/promises'
import type { ApiContext } from '#api/context.ts'
import { AppError } from '#core/errors.ts'
import type { Channel } from '#core/addresses.ts'
import type { Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { IDENTITY } from '#core/config/providers.ts'
import { findPayment } from '#domain/payments/find.ts'
import { findPayout } from '#domain/payouts/find.ts'
import { findActEnd, requestSandboxAct, type SandboxAct } from '#domain/sandboxes/acts.ts'
import { findInInbox, type InboxMessage } from '#domain/sandboxes/inbox.ts'
import { findTenantsOf } from '#domain/people/find.ts'
import { findVerification, findVerificationByReference } from '#domain/verifications/find.ts'

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

/** The verification of a link, and the tenant in test mode that has it. */
export type LinkedVerification = { id: string; tenant_id: string; tenant_name: string }

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
  /** The verification of a session of the sandbox, in this tenant or in another tenant of the user. */
  findLinkedVerification(
    sql: Sql,
    user: { user_id: string; tenant: { id: string; name: string } },
    session: string,
  ): Promise<LinkedVerification | undefined>
  /** Sends an SMS back, from the number that received the SMS with this id of the inbox. */
  replyToSms(tenant_id: string, id: string, text: string): Promise<SandboxResult>
  /** Does what a payment waits for, as its buyer does: enters a card, or ends the authentication. */
  authenticatePayment(tenant_id: string, payment_id: string, outcome: SandboxOutcome): Promise<SandboxResult>
  /** Opens a dispute of a captured payment, as the buyer's bank does. */
  disputePayment(tenant_id: string, payment_id: string): Promise<SandboxResult>
  /** Fails a payout that the processor has, or returns a paid one, as the recipient's bank does. */
  failPayout(tenant_id: string, payout_id: string): Promise<SandboxResult>
  /** Ends the check of a verification. After a failed check, the verification waits for its person again. */
  completeVerification(
    tenant_id: string,
    verification_id: string,
    outcome: SandboxOutcome,
  ): Promise<SandboxResult>
}

/** The outcomes of what a buyer or a person does. */
export const SANDBOX_OUTCOMES = ['succeeded', 'failed'] as const
type SandboxOutcome = (typeof SANDBOX_OUTCOMES)[number]

/** How long an act waits for the worker that carries it out, in milliseconds. */
const MAX_WAIT_MS = 5_000
const POLL_INTERVAL_MS = 100

export function createSandbox({ sql, vault }: Pick<ApiContext, 'sql' | 'vault'>): Sandbox {
  async function requestAct(
    tenant_id: string,
    act: Pick<SandboxAct, 'act' | 'reference'> & { text?: string },
  ): Promise<SandboxResult> {
    const id = newId()
    await requestSandboxAct(sql, vault, tenant_id, { text: null, ...act, id })
    const until = performance.now() + MAX_WAIT_MS
    for (;;) {
      const end = await findActEnd(sql, tenant_id, id)
      if (end?.refused != null) throw new AppError('conflict', { message: end.refused })
      if (end !== undefined || performance.now() > until) return { finished: end !== undefined }
      await setTimeout(POLL_INTERVAL_MS)
    }
  }

  async function actOnPayment(tenant_id: string, id: string, act: SandboxAct['act']): Promise<SandboxResult> {
    const payment = await findPayment(sql, tenant_id, id)
    if (payment === undefined) throw new AppError('payment_not_found')
    return await requestAct(tenant_id, { act, reference: referenceOf(payment.processor_reference) })
  }

  return {
    listInbox: async (lists_sql, tenant_id, filters) =>
      (await findInInbox(lists_sql, vault, tenant_id, filters)).map(entryOf),
    async findInboxMessage(lists_sql, tenant_id, id) {
      const [found] = await findInInbox(lists_sql, vault, tenant_id, { limit: 1, id })
      return (
        found && { ...entryOf(found), text: found.text, html: found.html, attachments: found.attachments }
      )
    },
    async findLinkedVerification(reads_sql, { user_id, tenant }, session) {
      const found = await findVerificationByReference(reads_sql, IDENTITY.provider, session)
      if (found === undefined) return undefined
      const { id, tenant_id } = found
      if (tenant_id === tenant.id) return { id, tenant_id, tenant_name: tenant.name }
      const tenants = await findTenantsOf(reads_sql, user_id)
      const other = tenants.find(({ twin_id }) => twin_id === tenant_id)
      return other && { id, tenant_id, tenant_name: other.name }
    },
    async replyToSms(tenant_id, id, text) {
      const [found] = await findInInbox(sql, vault, tenant_id, { limit: 1, id })
      if (found === undefined) throw new AppError('message_not_found')
      return await requestAct(tenant_id, { act: 'answer_sms', reference: id, text })
    },
    authenticatePayment: async (tenant_id, id, outcome) =>
      await actOnPayment(tenant_id, id, outcome === 'succeeded' ? 'pay' : 'fail_payment'),
    disputePayment: async (tenant_id, id) => await actOnPayment(tenant_id, id, 'open_dispute'),
    async failPayout(tenant_id, id) {
      const payout = await findPayout(sql, tenant_id, id)
      if (payout === undefined) throw new AppError('payout_not_found')
      return await requestAct(tenant_id, {
        act: 'fail_payout',
        reference: referenceOf(payout.processor_reference),
      })
    },
    async completeVerification(tenant_id, id, outcome) {
      const verification = await findVerification(sql, tenant_id, id)
      if (verification === undefined) throw new AppError('kyc_not_found')
      const act = outcome === 'succeeded' ? 'pass_verification' : 'fail_verification'
      return await requestAct(tenant_id, { act, reference: referenceOf(verification.provider_reference) })
    },
  }
}

function referenceOf(reference: string | null): string {
  if (reference !== null) return reference
  throw new AppError('conflict', { message: 'The processor does not have it yet. Try again.' })
}

function entryOf(message: InboxMessage): InboxEntry {
  const { id, channel, reference, status, from, to, subject, created_at } = message
  return { id, channel, reference, status, from, to, subject, created_at }
}

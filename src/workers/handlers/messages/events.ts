// Applies notifications about messages. They are signed, so their content is trusted without a query.
import { bareAddress } from '#core/addresses.ts'
import { requireVariable } from '#core/config.ts'
import { EMAIL, SMS } from '#core/config/providers.ts'
import { newId } from '#core/ids.ts'
import type { Vault } from '#core/secrets.ts'
import type { MessageFailure } from '#core/outcome.ts'
import { segmentsOf } from '#core/segments.ts'
import {
  findReportedMessage,
  findTextingTenants,
  type ReportedMessage,
  type TextingTenant,
} from '#domain/messages/find-reported.ts'
import {
  createInboundVault,
  inboundTextContext,
  inboundText,
  type InboundText,
} from '#domain/messages/inbound.ts'
import {
  recipientAddresses,
  type MessageContent,
  type MessageEnvelope,
  type StoredRecipient,
} from '#domain/messages/message.ts'
import { settleInbound, type InboundSettlement, type ReceivedMessage } from '#domain/messages/receive.ts'
import { messageContext } from '#domain/messages/sealed.ts'
import { messageTerm } from '#domain/messages/terms.ts'
import {
  messageEvent,
  emptyMessageUpdate,
  type MessageProviderEvent,
  type MessageUpdate,
} from '#domain/messages/update.ts'
import type { StoredNotification } from '#domain/notifications/notification.ts'
import type { WorkerContext } from '../../context.ts'
import { done, retryUndone, type Decision } from '../../decision.ts'
import { outcomeOfSealError } from '../calls.ts'
import { addLogFacts } from '../../job-log.ts'
import { createSettlingStep, type SettlementDetails } from '../../settle.ts'
import { messageIdOf, openEnvelope, suppressionOf } from './sealed-content.ts'
import { settlingMessage } from './effects.ts'
import { finish, parkFor } from '../notifications/parked.ts'
import { withinMode } from '../notifications/rows.ts'

type MessageEventAbout<About extends MessageProviderEvent['about']> = Extract<
  MessageProviderEvent,
  { about: About }
>

const settlingInbound = createSettlingStep<SettlementDetails<InboundSettlement>>(
  'settle_inbound',
  settleInbound,
  ({ channel, address }) => `${channel}:${address}`,
)

/** Whether a notification comes from a message provider. */
export function isFromMessageProvider({ provider }: StoredNotification): boolean {
  return provider === EMAIL.provider || provider === SMS.provider
}

/**
 * Applies one notification. The result does not depend on the order of the notifications, nor on repeated
 * notifications.
 */
export async function applyMessageEvent(
  context: WorkerContext,
  notification: StoredNotification,
): Promise<Decision> {
  const event = messageEvent.safeParse(notification.payload).data
  if (event === undefined) return finish(notification, 'ignored')
  try {
    if (event.about === 'sms') return await applySms(context, notification, event)
    if (event.about === 'email') return await applyEmail(context, notification, event)
    return await applyInboundSms(context, notification, event)
  } catch (error) {
    // A key for the sealed texts of the message is missing: the job waits for the configuration.
    return retryUndone(outcomeOfSealError(error))
  }
}

async function applySms(
  context: WorkerContext,
  notification: StoredNotification,
  { message_id, reference, status, provider_status, failure }: MessageEventAbout<'sms'>,
): Promise<Decision> {
  const { provider } = notification
  const found = await findReportedMessage(context.sql, { message_id, provider, reference })
  const message = await withinMode(context, found)
  // Either the message is not ours (another application may use the same account), or the provider knows our message by
  // another id.
  if (message === undefined || (message.provider_reference ?? reference) !== reference)
    return finish(notification, 'ignored')
  return apply(notification, message, {
    reported: status === 'sending' ? 'sent' : status,
    provider_reference: reference,
    provider_status,
    failure,
  })
}

/** The effects of each report about a recipient of an email. A soft bounce only shows that the email was sent. */
const OUTCOMES = {
  delivered: { status: 'delivered' },
  soft_bounce: {},
  hard_bounce: {
    status: 'bounced',
    event: 'message.bounced',
    reason: 'hard_bounce',
    message: 'The email bounced.',
  },
  complaint: {
    status: 'bounced',
    event: 'message.complained',
    reason: 'complaint',
    message: 'The recipient complained.',
  },
} as const

async function applyEmail(
  context: WorkerContext,
  notification: StoredNotification,
  { message_id, address: hash, reported, code }: MessageEventAbout<'email'>,
): Promise<Decision> {
  const { sql, vault, hashOf } = context
  const { provider } = notification
  const found = await findReportedMessage(sql, { message_id, provider, reference: null })
  const message = await withinMode(context, found)
  if (message === undefined) return finish(notification, 'ignored')
  const { tenant_id } = message
  const envelope = openEnvelope(vault, { tenant_id, message_id }, message.envelope)
  const address = recipientAddresses(envelope).find((each) => hashOf('email', each) === hash)
  // The address is not a recipient of the message.
  if (address === undefined) return finish(notification, 'ignored', { of: keyOf(message) })
  const outcome = OUTCOMES[reported]
  const is_failure = 'reason' in outcome
  return apply(notification, message, {
    reported: 'recipient_update',
    provider_reference: referenceOf(message, envelope),
    recipients: reported === 'soft_bounce' ? [] : [recipientOf(hash, reported, code)],
    ...(is_failure && {
      event: outcome.event,
      failure: failureOf(outcome.message, code),
      suppresses: [
        suppressionOf(vault, tenant_id, { address: bareAddress(address), hash, reason: outcome.reason }),
      ],
    }),
  })
}

function recipientOf(
  address: string,
  reported: Exclude<MessageEventAbout<'email'>['reported'], 'soft_bounce'>,
  code: string | null,
): StoredRecipient {
  if (reported === 'delivered') return { address, status: 'delivered', code: null, message: null }
  const { status, message } = OUTCOMES[reported]
  return { address, status, code: reported === 'complaint' ? 'complaint' : code, message }
}

function referenceOf(message: ReportedMessage, envelope: MessageEnvelope): string {
  return message.provider_reference ?? messageIdOf(message.id, envelope)
}

function failureOf(message: string, provider_code: string | null): MessageFailure {
  return { code: 'recipient_refused', message, provider_code }
}

/**
 * Applies an inbound SMS. If the SMS is a reply, the tenant of the original message may read it. An opt-out or
 * opt-in keyword applies to each tenant that wrote from the receiving number to the sender. If no tenant did, the
 * notification is parked, because an earlier message may not be settled yet.
 */
async function applyInboundSms(
  context: WorkerContext,
  notification: StoredNotification,
  { keyword, from, received_by, text, ...event }: MessageEventAbout<'inbound_sms'>,
): Promise<Decision> {
  const { sql, vault } = context
  const received_at = event.received_at ?? notification.received_at
  const writers = (await findTextingTenants(sql, context, { from, received_by, received_at })).filter(
    ({ is_reply_target }) => is_reply_target || keyword === 'opt_out' || keyword === 'opt_in',
  )
  if (writers.length === 0 && notification.state !== 'parked')
    return parkFor(context, notification, 'not_ours')
  const number = openNumber(vault, writers)
  const inbound = text === undefined ? null : openInbound(context, notification, text)
  const tenants = writers.map(({ tenant_id, message_id, is_reply_target }) => ({
    message_id,
    ...suppressionOf(vault, tenant_id, { address: number, hash: from, reason: 'opt_out' }),
    tenant_id,
    received:
      is_reply_target && inbound !== null
        ? receivedBy(vault, { tenant_id, from_hash: from, to_hash: received_by[0]! }, inbound)
        : null,
  }))
  return done({
    effects: settlingInbound({
      notification_id: notification.id,
      provider: notification.provider,
      received_at,
      channel: 'sms',
      address: from,
      received_by: received_by[0]!,
      reference: notification.object_id ?? notification.id,
      tenants,
      opts_out: keyword === 'opt_out' ? true : keyword === 'opt_in' ? false : null,
    }),
  })
}

function openInbound({ config }: WorkerContext, { id }: StoredNotification, text: string): InboundText {
  const vault = createInboundVault(requireVariable(config, 'ADDRESS_KEY'))
  return inboundText.parse(JSON.parse(vault.open(text, inboundTextContext(id))))
}

/** An inbound SMS as a message of the tenant, sealed with the tenant's key context. */
function receivedBy(
  vault: Vault,
  { tenant_id, from_hash, to_hash }: { tenant_id: string; from_hash: string; to_hash: string },
  { from, to, body }: InboundText,
): ReceivedMessage['received'] {
  const message_id = newId()
  const sealed = (column: 'envelope' | 'content', part: MessageEnvelope | MessageContent) =>
    vault.seal(JSON.stringify(part), messageContext(tenant_id, message_id, column))
  return {
    message_id,
    envelope: sealed('envelope', {
      from,
      to: [to],
      cc: null,
      bcc: null,
      reply_to: null,
      subject: null,
      list_unsubscribe_url: null,
    }),
    content: sealed('content', {
      text: null,
      html: null,
      body,
      headers: null,
      attachments: null,
      validity_s: null,
    }),
    terms: [messageTerm(tenant_id, 'to', to_hash), messageTerm(tenant_id, 'from', from_hash)],
    ...segmentsOf(body),
  }
}

/**
 * The number to which all these messages were sent: it is read from the first message that can be decrypted, so that an
 * unreadable message of one tenant does not affect the others.
 */
function openNumber(vault: Vault, writers: TextingTenant[]): string {
  let first_error: unknown
  for (const { tenant_id, message_id, envelope } of writers) {
    try {
      return openEnvelope(vault, { tenant_id, message_id }, envelope).to[0] ?? ''
    } catch (error) {
      first_error = error
    }
  }
  if (first_error !== undefined) throw first_error
  return ''
}

function apply(
  { id: notification_id, received_at: happened_at }: StoredNotification,
  message: ReportedMessage,
  update: Pick<MessageUpdate, 'reported'> & Partial<MessageUpdate>,
): Decision {
  const ids = { tenant_id: message.tenant_id, message_id: message.id }
  addLogFacts(ids)
  return done({
    effects: settlingMessage({
      update: { ...emptyMessageUpdate, ...ids, ...update },
      notification_id,
      happened_at,
    }),
  })
}

function keyOf({ tenant_id, id }: ReportedMessage) {
  return { tenant_id, resource: 'message', resource_id: id } as const
}

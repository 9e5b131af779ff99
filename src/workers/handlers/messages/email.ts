// Sends emails. An SMTP server cannot be asked whether an email was sent: only notifications show it.
import { bareAddress } from '#core/addresses.ts'
import { SANDBOX_SENDERS } from '#core/config/providers.ts'
import { findSenderProblem } from '#core/email-sender.ts'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import { findAttachments, type MessageToSend } from '#domain/messages/begin.ts'
import { recipientAddresses, type StoredRecipient } from '#domain/messages/message.ts'
import { attachmentContext } from '#domain/messages/sealed.ts'
import { sendEmail } from '#jobs/messages.ts'
import type { OutgoingEmail, RefusedRecipient } from '#providers/email.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { recordMissingCredentials } from '../missing-credentials.ts'
import { idsOf, markUnknown, notFound, settleAccepted, type MessageJob } from './outcomes.ts'
import { messageIdOf, openContent, openEnvelope, suppressionOf } from './sealed-content.ts'
import type { MessageSender } from './sending.ts'

/** Relays that report bounces identify the message by this header, even if they replace its Message-ID. */
const MESSAGE_ID_HEADER = 'X-Sluice-Message-ID'

export const sendsEmail: MessageSender = {
  channel: 'email',
  last_lookup_ms: sendEmail.retry.lookup_delays_ms.at(-1)!,
  withConnection: async ({ email: provider }, { tenant_id, signal }, work) =>
    provider === null ? await work() : await provider.withConnection(tenant_id, signal, work),
  filesOf: async ({ sql }, job) => await findAttachments(sql, idsOf(job)),
  send,
  lookUp,
}

async function send(
  context: WorkerContext,
  job: MessageJob,
  message: MessageToSend,
  files: string[],
): ReturnType<MessageSender['send']> {
  const { email: provider, hashOf } = context
  if (provider === null)
    return { kind: 'not_configured', reason: recordMissingCredentials(context, 'email', 'send_email') }
  const email = emailOf(context, job, message, files)
  if (!isSenderAllowed(context, job, message, email)) return SENDER_NOT_ALLOWED
  const sent = await provider.sendEmail(email, job.signal)
  const refused = (sent.kind === 'done' ? sent.value.refused : 'refused' in sent && sent.refused) || []
  const refusals = refused.map((each) => refusedRecipient(hashOf('email', each.address), each))
  const suppresses = refused.filter(isHardBounce).map(({ address }) =>
    suppressionOf(context.vault, job.tenant_id, {
      address,
      hash: hashOf('email', address),
      reason: 'hard_bounce',
    }),
  )
  if (sent.kind !== 'done') return { ...sent, refusals, suppresses }
  const not_accepted = new Set(refused.map(({ address }) => address))
  const accepted = email.recipients
    .filter((address) => !not_accepted.has(address))
    .map((address) => ({ ...ACCEPTED, address: hashOf('email', address) }))
  const recipients = [...refusals, ...accepted]
  return {
    kind: 'done',
    value: { ...SENT, provider_reference: email.message_id, recipients, suppresses },
  }
}

/** Checks the sender again: the message may be days old, and its tenant may have lost the domain. */
function isSenderAllowed(
  { config, livemode }: WorkerContext,
  { tenant_id }: MessageJob,
  { email_domains }: MessageToSend,
  email: OutgoingEmail,
): boolean {
  if (tenant_id === SYSTEM_TENANT_ID || (!livemode && email.from === SANDBOX_SENDERS.email)) return true
  return findSenderProblem(config, email_domains, email) === undefined
}

const SENDER_NOT_ALLOWED = {
  kind: 'declined',
  failure: {
    code: 'sender_refused',
    message: 'This sender address is no longer allowed.',
    provider_code: null,
  },
} as const

const ACCEPTED = { status: 'accepted', code: null, message: null } as const

function refusedRecipient(
  address: string,
  { deferred, provider_code: code, message }: RefusedRecipient,
): StoredRecipient {
  return deferred
    ? { address, status: null, code, message, deferred: 'waiting' }
    : { address, status: 'refused', code, message }
}

/** Whether the mailbox does not exist, which is a hard bounce (RFC 3463; 5.1.10: RFC 7505). */
function isHardBounce({ deferred, provider_code }: RefusedRecipient): boolean {
  return !deferred && /^5\d\d 5\.1\.(?:1|6|10)$/.test(provider_code ?? '')
}

const SENT = { reported: 'sent', provider_status: null, failure: null, price: null } as const

/** The email with its sealed parts opened, for the recipients without a final status. */
function emailOf(
  { vault }: WorkerContext,
  job: MessageJob,
  { envelope: sealed, content: sealed_content, recipients }: MessageToSend,
  files: string[],
): OutgoingEmail {
  const ids = idsOf(job)
  const envelope = openEnvelope(vault, ids, sealed)
  const content = openContent(vault, ids, sealed_content)
  const open = recipientAddresses(envelope).filter((_address, index) => isUnsettled(recipients[index]))
  const tenant_headers = Object.entries(content.headers ?? {}).filter(
    ([name]) => name.toLowerCase() !== MESSAGE_ID_HEADER.toLowerCase(),
  )
  return {
    message_id: messageIdOf(ids.message_id, envelope),
    from: envelope.from,
    to: envelope.to,
    cc: envelope.cc ?? [],
    reply_to: envelope.reply_to,
    subject: envelope.subject ?? '',
    text: content.text,
    html: content.html,
    headers: { ...Object.fromEntries(tenant_headers), [MESSAGE_ID_HEADER]: ids.message_id },
    list_unsubscribe_url: envelope.list_unsubscribe_url,
    attachments: (content.attachments ?? []).map(({ filename, content_type }, index) => {
      const sealing_context = attachmentContext(ids.tenant_id, ids.message_id, index)
      return {
        filename,
        content_type,
        content: Buffer.from(vault.open(files[index] ?? '', sealing_context), 'base64'),
      }
    }),
    recipients: [...new Set(open.map(bareAddress))],
  }
}

/** Whether the recipient has no final status, so that this attempt includes it. */
function isUnsettled(recipient: StoredRecipient | undefined): boolean {
  return (recipient?.status ?? null) === null && recipient?.deferred !== 'unknown'
}

async function lookUp(
  _context: WorkerContext,
  job: MessageJob,
  { status }: MessageToSend,
): Promise<Decision> {
  // An operator resolved the job as sent, and entered this reference.
  if (job.call.reference !== null)
    return settleAccepted(job, 'email', { ...SENT, provider_reference: job.call.reference })
  if (status === 'sending') return markUnknown(job, 'the worker was lost while it sent the email')
  return notFound(job, sendsEmail, 'no notification has reported whether the email was sent')
}

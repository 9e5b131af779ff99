// How an email is sent. Nobody can be asked whether one was: only its notifications tell.
import { bareAddress } from '#core/addresses.ts'
import { findAttachments, type BegunMessage } from '#domain/messages/begin.ts'
import type { StoredRecipient } from '#domain/messages/message.ts'
import { attachmentPlace } from '#domain/messages/sealed.ts'
import { sendEmail } from '#jobs/messages.ts'
import type { OutgoingEmail, RefusedRecipient } from '#providers/email.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { recipientAddresses, messageIdOf, openContent, openEnvelope } from './parts.ts'
import { idsOf, mayBeSent, notFound, taken, type MessageJob, type MessageSender } from './sending.ts'

/** By this a relay that tells of bounces can name the message, also where it gives emails Message-IDs of its own. */
const OUR_HEADER = 'X-Sluice-Message-ID'
const NOT_CONFIGURED = {
  kind: 'misconfigured',
  failure: {
    code: 'connection_failed',
    message: 'No server that sends email is configured.',
    provider_code: null,
  },
} as const

export const sendsEmail: MessageSender = {
  channel: 'email',
  last_look_ms: sendEmail.retry.looks_ms.at(-1)!,
  inTurn: async ({ email: provider }, { tenant_id, signal }, work) =>
    provider === null ? await work() : await provider.inTurn(tenant_id, signal, work),
  filesOf: async ({ sql }, job) => await findAttachments(sql, idsOf(job)),
  send,
  look,
}

async function send(
  context: WorkerContext,
  job: MessageJob,
  message: BegunMessage,
  files: string[],
): ReturnType<MessageSender['send']> {
  const { email: provider, hashOf } = context
  if (provider === null) return NOT_CONFIGURED
  const email = emailOf(context, job, message, files)
  const sent = await provider.sendEmail(email, job.signal)
  const refusalsOf = (refused: RefusedRecipient[] = []): StoredRecipient[] =>
    refused.map(({ address, message: said, provider_code }) => ({
      address: hashOf('email', address),
      status: 'refused',
      code: provider_code,
      message: said,
    }))
  if (sent.kind === 'done') {
    const recipients = refusalsOf(sent.value.refused)
    return { kind: 'done', value: { ...TAKEN, provider_reference: email.message_id, recipients } }
  }
  return 'refused' in sent ? { ...sent, refusals: refusalsOf(sent.refused) } : sent
}

const TAKEN = { said: 'sent', provider_status: null, failure: null, price: null } as const

/** The email with its sealed parts opened, for those of its recipients that are not suppressed. */
function emailOf(
  { vault }: WorkerContext,
  job: MessageJob,
  { envelope: sealed, content: sealed_content, recipients }: BegunMessage,
  files: string[],
): OutgoingEmail {
  const ids = idsOf(job)
  const envelope = openEnvelope(vault, ids, sealed)
  const content = openContent(vault, ids, sealed_content)
  const open = recipientAddresses(envelope).filter(
    (_address, nth) => recipients[nth]?.status !== 'suppressed',
  )
  const own = Object.entries(content.headers ?? {}).filter(
    ([name]) => name.toLowerCase() !== OUR_HEADER.toLowerCase(),
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
    headers: { ...Object.fromEntries(own), [OUR_HEADER]: ids.message_id },
    list_unsubscribe_url: envelope.list_unsubscribe_url,
    attachments: (content.attachments ?? []).map(({ filename, content_type }, nth) => {
      const place = attachmentPlace(ids.tenant_id, ids.message_id, nth)
      return { filename, content_type, content: Buffer.from(vault.open(files[nth] ?? '', place), 'base64') }
    }),
    recipients: [...new Set(open.map(bareAddress))],
  }
}

async function look(_context: WorkerContext, job: MessageJob, { status }: BegunMessage): Promise<Decision> {
  // An operator says so.
  if (job.call.reference !== null)
    return taken(job, 'email', { ...TAKEN, provider_reference: job.call.reference })
  if (status === 'sending') return mayBeSent(job, 'the worker was lost while it was sent')
  return notFound(job, sendsEmail, 'nobody has said whether it was sent')
}

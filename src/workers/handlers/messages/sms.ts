// How an SMS is sent, and how one is looked for of which nobody knows whether it was.
import { SMS } from '#core/config/providers.ts'
import type { BegunMessage } from '#domain/messages/begin.ts'
import { findOtherSms, isOfAnother, type OtherSms } from '#domain/messages/heard.ts'
import { sendSms } from '#jobs/messages.ts'
import type { ProviderSms } from '#providers/sms.ts'
import { SealError } from '#core/secrets.ts'
import type { WorkerContext } from '../../context.ts'
import { retry, unanswered, type Decision } from '../../decision.ts'
import { idsOf, mayBeSent, notFound, taken, type MessageJob, type SentMessage } from './outcomes.ts'
import { openContent, openEnvelope, suppressionOf } from './parts.ts'
import type { MessageSender } from './sending.ts'

/** The provider's clock and ours may differ by this much. */
const CLOCKS_APART_S = 300
const NO_PROVIDER = 'No provider of SMS is configured.'

export const sendsSms: MessageSender = {
  channel: 'sms',
  last_look_ms: sendSms.retry.looks_ms.at(-1)!,
  inTurn: async (_context, _job, work) => await work(),
  filesOf: () => Promise.resolve([]),
  send,
  look,
}

async function send(
  context: WorkerContext,
  job: MessageJob,
  message: BegunMessage,
): ReturnType<MessageSender['send']> {
  const { sms: provider, config, vault } = context
  if (provider === null)
    return {
      kind: 'misconfigured',
      failure: { code: 'provider_error', message: NO_PROVIDER, provider_code: null },
    }
  const ids = idsOf(job)
  const { from, to, body, validity_s } = openSms(context, job, message)
  const { WEBHOOKS_URL } = config
  const callback_url = WEBHOOKS_URL === undefined ? null : `${WEBHOOKS_URL}/twilio?m=${ids.message_id}`
  const sent = await provider.sendSms({ from, to, body, validity_s, callback_url })
  if (sent.kind === 'done') return { kind: 'done', value: smsTold(sent.value) }
  if (sent.kind !== 'declined' || sent.failure.code !== 'opted_out') return sent
  const hash = message.recipients[0]!.address
  return {
    ...sent,
    suppresses: [suppressionOf(vault, ids.tenant_id, { address: to, hash, reason: 'opt_out' })],
  }
}

/** What the provider says of an SMS, as it is told of the message. */
function smsTold({ reference, status, provider_status, failure, price }: ProviderSms): SentMessage {
  return {
    said: status === 'sending' ? 'sent' : status,
    provider_reference: reference,
    provider_status,
    failure,
    price,
  }
}

function openSms({ vault }: WorkerContext, job: MessageJob, { envelope, content }: BegunMessage) {
  const ids = idsOf(job)
  const { from, to } = openEnvelope(vault, ids, envelope)
  const { body, validity_s } = openContent(vault, ids, content)
  return { from, to: to[0] ?? '', body: body ?? '', validity_s }
}

async function look(context: WorkerContext, job: MessageJob, message: BegunMessage): Promise<Decision> {
  const { sql, sms: provider } = context
  if (provider === null) return retry(NO_PROVIDER, { why: 'misconfigured', unanswered: true })
  const { message_id } = idsOf(job)
  const reference = message.provider_reference ?? job.call.reference
  if (reference !== null) {
    if (await isOfAnother(sql, { message_id, provider: SMS.provider, reference }))
      return notFound(job, sendsSms, `${reference} is another message`)
    const looked = await provider.findSms(reference)
    if (looked.kind !== 'done') return unanswered(looked)
    if (looked.value === null) return notFound(job, sendsSms, `the provider does not know ${reference}`)
    return taken(job, 'sms', smsTold(looked.value))
  }
  if (message.content === null)
    return notFound(job, sendsSms, 'its text was erased, so that the provider cannot be searched for it')
  const looked = await search(context, provider, job, message)
  if (looked.kind === 'sealed') return retry(looked.reason, { why: 'misconfigured', unanswered: true })
  if (looked.kind !== 'done') return unanswered(looked)
  if (looked.value !== null) return taken(job, 'sms', { ...smsTold(looked.value), found: true })
  // A list may show it later, or have lost it.
  return message.status === 'sending'
    ? mayBeSent(job, 'the worker was lost while it was sent')
    : notFound(job, sendsSms, 'the provider has not shown the message yet; it may still exist')
}

/**
 * The message in the provider's list: of the same text to the same number, and none that is known to be another. Null too
 * where those that are left may all be others, of which nobody knows yet which they are.
 */
async function search(
  context: WorkerContext,
  provider: NonNullable<WorkerContext['sms']>,
  job: MessageJob,
  message: BegunMessage,
) {
  const since_s = Math.floor(message.wanted_s) - CLOCKS_APART_S
  try {
    const { from, to, body } = openSms(context, job, message)
    const looked = await provider.searchSms({ from, to, body, since_s })
    if (looked.kind !== 'done') return looked
    // Read after the list: whatever that shows had begun by then.
    const number = message.recipients[0]!.address
    const others = await findOtherSms(context.sql, { ...idsOf(job), number, since_s })
    const known = new Set(others.map(({ reference }) => reference))
    const left = looked.value.filter(({ reference }) => !known.has(reference))
    const rivals = others.filter((other) => other.reference === null && mayHaveText(context, other, body))
    return { kind: 'done', value: left.length > rivals.length ? left[0]! : null } as const
  } catch (error) {
    if (error instanceof SealError) return { kind: 'sealed', reason: error.message } as const
    throw error
  }
}

function mayHaveText({ vault }: WorkerContext, { content, ...ids }: OtherSms, body: string): boolean {
  try {
    return openContent(vault, ids, content).body === body
  } catch {
    return true
  }
}

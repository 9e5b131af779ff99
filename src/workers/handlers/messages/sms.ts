// Sends SMS, and looks up SMS that may have been sent.
import { SMS } from '#core/config/providers.ts'
import type { MessageToSend } from '#domain/messages/begin.ts'
import {
  findSmsToSameNumber,
  isReferenceOfAnother,
  type SmsToSameNumber,
} from '#domain/messages/find-reported.ts'
import { sendSms } from '#jobs/messages.ts'
import type { ProviderSms } from '#providers/sms.ts'
import type { WorkerContext } from '../../context.ts'
import { retry, unanswered, type Decision } from '../../decision.ts'
import { outcomeOfSealError } from '../calls.ts'
import { recordMissingCredentials } from '../missing-credentials.ts'
import {
  idsOf,
  markUnknown,
  notFound,
  settleAccepted,
  type MessageJob,
  type SentMessage,
} from './outcomes.ts'
import { openContent, openEnvelope, suppressionOf } from './sealed-content.ts'
import type { MessageSender } from './sending.ts'

/** The maximum difference between the provider's clock and ours. */
const MAX_CLOCK_SKEW_S = 300

export const sendsSms: MessageSender = {
  channel: 'sms',
  last_lookup_ms: sendSms.retry.lookup_delays_ms.at(-1)!,
  withConnection: async (_context, _job, work) => await work(),
  filesOf: () => Promise.resolve([]),
  send,
  lookUp,
}

async function send(
  context: WorkerContext,
  job: MessageJob,
  message: MessageToSend,
): ReturnType<MessageSender['send']> {
  const { sms: provider, config, vault } = context
  if (provider === null)
    return { kind: 'not_configured', reason: recordMissingCredentials(context, 'sms', 'send_sms') }
  const ids = idsOf(job)
  const { from, to, body, validity_s } = openSms(context, job, message)
  const { WEBHOOKS_URL } = config
  const callback_url = WEBHOOKS_URL === undefined ? null : `${WEBHOOKS_URL}/twilio?m=${ids.message_id}`
  const lost = await findLostSms(context, provider, job, message)
  if (lost !== null) return lost
  const sent = await provider.sendSms({ from, to, body, validity_s, callback_url })
  if (sent.kind === 'done') return { kind: 'done', value: smsUpdate(sent.value) }
  if (sent.kind !== 'declined' || sent.failure.code !== 'opted_out') return sent
  const hash = message.recipients[0]!.address
  return {
    ...sent,
    suppresses: [suppressionOf(vault, ids.tenant_id, { address: to, hash, reason: 'opt_out' })],
  }
}

/** Nothing was sent. A `provider_error` would count as an SMS that may have been sent. */
const NOT_LISTED = {
  code: 'connection_failed',
  message: 'The provider did not list its SMS, so nothing was sent.',
  provider_code: null,
} as const

/**
 * After a switch of the database, the message may be the repetition of a request that the database lost after its SMS
 * was sent. Returns that SMS; null: there is none, and the message is to be sent.
 */
async function findLostSms(
  context: WorkerContext,
  provider: NonNullable<WorkerContext['sms']>,
  job: MessageJob,
  message: MessageToSend,
): Promise<Awaited<ReturnType<MessageSender['send']>> | null> {
  const lost_since_s = context.database.lostSince()
  if (lost_since_s === null) return null
  const lookup = await search(context, provider, job, message, lost_since_s)
  if (lookup.kind === 'misconfigured')
    return { kind: 'misconfigured', failure: { ...NOT_LISTED, message: lookup.reason } }
  if (lookup.kind !== 'done') return { kind: 'retry', failure: NOT_LISTED }
  if (lookup.value === null) return null
  return { kind: 'done', value: { ...smsUpdate(lookup.value), found: true } }
}

/** The provider's report of an SMS as an update of the message. */
function smsUpdate({ reference, status, provider_status, failure, price }: ProviderSms): SentMessage {
  return {
    reported: status === 'sending' ? 'sent' : status,
    provider_reference: reference,
    provider_status,
    failure,
    price,
  }
}

function openSms({ vault }: WorkerContext, job: MessageJob, { envelope, content }: MessageToSend) {
  const ids = idsOf(job)
  const { from, to } = openEnvelope(vault, ids, envelope)
  const { body, validity_s } = openContent(vault, ids, content)
  return { from, to: to[0] ?? '', body: body ?? '', validity_s }
}

async function lookUp(context: WorkerContext, job: MessageJob, message: MessageToSend): Promise<Decision> {
  const { sql, sms: provider } = context
  if (provider === null) {
    const reason = recordMissingCredentials(context, 'sms', 'find_sms')
    return retry(reason, { outcome: 'misconfigured', unanswered: true })
  }
  const { message_id } = idsOf(job)
  const reference = message.provider_reference ?? job.call.reference
  if (reference !== null) {
    if (await isReferenceOfAnother(sql, { message_id, provider: SMS.provider, reference }))
      return notFound(job, sendsSms, `${reference} is another message`)
    const lookup = await provider.findSms(reference)
    if (lookup.kind !== 'done') return unanswered(lookup)
    if (lookup.value === null) return notFound(job, sendsSms, `the provider does not know ${reference}`)
    return settleAccepted(job, 'sms', smsUpdate(lookup.value))
  }
  if (message.content === null)
    return notFound(job, sendsSms, 'the text was erased, so the provider cannot be searched for it')
  const lookup = await search(context, provider, job, message)
  if (lookup.kind !== 'done') return unanswered(lookup)
  if (lookup.value !== null) return settleAccepted(job, 'sms', { ...smsUpdate(lookup.value), found: true })
  // Not found yet: a later list may show the message.
  return message.status === 'sending'
    ? markUnknown(job, 'the worker was lost while it sent the SMS')
    : notFound(job, sendsSms, 'the provider does not list the message yet; it may still exist')
}

/**
 * Finds the message in the provider's list since `from_s`: the same text to the same number, and not already assigned
 * to another message. Null if every candidate may belong to another message that is not identified yet. Equal messages
 * that are searched for at the same time find different ones.
 */
async function search(
  context: WorkerContext,
  provider: NonNullable<WorkerContext['sms']>,
  job: MessageJob,
  message: MessageToSend,
  from_s = message.scheduled_s,
) {
  const since_s = Math.floor(Math.min(from_s, message.scheduled_s)) - MAX_CLOCK_SKEW_S
  try {
    const { from, to, body } = openSms(context, job, message)
    const lookup = await provider.searchSms({ from, to, body, since_s })
    if (lookup.kind !== 'done') return lookup
    // The rows are read after the list. Every listed message had begun before, so its row is among them.
    const number = message.recipients[0]!.address
    const others = await findSmsToSameNumber(context.sql, context, { ...idsOf(job), number, since_s })
    const identified = new Set(others.map(({ reference }) => reference))
    const candidates = lookup.value.filter(({ reference }) => !identified.has(reference))
    const unidentified = others.filter(
      (other) => other.reference === null && mayHaveText(context, other, body),
    )
    if (candidates.length <= unidentified.length) return { kind: 'done', value: null } as const
    const { message_id } = idsOf(job)
    const rank = unidentified.filter((other) => other.message_id < message_id).length
    return { kind: 'done', value: candidates[rank]! } as const
  } catch (error) {
    return outcomeOfSealError(error)
  }
}

function mayHaveText({ vault }: WorkerContext, { content, ...ids }: SmsToSameNumber, body: string): boolean {
  try {
    return openContent(vault, ids, content).body === body
  } catch {
    return true
  }
}

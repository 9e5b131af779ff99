// What sending an email and sending an SMS have in common: it begins once, and each outcome is told of the message.
import assert from 'node:assert/strict'
import type { Channel } from '#core/addresses.ts'
import { batcherOf } from '#core/batch.ts'
import { ERRORS } from '#core/errors.ts'
import type { MessageFailure } from '#core/outcome.ts'
import { SealError } from '#core/secrets.ts'
import {
  beginMessages,
  findStandingMessage,
  type BegunMessage,
  type MessageToBegin,
  type StandingMessage,
} from '#domain/messages/begin.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { StoredRecipient } from '#domain/messages/message.ts'
import { SEND_FAILED, settleMessages, type MessageSettlement } from '#domain/messages/settle.ts'
import { nothingTold, type MessageTold } from '#domain/messages/told.ts'
import type { SuppressionOf } from '#domain/suppressions/settle.ts'
import { sendEmail } from '#jobs/messages.ts'
import { NotStarted } from '#providers/permit.ts'
import type { SendOutcome } from '#providers/email.ts'
import type { WorkerContext } from '../../context.ts'
import { done, failed, giveBack, park, retry, unknown, type Decision } from '../../decision.ts'
import { settling, type Told } from '../../settle.ts'
import type { JobOf } from '../handler.ts'
import { UnreadableParts } from './parts.ts'

/** The jobs of both channels look alike. */
export type MessageJob = JobOf<typeof sendEmail>

/** How messages of one channel are sent, and looked for when they may have been. */
export type MessageSender = {
  channel: Channel
  /** Does `work` once the provider has room for it: a message that waits for that has not begun. */
  inTurn<T>(context: WorkerContext, job: MessageJob, work: () => Promise<T>): Promise<T>
  /** The files that go with it, sealed. Read before it begins: who cannot read them has not begun. */
  filesOf(context: WorkerContext, job: MessageJob): Promise<string[]>
  /** One call. What may have reached the provider does not throw. */
  send(
    context: WorkerContext,
    job: MessageJob,
    message: BegunMessage,
    files: string[],
  ): Promise<SendOutcome<SentMessage> & Partial<RefusedMessage>>
  /** Finds out what became of a message that may have been sent. */
  look(context: WorkerContext, job: MessageJob, message: BegunMessage): Promise<Decision>
  /** How long after it became unknown it is last looked for. */
  last_look_ms: number
}
/** What the provider has taken, as it is told of the message. */
export type SentMessage = Pick<
  MessageTold,
  'said' | 'provider_reference' | 'provider_status' | 'failure' | 'price'
> & {
  recipients?: StoredRecipient[]
}
type RefusedMessage = { refusals: StoredRecipient[]; suppresses: SuppressionOf | null }

/** Whom nobody waits for is sent so long after an attempt that certainly did not send it; the fifth is the last. */
const AGAIN_MS = [5_000, 30_000, 120_000, 600_000]
/** What has left is settled a few at a time: the statement costs far more than one more message in it. */
const GATHER_MS = 20
/** How often it is tried while our credentials or set-up are refused. */
const CORRECTED_MS = 30_000

export const settlingMessage = settling<Told<MessageSettlement>>(
  'settle_message',
  settleMessages,
  ({ told }) => told.message_id,
  { gather_ms: GATHER_MS },
)

const begin = batcherOf<MessageToBegin, BegunMessage | undefined>(
  'begin_message',
  async (sql, messages) => {
    const begun = await beginMessages(sql, messages)
    return messages.map(({ job_id }) => begun.get(job_id))
  },
  { key: ({ message_id }) => message_id },
)

/** Sends a message that was not sent yet; looks for one that may have been; ends the job of one that is settled. */
export async function sendOnce(
  context: WorkerContext,
  job: MessageJob,
  sender: MessageSender,
): Promise<Decision> {
  return await sender.inTurn(context, job, async () => await beginAndSend(context, job, sender))
}

async function beginAndSend(
  context: WorkerContext,
  job: MessageJob,
  sender: MessageSender,
): Promise<Decision> {
  const { id: job_id, lease_token } = job
  // Also where the call is in doubt: only its row says whether it has begun.
  const files = job.call.request.has_files ? await sender.filesOf(context, job) : []
  const message = await begin(context.sql, { job_id, lease_token, ...idsOf(job) })
  if (message === undefined) return retry('the lease was lost before the call', { unsent: true })
  if (message.begun) return await attempt(context, job, sender, { message, files })
  return endOf(sender.channel, message) ?? (await sender.look(context, job, message))
}

/** How the job of a message ends that is settled; null when it is not. */
function endOf(channel: Channel, { status, provider_reference, failure }: StandingMessage): Decision | null {
  switch (status) {
    case 'canceled':
    case 'suppressed':
      return done({ unsent: true })
    case 'sent':
    case 'delivered':
    case 'undelivered':
      return done({ reference: provider_reference })
    case 'failed':
      return failed(errorOf(channel, failure))
    default:
      return null
  }
}

async function attempt(
  context: WorkerContext,
  job: MessageJob,
  sender: MessageSender,
  { message, files }: { message: BegunMessage; files: string[] },
): Promise<Decision> {
  try {
    return decide(job, sender.channel, await sender.send(context, job, message, files))
  } catch (error) {
    // Nothing has left in any of these cases.
    if (error instanceof NotStarted)
      return { ...giveBack(error.message), tells: tell(job, { said: 'queued' }) }
    if (error instanceof SealError) return corrected(job, error.message)
    if (error instanceof UnreadableParts)
      return { ...park(error.message, { unsent: true }), tells: tell(job, { said: 'queued' }) }
    throw error
  }
}

function decide(
  job: MessageJob,
  channel: Channel,
  sent: SendOutcome<SentMessage> & Partial<RefusedMessage>,
): Decision {
  const { refusals = [], suppresses = null } = sent
  const refuse = (failure: MessageFailure) =>
    failed(errorOf(channel, failure), {
      tells: tell(job, { said: 'refused', failure, recipients: refusals, suppresses }),
    })
  const { retries } = job.call.request
  switch (sent.kind) {
    case 'done':
      return taken(job, channel, sent.value)
    case 'declined':
      return refuse(sent.failure)
    case 'retry': {
      const delay_ms = AGAIN_MS[job.failures]
      if (!retries || delay_ms === undefined) return refuse(sent.failure)
      return retry(sent.failure.message, {
        delay_ms: Math.max(delay_ms, sent.after_ms ?? 0),
        said: errorOf(channel, sent.failure),
        afresh: true,
        unsent: true,
        tells: tell(job, { said: 'queued' }),
      })
    }
    case 'misconfigured':
      return retries ? corrected(job, sent.failure.message) : refuse(sent.failure)
    case 'ambiguous':
      return mayBeSent(job, sent.reason)
    default:
      return assert.fail(`no outcome: ${JSON.stringify(sent satisfies never)}`)
  }
}

/** Nothing is sent until our set-up is corrected. */
function corrected(job: MessageJob, reason: string): Decision {
  return retry(reason, {
    why: 'misconfigured',
    delay_ms: CORRECTED_MS,
    afresh: true,
    unsent: true,
    tells: tell(job, { said: 'queued' }),
  })
}

/** The provider has taken it. An SMS that it took may have failed by now. */
export function taken(job: MessageJob, channel: Channel, sent: SentMessage): Decision {
  const reference = sent.provider_reference
  const tells = tell(job, sent)
  return sent.said === 'failed'
    ? failed(errorOf(channel, sent.failure), { reference, tells })
    : done({ reference, tells })
}

/** It may have been sent: from now on it is only looked for. */
export function mayBeSent(job: MessageJob, reason: string): Decision {
  return { ...unknown(reason), tells: tell(job, { said: 'unknown' }) }
}

/** It was not found. After the last look an operator decides. */
export function notFound(job: MessageJob, { last_look_ms }: MessageSender, reason: string): Decision {
  if ((job.unknown_ms ?? 0) < last_look_ms) return mayBeSent(job, reason)
  const message = 'Whether it was sent could not be found out.'
  return park(reason, {
    code: 'not_resolved',
    tells: tell(job, { said: 'unresolved', failure: { code: 'not_resolved', message, provider_code: null } }),
  })
}

/**
 * Gives up a job whose attempts died or threw each time. Its message, where it may have been sent, is `unknown` to whoever asks
 * for it; one that has not begun stays as it is, and the job of one that is settled ends.
 */
export async function giveUpMessage(
  { sql }: WorkerContext,
  { call, tenant_id, payload }: ClaimedJob,
  reason: string,
): Promise<Decision> {
  const ids = sendEmail.payload.safeParse(payload).data
  if (ids === undefined) return park(reason, { code: 'poison' })
  const message = await findStandingMessage(sql, { tenant_id, ...ids })
  const end = message === undefined ? null : endOf(message.channel, message)
  if (end !== null) return end
  const told: MessageTold = { ...nothingTold({ tenant_id, ...ids }), said: 'unknown' }
  const tells = settlingMessage({ told, notification_id: null, happened_at: null })
  return call?.look_only === true ? park(reason, { code: 'poison', tells }) : { ...unknown(reason), tells }
}

function tell(job: MessageJob, told: Pick<MessageTold, 'said'> & Partial<MessageTold>) {
  return settlingMessage({
    told: { ...nothingTold(idsOf(job)), ...told },
    notification_id: null,
    happened_at: null,
  })
}

/** What a caller who waits is answered. */
function errorOf(channel: Channel, failure: MessageFailure | null) {
  const code = SEND_FAILED[channel]
  return {
    code,
    message: ERRORS[code][1],
    ...(failure !== null && {
      provider_message: failure.message,
      ...(failure.provider_code !== null && { provider_code: failure.provider_code }),
    }),
  }
}

export function idsOf({ tenant_id, payload }: MessageJob) {
  return { tenant_id, message_id: payload.message_id }
}

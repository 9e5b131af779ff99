// Shared by email and SMS. A message begins when its row is marked as `sending`, before the call to its provider. A
// message that has begun is sent again only after it was settled as not sent, or to its deferred recipients.
import type { Channel } from '#core/addresses.ts'
import { createBatcherPerPool } from '#core/batch.ts'
import { recordsAccepted } from '#core/config.ts'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import { SealError } from '#core/secrets.ts'
import {
  beginMessages,
  findMessageState,
  type MessageToSend,
  type MessageToBegin,
} from '#domain/messages/begin.ts'
import { findEmailLoss } from '#domain/lost-requests/email-losses.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { awaitsOptOuts } from '#domain/switches/opt-outs.ts'
import { emptyMessageUpdate, type MessageUpdate } from '#domain/messages/update.ts'
import { sendEmail } from '#jobs/messages.ts'
import { awaitPermit, currentPermit, NotStarted } from '#providers/permit.ts'
import type { WorkerContext } from '../../context.ts'
import { giveBack, giveBackUnstarted, park, retry, unknown, type Decision } from '../../decision.ts'
import { settlingMessage, messageEffects } from './effects.ts'
import {
  waitForConfiguration,
  decide,
  decideRetry,
  finalDecision,
  idsOf,
  markUnknown,
  unsent,
  type MessageJob,
  type SendResult,
} from './outcomes.ts'
import { UnreadableContentError } from './sealed-content.ts'

/** How messages of one channel are sent and looked up. */
export type MessageSender = {
  channel: Channel
  /** Runs `work` when a connection to the provider is free. Until then the message has not begun. */
  withConnection<T>(context: WorkerContext, job: MessageJob, work: () => Promise<T>): Promise<T>
  /** Reads the sealed attachments before the message begins: if that fails, the message has not begun. */
  filesOf(context: WorkerContext, job: MessageJob): Promise<string[]>
  /** Makes one call. Does not throw after the call may have reached the provider. */
  send(context: WorkerContext, job: MessageJob, message: MessageToSend, files: string[]): Promise<SendResult>
  /** Looks up a message that may have been sent. */
  lookUp(context: WorkerContext, job: MessageJob, message: MessageToSend): Promise<Decision>
  /** The time of the last lookup, in milliseconds after the message became unknown. */
  last_lookup_ms: number
}
/** The delay before another attempt while opt-outs must be read, or accepted requests compared with the database. */
const WAIT_AFTER_SWITCH_MS = 5_000

const begin = createBatcherPerPool<MessageToBegin, MessageToSend | undefined>(
  'begin_message',
  async (sql, messages) => {
    const may_send = await beginMessages(sql, messages)
    return messages.map(({ job_id }) => may_send.get(job_id))
  },
  { key: ({ message_id }) => message_id },
)

/**
 * Sends a message that has not begun, looks up a message that may have been sent, or ends the job of a settled message.
 */
export async function sendOnce(
  context: WorkerContext,
  job: MessageJob,
  sender: MessageSender,
): Promise<Decision> {
  return await sender.withConnection(context, job, async () => await beginAndSend(context, job, sender))
}

async function beginAndSend(
  context: WorkerContext,
  job: MessageJob,
  sender: MessageSender,
): Promise<Decision> {
  const { id: job_id, lease_token } = job
  // The begin marks recipients who have opted out. A job that only looks its SMS up sends nothing, and in test mode no
  // SMS reaches a person.
  if (
    sender.channel === 'sms' &&
    context.livemode &&
    !job.call.lookup_only &&
    context.database.hasSwitched() &&
    (await awaitsOptOuts(context.sql, idsOf(job)))
  )
    return giveBack('opt-outs since the switch of the database have not been read yet', {
      delay_ms: WAIT_AFTER_SWITCH_MS,
    })
  const loss = sender.channel === 'email' ? await lossOf(context, job) : null
  if (loss === 'not_compared')
    return giveBack('accepted requests have not been compared since the switch of the database', {
      delay_ms: WAIT_AFTER_SWITCH_MS,
    })
  // Files are read even if an earlier attempt may have reached the provider: only the message's row shows whether the
  // message has begun.
  const files = job.call.request.has_files ? await sender.filesOf(context, job) : []
  // A message that has begun may be `unknown` if the database fails, so it begins only when its call may start.
  await awaitPermit(currentPermit())
  const message = await begin(context.sql, { job_id, lease_token, ...idsOf(job) })
  if (message === undefined) return retry('the lease was lost before the call', { unsent: true })
  if (message.may_send && message.status === 'sending' && loss === 'lost')
    return markUnknown(job, 'it may have been sent before its request was lost by a switch of the database')
  if (message.may_send) return await attempt(context, job, sender, { message, files })
  return finalDecision(sender.channel, idsOf(job), message) ?? (await sender.lookUp(context, job, message))
}

/** Whether the email may have been sent before a switch. Without a record of accepted requests, nothing shows it. */
async function lossOf({ sql, config }: WorkerContext, job: MessageJob): ReturnType<typeof findEmailLoss> {
  // No caller can repeat an email of the system.
  if (!job.call.follows_loss || job.call.lookup_only || job.tenant_id === SYSTEM_TENANT_ID) return null
  const loss = await findEmailLoss(sql, idsOf(job))
  return loss === 'not_compared' && !recordsAccepted(config) ? null : loss
}

async function attempt(
  context: WorkerContext,
  job: MessageJob,
  sender: MessageSender,
  { message, files }: { message: MessageToSend; files: string[] },
): Promise<Decision> {
  try {
    const sent = await sender.send(context, job, message, files)
    return message.status === 'sending'
      ? decide(job, sender.channel, message, sent)
      : decideRetry(job, sender.channel, message, sent)
  } catch (error) {
    // Nothing was sent in any of these cases.
    if (error instanceof NotStarted)
      return { ...giveBackUnstarted(error), effects: messageEffects(idsOf(job), unsent(message)) }
    if (error instanceof SealError) return waitForConfiguration(job, message, error.message)
    if (error instanceof UnreadableContentError)
      return {
        ...park(error.message, { unsent: true }),
        effects: messageEffects(idsOf(job), unsent(message)),
      }
    throw error
  }
}

/**
 * Gives up a job whose attempts died or threw each time. A message that may have been sent becomes `unknown`; a
 * message that has not begun stays unchanged; the job of a settled message ends.
 */
export async function giveUpMessage(
  { sql }: WorkerContext,
  { call, tenant_id, payload }: ClaimedJob,
  reason: string,
): Promise<Decision> {
  const ids = sendEmail.payload.safeParse(payload).data
  if (ids === undefined) return park(reason, { code: 'poison' })
  const message = await findMessageState(sql, { tenant_id, ...ids })
  const end = message === undefined ? null : finalDecision(message.channel, { tenant_id, ...ids }, message)
  if (end !== null) return end
  const update: MessageUpdate = { ...emptyMessageUpdate, tenant_id, ...ids, reported: 'unknown' }
  const effects = settlingMessage({ update, notification_id: null, happened_at: null })
  return call?.lookup_only === true
    ? park(reason, { code: 'poison', effects })
    : { ...unknown(reason), effects }
}

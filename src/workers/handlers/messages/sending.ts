// What sending an email and sending an SMS have in common: it begins once, and each outcome is told of the message.
import type { Channel } from '#core/addresses.ts'
import { createBatcherPerPool } from '#core/batch.ts'
import { SealError } from '#core/secrets.ts'
import {
  beginMessages,
  findMessageState,
  type MessageToSend,
  type MessageToBegin,
} from '#domain/messages/begin.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { emptyMessageUpdate, type MessageUpdate } from '#domain/messages/update.ts'
import { sendEmail } from '#jobs/messages.ts'
import { NotStarted } from '#providers/permit.ts'
import type { WorkerContext } from '../../context.ts'
import { giveBack, park, retry, unknown, type Decision } from '../../decision.ts'
import { settlingMessage, messageEffects } from './effects.ts'
import {
  waitForConfiguration,
  decide,
  decideRetry,
  finalDecision,
  idsOf,
  unsent,
  type MessageJob,
  type SendResult,
} from './outcomes.ts'
import { UnreadableParts } from './parts.ts'

/** How messages of one channel are sent, and looked for when they may have been. */
export type MessageSender = {
  channel: Channel
  /** Does `work` once the provider has room for it: a message that waits for that has not begun. */
  withConnection<T>(context: WorkerContext, job: MessageJob, work: () => Promise<T>): Promise<T>
  /** The files that go with it, sealed. Read before it begins: who cannot read them has not begun. */
  filesOf(context: WorkerContext, job: MessageJob): Promise<string[]>
  /** One call. What may have reached the provider does not throw. */
  send(context: WorkerContext, job: MessageJob, message: MessageToSend, files: string[]): Promise<SendResult>
  /** Finds out what became of a message that may have been sent. */
  lookUp(context: WorkerContext, job: MessageJob, message: MessageToSend): Promise<Decision>
  /** How long after it became unknown it is last looked for. */
  last_lookup_ms: number
}
const begin = createBatcherPerPool<MessageToBegin, MessageToSend | undefined>(
  'begin_message',
  async (sql, messages) => {
    const may_send = await beginMessages(sql, messages)
    return messages.map(({ job_id }) => may_send.get(job_id))
  },
  { key: ({ message_id }) => message_id },
)

/** Sends a message that was not sent yet; looks for one that may have been; ends the job of one that is settled. */
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
  // Also where the call is in doubt: only its row says whether it has begun.
  const files = job.call.request.has_files ? await sender.filesOf(context, job) : []
  const message = await begin(context.sql, { job_id, lease_token, ...idsOf(job) })
  if (message === undefined) return retry('the lease was lost before the call', { unsent: true })
  if (message.may_send) return await attempt(context, job, sender, { message, files })
  return finalDecision(sender.channel, idsOf(job), message) ?? (await sender.lookUp(context, job, message))
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
    // Nothing has left in any of these cases.
    if (error instanceof NotStarted)
      return { ...giveBack(error.message), effects: messageEffects(idsOf(job), unsent(message)) }
    if (error instanceof SealError) return waitForConfiguration(job, message, error.message)
    if (error instanceof UnreadableParts)
      return {
        ...park(error.message, { unsent: true }),
        effects: messageEffects(idsOf(job), unsent(message)),
      }
    throw error
  }
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
  const message = await findMessageState(sql, { tenant_id, ...ids })
  const end = message === undefined ? null : finalDecision(message.channel, { tenant_id, ...ids }, message)
  if (end !== null) return end
  const update: MessageUpdate = { ...emptyMessageUpdate, tenant_id, ...ids, reported: 'unknown' }
  const effects = settlingMessage({ update, notification_id: null, happened_at: null })
  return call?.lookup_only === true
    ? park(reason, { code: 'poison', effects })
    : { ...unknown(reason), effects }
}

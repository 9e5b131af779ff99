// What sending an email and sending an SMS have in common: it begins once, and each outcome is told of the message.
import type { Channel } from '#core/addresses.ts'
import { batcherOf } from '#core/batch.ts'
import { SealError } from '#core/secrets.ts'
import {
  beginMessages,
  findStandingMessage,
  type BegunMessage,
  type MessageToBegin,
} from '#domain/messages/begin.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { nothingReportedOfMessage, type MessageTold } from '#domain/messages/told.ts'
import { sendEmail } from '#jobs/messages.ts'
import { NotStarted } from '#providers/permit.ts'
import type { WorkerContext } from '../../context.ts'
import { giveBack, park, retry, unknown, type Decision } from '../../decision.ts'
import { settlingMessage, tell } from './effects.ts'
import {
  corrected,
  decide,
  decideAgain,
  endOf,
  idsOf,
  unsent,
  type MessageJob,
  type MessageSent,
} from './outcomes.ts'
import { UnreadableParts } from './parts.ts'

/** How messages of one channel are sent, and looked for when they may have been. */
export type MessageSender = {
  channel: Channel
  /** Does `work` once the provider has room for it: a message that waits for that has not begun. */
  inTurn<T>(context: WorkerContext, job: MessageJob, work: () => Promise<T>): Promise<T>
  /** The files that go with it, sealed. Read before it begins: who cannot read them has not begun. */
  filesOf(context: WorkerContext, job: MessageJob): Promise<string[]>
  /** One call. What may have reached the provider does not throw. */
  send(context: WorkerContext, job: MessageJob, message: BegunMessage, files: string[]): Promise<MessageSent>
  /** Finds out what became of a message that may have been sent. */
  look(context: WorkerContext, job: MessageJob, message: BegunMessage): Promise<Decision>
  /** How long after it became unknown it is last looked for. */
  last_look_ms: number
}
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
  return endOf(sender.channel, idsOf(job), message) ?? (await sender.look(context, job, message))
}

async function attempt(
  context: WorkerContext,
  job: MessageJob,
  sender: MessageSender,
  { message, files }: { message: BegunMessage; files: string[] },
): Promise<Decision> {
  try {
    const sent = await sender.send(context, job, message, files)
    return message.status === 'sending'
      ? decide(job, sender.channel, message, sent)
      : decideAgain(job, sender.channel, message, sent)
  } catch (error) {
    // Nothing has left in any of these cases.
    if (error instanceof NotStarted)
      return { ...giveBack(error.message), tells: tell(idsOf(job), unsent(message)) }
    if (error instanceof SealError) return corrected(job, message, error.message)
    if (error instanceof UnreadableParts)
      return { ...park(error.message, { unsent: true }), tells: tell(idsOf(job), unsent(message)) }
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
  const message = await findStandingMessage(sql, { tenant_id, ...ids })
  const end = message === undefined ? null : endOf(message.channel, { tenant_id, ...ids }, message)
  if (end !== null) return end
  const told: MessageTold = { ...nothingReportedOfMessage, tenant_id, ...ids, said: 'unknown' }
  const tells = settlingMessage({ told, notification_id: null, happened_at: null })
  return call?.look_only === true ? park(reason, { code: 'poison', tells }) : { ...unknown(reason), tells }
}

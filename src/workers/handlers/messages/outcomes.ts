// The decisions about a message and its job, by the provider's response.
import assert from 'node:assert/strict'
import type { Channel } from '#core/addresses.ts'
import { ERRORS } from '#core/errors.ts'
import type { MessageFailure } from '#core/outcome.ts'
import type { MessageToSend, MessageState } from '#domain/messages/begin.ts'
import type { StoredRecipient } from '#domain/messages/message.ts'
import { SEND_FAILED } from '#domain/messages/settle.ts'
import type { MessageUpdate } from '#domain/messages/update.ts'
import type { NewSuppression } from '#domain/suppressions/settle.ts'
import { sendEmail } from '#jobs/messages.ts'
import type { SendOutcome } from '#providers/email.ts'
import { done, failed, park, retry, unknown, type Decision } from '../../decision.ts'
import type { JobOf } from '../handler.ts'
import {
  countDeferrals,
  countDeferral,
  isWaiting,
  unknownRecipients,
  refuseTried,
  refuseWaiting,
  recipientsUpdate,
  returnToWaiting,
} from './deferred.ts'
import { messageEffects, type MessageIds } from './effects.ts'

/** The jobs of both channels have the same type. */
export type MessageJob = JobOf<typeof sendEmail>

/** The update of a message that the provider accepted. */
export type SentMessage = Pick<
  MessageUpdate,
  'reported' | 'provider_reference' | 'provider_status' | 'failure' | 'price'
> &
  Partial<Pick<MessageUpdate, 'found' | 'recipients' | 'event' | 'suppresses'>>
type RefusedMessage = { refusals: StoredRecipient[]; suppresses: NewSuppression[] }

/**
 * The delays before the second to the fifth attempt at a message that was not sent. The fifth attempt is the last. A
 * message is retried only if no request waits for it. Retries for deferred recipients have the same delays, counted
 * from the first deferral.
 */
const RETRY_DELAYS_MS = [5_000, 30_000, 120_000, 600_000]
/** The retry delay while the provider refuses our credentials or configuration. */
const MISCONFIGURED_RETRY_MS = 30_000

/** The final decision for the job of a settled message; null if the message is not settled. */
export function finalDecision(channel: Channel, ids: MessageIds, message: MessageState): Decision | null {
  const { status, provider_reference: reference, failure } = message
  const lost = unknownRecipients(message)
  switch (status) {
    case 'canceled':
    case 'suppressed':
      return done({ unsent: true })
    case 'sent':
    case 'delivered':
    case 'undelivered':
      // For the recipients in `lost`, a worker began a retry and did not settle it: their outcome becomes unknown.
      return lost.length === 0
        ? done({ reference })
        : done({ reference, effects: messageEffects(ids, { reported: 'sent', ...recipientsUpdate(lost) }) })
    case 'failed':
      return failed(errorOf(channel, failure))
    default:
      return null
  }
}

/** The result of one call. `not_configured`: no call was made, because this worker lacks the provider's credentials. */
export type SendResult = (SendOutcome<SentMessage> | { kind: 'not_configured'; reason: string }) &
  Partial<RefusedMessage>

export function decide(
  job: MessageJob,
  channel: Channel,
  message: MessageToSend,
  sent: SendResult,
): Decision {
  const { refusals = [], suppresses = [] } = sent
  const refuse = (failure: MessageFailure) =>
    failed(errorOf(channel, failure), {
      effects: messageEffects(idsOf(job), {
        reported: 'refused',
        failure,
        recipients: refuseWaiting(refusals),
        suppresses,
      }),
    })
  const { retries } = job.call.request
  const delay_ms = RETRY_DELAYS_MS[job.failures]
  switch (sent.kind) {
    case 'done':
      return decideAccepted(job, channel, message, sent.value)
    case 'declined':
      return refuse(sent.failure)
    case 'retry':
      if (!retries || delay_ms === undefined) return refuse(sent.failure)
      return retrySend(channel, sent.failure, {
        delay_ms: Math.max(delay_ms, sent.after_ms ?? 0),
        effects: messageEffects(idsOf(job), {
          reported: 'queued',
          recipients: [...refusals, ...returnToWaiting(message)],
          suppresses,
        }),
      })
    case 'misconfigured':
      return retries ? waitForConfiguration(job, message, sent.failure.message) : refuse(sent.failure)
    case 'not_configured':
      return waitForConfiguration(job, message, sent.reason)
    case 'ambiguous':
      return markUnknown(job, sent.reason)
    default:
      return assert.fail(`not an outcome: ${JSON.stringify(sent satisfies never)}`)
  }
}

/** The provider accepted the message. Deferred recipients are retried while attempts remain. */
function decideAccepted(
  job: MessageJob,
  channel: Channel,
  message: MessageToSend,
  sent: SentMessage,
): Decision {
  const { recipients = [], provider_reference: reference } = sent
  const waiting = recipients.find(isWaiting)
  const deferrals = countDeferrals(message)
  const delay_ms = RETRY_DELAYS_MS[deferrals]
  if (waiting === undefined || delay_ms === undefined)
    return settleAccepted(job, channel, { ...sent, recipients: refuseWaiting(recipients) })
  const failure = failureOf(waiting)
  const effects = messageEffects(idsOf(job), { ...sent, recipients: countDeferral(recipients, deferrals) })
  return retrySend(channel, failure, { delay_ms, reference, publish_state: true, effects })
}

/** Decides after an attempt for deferred recipients: the message itself stays sent. */
export function decideRetry(
  job: MessageJob,
  channel: Channel,
  message: MessageToSend,
  sent: SendResult,
): Decision {
  const { refusals = [], suppresses = [] } = sent
  const deferrals = countDeferrals(message)
  const delay_ms = RETRY_DELAYS_MS[deferrals]
  const settleRecipients = (recipients: StoredRecipient[]) =>
    done({
      effects: messageEffects(idsOf(job), { reported: 'sent', ...recipientsUpdate(recipients), suppresses }),
    })
  switch (sent.kind) {
    case 'done': {
      const { recipients = [] } = sent.value
      const last = delay_ms === undefined ? refuseWaiting(recipients) : recipients
      return decideAccepted(job, channel, message, { ...sent.value, ...recipientsUpdate(last) })
    }
    case 'declined':
      return settleRecipients(refusals.length > 0 ? refusals : refuseTried(message, sent.failure))
    case 'retry': {
      if (delay_ms === undefined)
        return settleRecipients(
          refusals.length > 0 ? refuseWaiting(refusals) : refuseTried(message, sent.failure),
        )
      const recipients = countDeferral([...refusals, ...returnToWaiting(message)], deferrals)
      return retrySend(channel, sent.failure, {
        delay_ms: Math.max(delay_ms, sent.after_ms ?? 0),
        effects: messageEffects(idsOf(job), {
          reported: 'sent',
          ...recipientsUpdate(recipients),
          suppresses,
        }),
      })
    }
    case 'misconfigured':
      return waitForConfiguration(job, message, sent.failure.message)
    case 'not_configured':
      return waitForConfiguration(job, message, sent.reason)
    case 'ambiguous':
      return settleRecipients(unknownRecipients(message))
    default:
      return assert.fail(`not an outcome: ${JSON.stringify(sent satisfies never)}`)
  }
}

function failureOf({ code: provider_code, message }: StoredRecipient): MessageFailure {
  return { code: 'recipient_refused', message: message ?? '', provider_code }
}

/** The update of a message that this attempt did not send and that another attempt will send. */
export function unsent(message: MessageToSend): Pick<MessageUpdate, 'reported' | 'recipients'> {
  return { reported: 'queued', recipients: returnToWaiting(message) }
}

function retrySend(
  channel: Channel,
  failure: MessageFailure,
  options: Parameters<typeof retry>[1],
): Decision {
  return retry(failure.message, {
    reported: errorOf(channel, failure),
    restart_call: true,
    unsent: true,
    ...options,
  })
}

/** Retries a message that was not sent, until the configuration is corrected. */
export function waitForConfiguration(job: MessageJob, message: MessageToSend, reason: string): Decision {
  return retry(reason, {
    outcome: 'misconfigured',
    delay_ms: MISCONFIGURED_RETRY_MS,
    restart_call: true,
    unsent: true,
    effects: messageEffects(idsOf(job), unsent(message)),
  })
}

/** Settles a message that the provider accepted. An accepted SMS may already have failed. */
export function settleAccepted(job: MessageJob, channel: Channel, sent: SentMessage): Decision {
  const reference = sent.provider_reference
  const effects = messageEffects(idsOf(job), sent)
  return sent.reported === 'failed'
    ? failed(errorOf(channel, sent.failure), { reference, effects })
    : done({ reference, effects })
}

/** The message may have been sent: from now on it is only looked up. */
export function markUnknown(job: MessageJob, reason: string): Decision {
  return { ...unknown(reason), effects: messageEffects(idsOf(job), { reported: 'unknown' }) }
}

/** The message was not found. After the last lookup an operator decides. */
export function notFound(
  job: MessageJob,
  { last_lookup_ms }: { last_lookup_ms: number },
  reason: string,
): Decision {
  if ((job.unknown_ms ?? 0) < last_lookup_ms) return markUnknown(job, reason)
  const message = 'Whether the message was sent could not be determined.'
  return park(reason, {
    code: 'not_resolved',
    effects: messageEffects(idsOf(job), {
      reported: 'unresolved',
      failure: { code: 'not_resolved', message, provider_code: null },
    }),
  })
}

/** The error for a caller that waits. */
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

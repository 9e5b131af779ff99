// What becomes of a message and of its job, by what the provider said.
import assert from 'node:assert/strict'
import type { Channel } from '#core/addresses.ts'
import { ERRORS } from '#core/errors.ts'
import type { MessageFailure } from '#core/outcome.ts'
import type { BegunMessage, StandingMessage } from '#domain/messages/begin.ts'
import type { StoredRecipient } from '#domain/messages/message.ts'
import { SEND_FAILED } from '#domain/messages/settle.ts'
import type { MessageTold } from '#domain/messages/told.ts'
import type { SuppressionOf } from '#domain/suppressions/settle.ts'
import { sendEmail } from '#jobs/messages.ts'
import type { SendOutcome } from '#providers/email.ts'
import { done, failed, park, retry, unknown, type Decision } from '../../decision.ts'
import type { JobOf } from '../handler.ts'
import {
  deferralsOf,
  deferredAgain,
  isWaiting,
  lostTrackOf,
  refusedAgain,
  refusedForGood,
  settlingThem,
  waitAgain,
} from './deferred.ts'
import { tell, type MessageIds } from './effects.ts'

/** The jobs of both channels look alike. */
export type MessageJob = JobOf<typeof sendEmail>

/** What the provider has taken, as it is told of the message. */
export type SentMessage = Pick<
  MessageTold,
  'said' | 'provider_reference' | 'provider_status' | 'failure' | 'price'
> &
  Partial<Pick<MessageTold, 'found' | 'recipients' | 'event' | 'suppresses'>>
type RefusedMessage = { refusals: StoredRecipient[]; suppresses: SuppressionOf[] }

/**
 * Whom nobody waits for is sent so long after an attempt that certainly did not send it; the fifth is the last. So it is for
 * recipients that the server has deferred, from when it took the message for others.
 */
const AGAIN_MS = [5_000, 30_000, 120_000, 600_000]
/** How often it is tried while our credentials or set-up are refused. */
const CORRECTED_MS = 30_000

/** How the job of a message ends that is settled; null when it is not. */
export function endOf(channel: Channel, ids: MessageIds, message: StandingMessage): Decision | null {
  const { status, provider_reference: reference, failure } = message
  const lost = lostTrackOf(message)
  switch (status) {
    case 'canceled':
    case 'suppressed':
      return done({ unsent: true })
    case 'sent':
    case 'delivered':
    case 'undelivered':
      // The worker was lost while it tried some again.
      return lost.length === 0
        ? done({ reference })
        : done({ reference, tells: tell(ids, { said: 'sent', ...settlingThem(lost) }) })
    case 'failed':
      return failed(errorOf(channel, failure))
    default:
      return null
  }
}

/** What became of one call. */
export type MessageSent = SendOutcome<SentMessage> & Partial<RefusedMessage>

export function decide(
  job: MessageJob,
  channel: Channel,
  message: BegunMessage,
  sent: MessageSent,
): Decision {
  const { refusals = [], suppresses = [] } = sent
  const refuse = (failure: MessageFailure) =>
    failed(errorOf(channel, failure), {
      tells: tell(idsOf(job), {
        said: 'refused',
        failure,
        recipients: refusedForGood(refusals),
        suppresses,
      }),
    })
  const { retries } = job.call.request
  const delay_ms = AGAIN_MS[job.failures]
  switch (sent.kind) {
    case 'done':
      return takenBySome(job, channel, message, sent.value)
    case 'declined':
      return refuse(sent.failure)
    case 'retry':
      if (!retries || delay_ms === undefined) return refuse(sent.failure)
      return again(channel, sent.failure, {
        delay_ms: Math.max(delay_ms, sent.after_ms ?? 0),
        tells: tell(idsOf(job), {
          said: 'queued',
          recipients: [...refusals, ...waitAgain(message)],
          suppresses,
        }),
      })
    case 'misconfigured':
      return retries ? corrected(job, message, sent.failure.message) : refuse(sent.failure)
    case 'ambiguous':
      return mayBeSent(job, sent.reason)
    default:
      return assert.fail(`no outcome: ${JSON.stringify(sent satisfies never)}`)
  }
}

/** The provider has taken it. Recipients that it has deferred are tried again, for as long as there are attempts. */
function takenBySome(job: MessageJob, channel: Channel, message: BegunMessage, sent: SentMessage): Decision {
  const { recipients = [], provider_reference: reference } = sent
  const waiting = recipients.find(isWaiting)
  const deferrals = deferralsOf(message)
  const delay_ms = AGAIN_MS[deferrals]
  if (waiting === undefined || delay_ms === undefined)
    return taken(job, channel, { ...sent, recipients: refusedForGood(recipients) })
  const failure = failureOf(waiting)
  const tells = tell(idsOf(job), { ...sent, recipients: deferredAgain(recipients, deferrals) })
  return again(channel, failure, { delay_ms, reference, reached: true, tells })
}

/** After an attempt for recipients that the server had deferred: the message has left before, whatever becomes of them. */
export function decideAgain(
  job: MessageJob,
  channel: Channel,
  message: BegunMessage,
  sent: MessageSent,
): Decision {
  const { refusals = [], suppresses = [] } = sent
  const deferrals = deferralsOf(message)
  const delay_ms = AGAIN_MS[deferrals]
  const settled = (recipients: StoredRecipient[]) =>
    done({ tells: tell(idsOf(job), { said: 'sent', ...settlingThem(recipients), suppresses }) })
  switch (sent.kind) {
    case 'done': {
      const { recipients = [] } = sent.value
      const last = delay_ms === undefined ? refusedForGood(recipients) : recipients
      return takenBySome(job, channel, message, { ...sent.value, ...settlingThem(last) })
    }
    case 'declined':
      return settled(refusals.length > 0 ? refusals : refusedAgain(message, sent.failure))
    case 'retry': {
      if (delay_ms === undefined)
        return settled(refusals.length > 0 ? refusedForGood(refusals) : refusedAgain(message, sent.failure))
      const recipients = deferredAgain([...refusals, ...waitAgain(message)], deferrals)
      return again(channel, sent.failure, {
        delay_ms: Math.max(delay_ms, sent.after_ms ?? 0),
        tells: tell(idsOf(job), { said: 'sent', ...settlingThem(recipients), suppresses }),
      })
    }
    case 'misconfigured':
      return corrected(job, message, sent.failure.message)
    case 'ambiguous':
      return settled(lostTrackOf(message))
    default:
      return assert.fail(`no outcome: ${JSON.stringify(sent satisfies never)}`)
  }
}

function failureOf({ code: provider_code, message }: StoredRecipient): MessageFailure {
  return { code: 'recipient_refused', message: message ?? '', provider_code }
}

/** This attempt sent nothing, and another one follows. */
export function unsent(message: BegunMessage): Pick<MessageTold, 'said' | 'recipients'> {
  return { said: 'queued', recipients: waitAgain(message) }
}

function again(channel: Channel, failure: MessageFailure, options: Parameters<typeof retry>[1]): Decision {
  return retry(failure.message, {
    said: errorOf(channel, failure),
    afresh: true,
    unsent: true,
    ...options,
  })
}

/** Nothing is sent until our set-up is corrected. */
export function corrected(job: MessageJob, message: BegunMessage, reason: string): Decision {
  return retry(reason, {
    why: 'misconfigured',
    delay_ms: CORRECTED_MS,
    afresh: true,
    unsent: true,
    tells: tell(idsOf(job), unsent(message)),
  })
}

/** The provider has taken it. An SMS that it took may have failed by now. */
export function taken(job: MessageJob, channel: Channel, sent: SentMessage): Decision {
  const reference = sent.provider_reference
  const tells = tell(idsOf(job), sent)
  return sent.said === 'failed'
    ? failed(errorOf(channel, sent.failure), { reference, tells })
    : done({ reference, tells })
}

/** It may have been sent: from now on it is only looked for. */
export function mayBeSent(job: MessageJob, reason: string): Decision {
  return { ...unknown(reason), tells: tell(idsOf(job), { said: 'unknown' }) }
}

/** It was not found. After the last look an operator decides. */
export function notFound(
  job: MessageJob,
  { last_look_ms }: { last_look_ms: number },
  reason: string,
): Decision {
  if ((job.unknown_ms ?? 0) < last_look_ms) return mayBeSent(job, reason)
  const message = 'Whether it was sent could not be found out.'
  return park(reason, {
    code: 'not_resolved',
    tells: tell(idsOf(job), {
      said: 'unresolved',
      failure: { code: 'not_resolved', message, provider_code: null },
    }),
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

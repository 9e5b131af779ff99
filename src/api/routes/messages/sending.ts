// How a message of a channel is accepted, by itself or as one of many: composed, sealed, and written in one statement.
import type { Channel } from '#core/addresses.ts'
import { batcher, MOST_BYTES, type BatchOptions, type Lanes } from '#core/batch.ts'
import type { Json } from '#core/db.ts'
import { AppError, type ErrorCode } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import type { Vault } from '#core/secrets.ts'
import { MESSAGE_WINDOWS, type MessageLimits } from '#domain/messages/limits.ts'
import type { Message, MessageStatus } from '#domain/messages/message.ts'
import {
  MOST_DAYS_AHEAD,
  requestMessages,
  type MessageJudgement,
  type MessageRequest,
} from '#domain/messages/request.ts'
import { attachmentPlace, messagePlace } from '#domain/messages/sealed.ts'
import { sendEmail, sendSms } from '#jobs/messages.ts'
import type { Answers, Work } from '../../accept.ts'
import type { ApiContext } from '../../context.ts'
import { fingerprint } from '../../fingerprint.ts'
import { shownMessage } from './answers.ts'
import type { Asker } from './asker.ts'
import type { EmailBody, SmsBody } from './bodies.ts'
import { composeEmail, composeSms, type Composed } from './compose.ts'

/** The asking for one message, as it is accepted. */
export type Sending<Body> = (body: Body, asker: Asker) => Work<Message>

type Kind<Body> = {
  channel: Channel
  job: typeof sendEmail | typeof sendSms
  failure_code: ErrorCode
  compose: (context: ApiContext, asker: Asker, body: Body) => Promise<Composed>
  /** Lets go of what takes room and is needed no more once the message is written, while its request still waits. */
  forget: (body: Body) => void
}

/** `lanes`: of the tenants, for all channels. */
export const sendingEmail = (
  context: ApiContext,
  answers: Answers<Message>,
  lanes: Lanes,
): Sending<EmailBody> =>
  sending(context, answers, lanes, {
    channel: 'email',
    job: sendEmail,
    failure_code: 'email_send_failed',
    compose: composeEmail,
    forget: (body) => {
      body.text = null
      body.html = null
      body.attachments = null
    },
  })

export const sendingSms = (context: ApiContext, answers: Answers<Message>, lanes: Lanes): Sending<SmsBody> =>
  sending(context, answers, lanes, {
    channel: 'sms',
    job: sendSms,
    failure_code: 'sms_send_failed',
    compose: composeSms,
    forget: () => {},
  })

/** Statuses of a message that a provider has, whatever was thought before. */
const TAKEN: MessageStatus[] = ['sent', 'delivered', 'undelivered']
/** Those in which there is nothing to wait for. */
const OVER: MessageStatus[] = [...TAKEN, 'suppressed', 'canceled']

type AnyBody = {
  idempotency_key?: string | undefined
  template?: string | null | undefined
  send_at: string | null
  metadata: Json
}

const sizeOf = ({ envelope, content, attachments }: MessageRequest): number =>
  attachments.reduce((sum, file) => sum + file.length, envelope.length + content.length)

function sending<Body extends AnyBody>(
  context: ApiContext,
  answers: Answers<Message>,
  lanes: Lanes,
  { channel, job, failure_code, compose, forget }: Kind<Body>,
): Sending<Body> {
  const { sql, vault, hashOf, config } = context
  const limits = { tenant: config.MESSAGES_PER_MINUTE, destination: config.MESSAGES_PER_DESTINATION_HOUR }
  const request = (requests: MessageRequest[]) => requestMessages(sql, channel, limits, requests)
  const together: BatchOptions<MessageRequest> = {
    key: ({ tenant_id, idempotency_key }) => `${tenant_id} ${channel} ${idempotency_key}`,
    // All messages of a tenant lock the row that counts them.
    lane: ({ tenant_id }) => tenant_id,
    lanes,
    size: sizeOf,
  }
  const create = batcher(`create_${channel}`, request, together)
  // Each is alone in its run, and takes none from those that are small.
  const createLarge = batcher(`create_large_${channel}`, request, together)

  return (body, asker) => {
    const { idempotency_key: _key, ...said } = body
    const { send_at, metadata } = body
    const message_id = newId()
    let judged: MessageJudgement | undefined
    let composed: Pick<Composed, 'envelope' | 'addresses'> | undefined
    return {
      job,
      answers,
      id: message_id,
      // A hash that nobody can guess the text of a short message by.
      content: { keyed: hashOf('sms', fingerprint(said)) },
      step: (asked, waits) =>
        asker.hold(async (take) => {
          const { tenant_id } = asked
          const { envelope, content, files, ...columns } = await compose(context, asker, body)
          composed = { envelope, addresses: columns.addresses }
          const text = JSON.stringify(content)
          // What was given is held as part of the body.
          if (body.template != null) take(Buffer.byteLength(text))
          const message_request: MessageRequest = {
            ...asked,
            ...columns,
            message_id,
            ...sealedParts(vault, { tenant_id, message_id }, JSON.stringify(envelope), text, files),
            send_at,
            retries: !waits || send_at !== null,
            metadata,
          }
          judged = await (sizeOf(message_request) > MOST_BYTES ? createLarge : create)(message_request)
          forget(body)
          if (judged.became === 'known') return 'known'
          if (judged.became !== 'accepted') return undefined
          const { message } = judged
          // There is nothing to wait for.
          if (message.status !== 'queued') return { joined: null }
          // Who waits is shown it as it then is.
          return waits ? 'accepted' : { created: shownMessage(message, envelope, content) }
        }),
      // What is scheduled is answered as it stands: nobody waits for its time.
      reached: ({ status, send_at }) => send_at !== null || OVER.includes(status),
      shows_failure: ({ status }) => TAKEN.includes(status),
      failure_code,
      expects_news: true,
      why_not: () => refusalOf(judged, composed, limits),
    }
  }
}

function sealedParts(
  vault: Vault,
  { tenant_id, message_id }: { tenant_id: string; message_id: string },
  envelope: string,
  content: string,
  files: string[],
): Pick<MessageRequest, 'envelope' | 'content' | 'attachments'> {
  return {
    envelope: vault.seal(envelope, messagePlace(tenant_id, message_id, 'envelope')),
    content: vault.seal(content, messagePlace(tenant_id, message_id, 'content')),
    attachments: files.map((file, nth) => vault.seal(file, attachmentPlace(tenant_id, message_id, nth))),
  }
}

function refusalOf(
  judged: MessageJudgement | undefined,
  composed: Pick<Composed, 'envelope' | 'addresses'> | undefined,
  limits: MessageLimits,
): AppError {
  if (judged?.became === 'tenant' || judged?.became === 'destination') {
    const { became, address, retry_after_s } = judged
    const { envelope, addresses = [] } = composed ?? {}
    const to = [envelope?.to, envelope?.cc, envelope?.bcc].flatMap((list) => list ?? [])
    const { window, window_s } = MESSAGE_WINDOWS[became]
    const whose = became === 'tenant' ? '' : ' to one destination'
    return new AppError('rate_limited', {
      message: `Too many messages: ${limits[became]}${whose} in ${window === 'hour' ? 'an hour' : 'a minute'}.`,
      retry_after_s,
      context: {
        limit: { of: became, messages: limits[became], window_s },
        ...(address !== null && { address: to[addresses.indexOf(address)] }),
      },
    })
  }
  const wrong = `must be in the future, and at most ${MOST_DAYS_AHEAD} days ahead`
  return new AppError('invalid_request', {
    message: `send_at ${wrong}.`,
    param: 'send_at',
    details: [{ param: 'send_at', message: wrong }],
  })
}

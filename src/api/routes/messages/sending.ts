// Accepts a message, alone or in a batch: composes it, seals it, and writes it in one statement.
import type { Channel } from '#core/addresses.ts'
import { createBatcher, MAX_BATCH_BYTES, type BatchOptions, type Lanes } from '#core/batch.ts'
import type { Json } from '#core/db.ts'
import { AppError, type ErrorCode } from '#core/errors.ts'
import type { Vault } from '#core/secrets.ts'
import { MESSAGE_WINDOWS, type MessageLimits } from '#domain/messages/limits.ts'
import type { Message, MessageStatus } from '#domain/messages/message.ts'
import {
  MAX_DAYS_AHEAD,
  requestMessages,
  type MessageResult,
  type MessageRequest,
} from '#domain/messages/request.ts'
import { attachmentContext, messageContext } from '#domain/messages/sealed.ts'
import { sendEmail, sendSms } from '#jobs/messages.ts'
import type { ResourceReader, WorkRequest } from '../../accept.ts'
import type { ApiContext } from '../../context.ts'
import { fingerprint } from '../../fingerprint.ts'
import { messageView } from './answers.ts'
import type { Requester } from './requester.ts'
import type { EmailBody, SmsBody } from './bodies.ts'
import { composeEmail, composeSms, type ComposedMessage } from './compose.ts'

/** Creates the work request for one message. */
export type MessageWork<Body> = (body: Body, requester: Requester) => WorkRequest<Message>

type ChannelOptions<Body> = {
  channel: Channel
  job: typeof sendEmail | typeof sendSms
  failure_code: ErrorCode
  compose: (context: ApiContext, requester: Requester, body: Body) => Promise<ComposedMessage>
  /** Releases the large fields of the body after the message is written, while its request still waits. */
  releaseContent: (body: Body) => void
}

/** Creates the work requests of emails. `lanes`: the lanes by tenant, which all channels share. */
export const createEmailWork = (
  context: ApiContext,
  reader: ResourceReader<Message>,
  lanes: Lanes,
): MessageWork<EmailBody> =>
  createMessageWork(context, reader, lanes, {
    channel: 'email',
    job: sendEmail,
    failure_code: 'email_send_failed',
    compose: composeEmail,
    releaseContent: (body) => {
      body.text = null
      body.html = null
      body.attachments = null
    },
  })

export const createSmsWork = (
  context: ApiContext,
  reader: ResourceReader<Message>,
  lanes: Lanes,
): MessageWork<SmsBody> =>
  createMessageWork(context, reader, lanes, {
    channel: 'sms',
    job: sendSms,
    failure_code: 'sms_send_failed',
    compose: composeSms,
    releaseContent: () => {},
  })

/** The statuses of a message that the provider has accepted. */
const ACCEPTED_STATUSES: MessageStatus[] = ['sent', 'delivered', 'undelivered']
/** The statuses that end a wait. */
const FINAL_STATUSES: MessageStatus[] = [...ACCEPTED_STATUSES, 'suppressed', 'canceled']

type AnyBody = {
  idempotency_key?: string | undefined
  template?: string | null | undefined
  send_at: string | null
  metadata: Json
}

const sizeOf = ({ envelope, content, attachments }: MessageRequest): number =>
  attachments.reduce((sum, file) => sum + file.length, envelope.length + content.length)

function createMessageWork<Body extends AnyBody>(
  context: ApiContext,
  reader: ResourceReader<Message>,
  lanes: Lanes,
  { channel, job, failure_code, compose, releaseContent }: ChannelOptions<Body>,
): MessageWork<Body> {
  const { sql, vault, config } = context
  const limits = { tenant: config.MESSAGES_PER_MINUTE, destination: config.MESSAGES_PER_DESTINATION_HOUR }
  const request = (requests: MessageRequest[]) => requestMessages(sql, channel, limits, requests)
  const batch_options: BatchOptions<MessageRequest> = {
    key: ({ tenant_id, idempotency_key }) => `${tenant_id} ${channel} ${idempotency_key}`,
    // All messages of a tenant lock the same row of a counter.
    lane: ({ tenant_id }) => tenant_id,
    lanes,
    size: sizeOf,
  }
  const create = createBatcher(`create_${channel}`, request, batch_options)
  // A large message is written by a statement of its own, so that it does not delay small messages.
  const createLarge = createBatcher(`create_large_${channel}`, request, batch_options)

  return (body, requester) => {
    const { idempotency_key: _key, ...content_fields } = body
    const { send_at, metadata } = body
    let outcome: MessageResult | undefined
    let composed: Pick<ComposedMessage, 'envelope' | 'addresses'> | undefined
    return {
      job,
      reader,
      // A hash, because the work of a request must not retain the content that `releaseContent` releases.
      content: { fingerprint: fingerprint(content_fields) },
      step: (requested, { id: message_id, waits }) =>
        requester.withMemory(async (reserve) => {
          const { tenant_id } = requested
          const { envelope, content, files, ...columns } = await compose(context, requester, body)
          composed = { envelope, addresses: columns.addresses }
          const text = JSON.stringify(content)
          // The memory for the texts of the request is already reserved with its body. Rendered texts need more.
          if (body.template != null) reserve(Buffer.byteLength(text))
          const message_request: MessageRequest = {
            ...requested,
            ...columns,
            message_id,
            ...sealedParts(vault, { tenant_id, message_id }, JSON.stringify(envelope), text, files),
            send_at,
            retries: !waits || send_at !== null,
            metadata,
          }
          outcome = await (sizeOf(message_request) > MAX_BATCH_BYTES ? createLarge : create)(message_request)
          releaseContent(body)
          if (outcome.result === 'key_used') return 'key_used'
          if (outcome.result !== 'accepted') return undefined
          const { message } = outcome
          // A scheduled or suppressed message has no job, so there is nothing to wait for.
          if (message.status !== 'queued') return { joined: null }
          // A request that waits is answered with the message that it reads after the wait.
          return waits ? 'accepted' : { created: messageView(message, envelope, content) }
        }),
      // A request for a scheduled message is answered at once: no request waits until `send_at`.
      isFulfilled: ({ status, send_at }) => send_at !== null || FINAL_STATUSES.includes(status),
      showsFailure: ({ status }) => ACCEPTED_STATUSES.includes(status),
      failure_code,
      expects_provider_event: true,
      explainRefusal: () => refusalOf(outcome, composed, limits),
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
    envelope: vault.seal(envelope, messageContext(tenant_id, message_id, 'envelope')),
    content: vault.seal(content, messageContext(tenant_id, message_id, 'content')),
    attachments: files.map((file, nth) => vault.seal(file, attachmentContext(tenant_id, message_id, nth))),
  }
}

function refusalOf(
  outcome: MessageResult | undefined,
  composed: Pick<ComposedMessage, 'envelope' | 'addresses'> | undefined,
  limits: MessageLimits,
): AppError {
  if (outcome?.result === 'tenant' || outcome?.result === 'destination') {
    const { result, address, retry_after_s } = outcome
    const { envelope, addresses = [] } = composed ?? {}
    const to = [envelope?.to, envelope?.cc, envelope?.bcc].flatMap((list) => list ?? [])
    const { window, window_s } = MESSAGE_WINDOWS[result]
    const scope = result === 'tenant' ? '' : ' to one destination'
    return new AppError('rate_limited', {
      limited_by: 'messages',
      message: `Too many messages: at most ${limits[result]}${scope} are allowed in ${window === 'hour' ? 'an hour' : 'a minute'}.`,
      retry_after_s,
      context: {
        limit: { of: result, messages: limits[result], window_s },
        ...(address !== null && { address: to[addresses.indexOf(address)] }),
      },
    })
  }
  const problem = `must be in the future, and at most ${MAX_DAYS_AHEAD} days ahead (in test mode: of the test clock)`
  return new AppError('invalid_request', {
    message: `send_at ${problem}.`,
    param: 'send_at',
    details: [{ param: 'send_at', message: problem }],
  })
}

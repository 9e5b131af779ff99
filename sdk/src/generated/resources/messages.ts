// `sluice.messages`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { part, Resource } from '../../resource.ts'
import type {
  CancelMessage,
  Message,
  MessageAnswer,
  MessageChannel,
  MessageStatus,
  SendEmail,
  SendEmailBatch,
  SendSms,
  SendSmsBatch,
  TimelineEntry,
} from '../schemas.ts'
import { MessagesSuppressionsResource } from './messages/suppressions.ts'
import { MessagesTemplatesResource } from './messages/templates.ts'

/** What `messages.list` can be asked for. */
export interface ListMessagesQuery {
  /** The `created_at` of the last item of the page before. */
  before?: string
  /**
   * Page size.
   *
   * `25` unless said otherwise.
   */
  limit?: number
  /** Created at or after. */
  created_from?: string
  /** Created before. */
  created_to?: string
  /** Only those of this channel. */
  channel?: MessageChannel
  /** Only those of this status. */
  status?: MessageStatus
  /** Only those to this email address, as `to`, `cc` or `bcc`, in any case; or to this phone number. */
  to?: string
  /** Only those with this tag, which only email has. */
  tag?: string
}

/** What `messages.timeline` can be asked for. */
export interface GetMessageTimelineQuery {
  /** The `at` of the first entry of the page that came after. */
  before?: string
  /**
   * Page size.
   *
   * `100` unless said otherwise.
   */
  limit?: number
}

/** Email and SMS, one by one or in batches. */
export class MessagesResource extends Resource {
  /** Addresses and numbers that get nothing any more. */
  readonly suppressions = new MessagesSuppressionsResource(this.client)
  /** Texts with places for what differs from message to message. */
  readonly templates = new MessagesTemplatesResource(this.client)

  /**
   * List messages, newest first.
   *
   * Without what they say: texts, headers and attachments are null in lists. Retrieve a message for its
   * own.
   *
   * Needs the scope `messaging:read`.
   *
   * `GET /v1/messages`
   */
  list(query?: ListMessagesQuery, options?: RequestOptions): Pages<Message> {
    return this.pages('/v1/messages', query, options)
  }

  /**
   * Send an email.
   *
   * Answered once the server has taken it, for some of the recipients at least; `recipients` shows for
   * whom not. Who waits is answered with an error when the provider does not take it, and that is final:
   * `email_send_failed`. Who does not (`Prefer: respond-async`) leaves it to be tried again, five times
   * in all, where it certainly was not sent and may go later. When nobody knows whether the provider has
   * it, the answer is 202 with the status `unknown`; it is never sent again by itself. One that is
   * `scheduled` or `suppressed` is answered 201 at once. Recipients who are suppressed get nothing. The
   * request takes up to 15 MiB.
   *
   * Waits for the provider (10 s; `Prefer: wait=N`, at most 30, or `respond-async`); what is not
   * finished by then answers 202.
   *
   * Needs the scope `messaging:write`.
   *
   * `POST /v1/messages/email`
   */
  sendEmail(body: SendEmail, options?: RequestOptions): Answer<Message> {
    return this.send('POST', '/v1/messages/email', { body, key: 'header' }, options)
  }

  /**
   * Send several emails.
   *
   * Each is accepted or refused by itself, with its own key, limits and errors: the answer has one item
   * for each, in their order. A key means the same as on the route for one message; the header
   * `Idempotency-Key` means nothing here. Nobody waits for them to be sent, and what certainly was not
   * sent is tried again. The request takes up to 15 MiB. With the texts in its answer, and what else its
   * tenant asks for meanwhile, it may take 32 MiB: what is beyond is refused with `overloaded`.
   *
   * Needs the scope `messaging:write`.
   *
   * `POST /v1/messages/email/batch`
   */
  sendEmailBatch(body: SendEmailBatch, options?: RequestOptions): Answer<MessageAnswer[]> {
    return this.send('POST', '/v1/messages/email/batch', { body, key: 'messages' }, options)
  }

  /**
   * Send an SMS.
   *
   * Answered once the provider has taken it. Who waits is answered with an error when the provider does
   * not take it, and that is final: `sms_send_failed`. Who does not (`Prefer: respond-async`) leaves it
   * to be tried again, five times in all, where it certainly was not sent and may go later. When nobody
   * knows whether the provider has it, the answer is 202 with the status `unknown`; it is never sent
   * again by itself. One that is `scheduled` or `suppressed` is answered 201 at once. `segments` says
   * into how many parts it is cut, each of which is charged; `price` comes later.
   *
   * Waits for the provider (10 s; `Prefer: wait=N`, at most 30, or `respond-async`); what is not
   * finished by then answers 202.
   *
   * Needs the scope `messaging:write`.
   *
   * `POST /v1/messages/sms`
   */
  sendSms(body: SendSms, options?: RequestOptions): Answer<Message> {
    return this.send('POST', '/v1/messages/sms', { body, key: 'header' }, options)
  }

  /**
   * Send several SMS.
   *
   * Each is accepted or refused by itself, with its own key, limits and errors: the answer has one item
   * for each, in their order. A key means the same as on the route for one message; the header
   * `Idempotency-Key` means nothing here. Nobody waits for them to be sent, and what certainly was not
   * sent is tried again.
   *
   * Needs the scope `messaging:write`.
   *
   * `POST /v1/messages/sms/batch`
   */
  sendSmsBatch(body: SendSmsBatch, options?: RequestOptions): Answer<MessageAnswer[]> {
    return this.send('POST', '/v1/messages/sms/batch', { body, key: 'messages' }, options)
  }

  /**
   * Retrieve a message.
   *
   * With what it says, until that is erased; of attachments only their names and sizes.
   *
   * Needs the scope `messaging:read`.
   *
   * `GET /v1/messages/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<Message> {
    return this.send('GET', `/v1/messages/${part(id)}`, {}, options)
  }

  /**
   * Cancel a message.
   *
   * One that is `scheduled` or `queued` never leaves. Any other cannot be taken back.
   *
   * Needs the scope `messaging:write`.
   *
   * `POST /v1/messages/{id}/cancel`
   */
  cancel(id: string, body?: CancelMessage, options?: RequestOptions): Answer<Message> {
    return this.send('POST', `/v1/messages/${part(id)}/cancel`, { body, key: 'header' }, options)
  }

  /**
   * Explain a message.
   *
   * Every attempt, provider answer, notification and event of the message, oldest first: the last
   * `limit` of them, or the last before `before`. Entries of one moment are never parted, so there may
   * be a few more than `limit`. A full page links to what came before it.
   *
   * Needs the scope `messaging:read`.
   *
   * `GET /v1/messages/{id}/timeline`
   */
  timeline(id: string, query?: GetMessageTimelineQuery, options?: RequestOptions): Pages<TimelineEntry> {
    return this.pages(`/v1/messages/${part(id)}/timeline`, query, options)
  }
}

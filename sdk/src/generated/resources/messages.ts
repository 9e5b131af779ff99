// `sluice.messages`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { pathSegment, Resource } from '../../resource.ts'
import type {
  CancelMessage,
  Channel,
  Message,
  MessageAnswer,
  MessageStatus,
  SendEmail,
  SendEmailBatch,
  SendSms,
  SendSmsBatch,
  TimelineEntry,
} from '../schemas.ts'
import { MessagesSuppressionsResource } from './messages/suppressions.ts'
import { MessagesTemplatesResource } from './messages/templates.ts'

/** Query parameters of `messages.list`. */
export interface ListMessagesQuery {
  /** The `created_at` of the last item of the previous page. */
  before?: string
  /**
   * Page size.
   *
   * `Default: `25`.
   */
  limit?: number
  /** Created at or after. */
  created_from?: string
  /** Created before. */
  created_to?: string
  /** Filter by channel. */
  channel?: Channel
  /** Filter by status. */
  status?: MessageStatus
  /** Filter by recipient: an email address in `to`, `cc` or `bcc`, ignoring case, or a phone number. */
  to?: string
  /** Filter by the sender of a received SMS, a phone number. Other messages are not found. */
  from?: string
  /** Filter by tag. Only email has tags. */
  tag?: string
}

/** Query parameters of `messages.timeline`. */
export interface GetMessageTimelineQuery {
  /** The `at` of the first entry of the later page. */
  before?: string
  /**
   * Page size.
   *
   * `Default: `100`.
   */
  limit?: number
}

/** Send email and SMS, singly or in batches. */
export class MessagesResource extends Resource {
  /** Addresses and numbers that no longer get messages. */
  readonly suppressions = new MessagesSuppressionsResource(this.client)
  /** Texts of messages with variables. */
  readonly templates = new MessagesTemplatesResource(this.client)

  /**
   * List messages, newest first.
   *
   * Texts, headers and attachments are null in lists. Retrieve a message to read them.
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
   * The answer comes when the server has accepted the email for at least one of the recipients;
   * `recipients` shows the outcome for each. If you wait and the provider does not accept the message,
   * the answer is an error, and that is final: `email_send_failed`. If you do not wait (`Prefer:
   * respond-async`), a message that was certainly not sent and may succeed later is attempted up to five
   * times. If it is not known whether the provider accepted the message, the answer is 202 with the
   * status `unknown`; it is never sent again automatically. A message that is `scheduled` or
   * `suppressed` is answered 201 at once. Suppressed recipients get nothing. The request may have up to
   * 15 MiB.
   *
   * Waits for the provider (10 s; `Prefer: wait=N`, at most 30, or `respond-async`). If the work is not
   * finished by then, the answer is 202.
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
   * Each message is accepted or refused on its own, with its own key, limits and errors. The answer has
   * one item for each, in the same order. Keys are shared with the route that sends one message; the
   * header `Idempotency-Key` is ignored here. The request does not wait for the messages to be sent; a
   * message that was certainly not sent is retried. The request may have up to 15 MiB. All requests of
   * the tenant in progress, with the texts in their answers, may occupy 32 MiB together; messages beyond
   * that are refused with `overloaded`.
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
   * The answer comes when the provider has accepted the SMS. If you wait and the provider does not
   * accept the message, the answer is an error, and that is final: `sms_send_failed`. If you do not wait
   * (`Prefer: respond-async`), a message that was certainly not sent and may succeed later is attempted
   * up to five times. If it is not known whether the provider accepted the message, the answer is 202
   * with the status `unknown`; it is never sent again automatically. A message that is `scheduled` or
   * `suppressed` is answered 201 at once. `segments` is the number of segments, each of which is
   * charged; `price` comes later.
   *
   * Waits for the provider (10 s; `Prefer: wait=N`, at most 30, or `respond-async`). If the work is not
   * finished by then, the answer is 202.
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
   * Each message is accepted or refused on its own, with its own key, limits and errors. The answer has
   * one item for each, in the same order. Keys are shared with the route that sends one message; the
   * header `Idempotency-Key` is ignored here. The request does not wait for the messages to be sent; a
   * message that was certainly not sent is retried.
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
   * Includes the text until it is erased. Attachments are shown with names and sizes only.
   *
   * Needs the scope `messaging:read`.
   *
   * `GET /v1/messages/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<Message> {
    return this.send('GET', `/v1/messages/${pathSegment(id)}`, {}, options)
  }

  /**
   * Cancel a message.
   *
   * Cancels a message that is `scheduled` or `queued`, so that it is never sent. Any other message
   * cannot be recalled.
   *
   * Needs the scope `messaging:write`.
   *
   * `POST /v1/messages/{id}/cancel`
   */
  cancel(id: string, body?: CancelMessage, options?: RequestOptions): Answer<Message> {
    return this.send('POST', `/v1/messages/${pathSegment(id)}/cancel`, { body, key: 'header' }, options)
  }

  /**
   * Retrieve the timeline of a message.
   *
   * Every attempt, provider answer, notification and event of the message, oldest first: the last
   * `limit` entries, or the last `limit` before `before`. Entries of the same moment come on the same
   * page, so there may be a few more than `limit`. A full page links to the previous entries.
   *
   * Needs the scope `messaging:read`.
   *
   * `GET /v1/messages/{id}/timeline`
   */
  timeline(id: string, query?: GetMessageTimelineQuery, options?: RequestOptions): Pages<TimelineEntry> {
    return this.pages(`/v1/messages/${pathSegment(id)}/timeline`, query, options)
  }
}

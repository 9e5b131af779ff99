// `sluice.messages.templates`.

import type { Answer } from '../../../answer.ts'
import type { RequestOptions } from '../../../client.ts'
import type { Pages } from '../../../pages.ts'
import { part, Resource } from '../../../resource.ts'
import type {
  CreateMessageTemplate,
  MessageChannel,
  MessageTemplate,
  PreviewMessageTemplate,
  RenderedTemplate,
  UpdateMessageTemplate,
} from '../../schemas.ts'

/** What `messages.templates.list` can be asked for. */
export interface ListMessageTemplatesQuery {
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
  /** Only the one of this name. */
  name?: string
}

/** Texts with places for what differs from message to message. */
export class MessagesTemplatesResource extends Resource {
  /**
   * Create a template.
   *
   * In Liquid, as LiquidJS has it, without files. An email has a `subject` and `text`, `html` or both;
   * an SMS has a `body`. Messages name it by its `name` or `id`.
   *
   * Needs the scope `messaging:write`.
   *
   * `POST /v1/messages/templates`
   */
  create(body: CreateMessageTemplate, options?: RequestOptions): Answer<MessageTemplate> {
    return this.send('POST', '/v1/messages/templates', { body, key: 'header' }, options)
  }

  /**
   * List templates, newest first.
   *
   * Without their texts: `text`, `html` and `body` are null in lists.
   *
   * Needs the scope `messaging:read`.
   *
   * `GET /v1/messages/templates`
   */
  list(query?: ListMessageTemplatesQuery, options?: RequestOptions): Pages<MessageTemplate> {
    return this.pages('/v1/messages/templates', query, options)
  }

  /**
   * Retrieve a template.
   *
   * By its id; the list finds it by its name.
   *
   * Needs the scope `messaging:read`.
   *
   * `GET /v1/messages/templates/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<MessageTemplate> {
    return this.send('GET', `/v1/messages/templates/${part(id)}`, {}, options)
  }

  /**
   * Change a template.
   *
   * A field that is left out stays as it is; null takes `text` or `html` away. Messages that were
   * accepted before keep their texts.
   *
   * Needs the scope `messaging:write`.
   *
   * `PATCH /v1/messages/templates/{id}`
   */
  update(id: string, body?: UpdateMessageTemplate, options?: RequestOptions): Answer<MessageTemplate> {
    return this.send('PATCH', `/v1/messages/templates/${part(id)}`, { body }, options)
  }

  /**
   * Delete a template.
   *
   * No new message can name it, and its name is free. Answers it as it was.
   *
   * Needs the scope `messaging:write`.
   *
   * `DELETE /v1/messages/templates/{id}`
   */
  delete(id: string, options?: RequestOptions): Answer<MessageTemplate> {
    return this.send('DELETE', `/v1/messages/templates/${part(id)}`, {}, options)
  }

  /**
   * Preview a template.
   *
   * What a message of this template would say with these variables. Nothing is sent.
   *
   * Needs the scope `messaging:read`.
   *
   * `POST /v1/messages/templates/{id}/preview`
   */
  preview(id: string, body: PreviewMessageTemplate, options?: RequestOptions): Answer<RenderedTemplate> {
    return this.send('POST', `/v1/messages/templates/${part(id)}/preview`, { body, key: 'needless' }, options)
  }
}

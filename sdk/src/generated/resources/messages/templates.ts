// `sluice.messages.templates`.

import type { Answer } from '../../../answer.ts'
import type { RequestOptions } from '../../../client.ts'
import type { Pages } from '../../../pages.ts'
import { pathSegment, Resource } from '../../../resource.ts'
import type {
  Channel,
  CreateMessageTemplate,
  MessageTemplate,
  PreviewMessageTemplate,
  RenderedTemplate,
  UpdateMessageTemplate,
} from '../../schemas.ts'

/** Query parameters of `messages.templates.list`. */
export interface ListMessageTemplatesQuery {
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
  /** Filter by name. */
  name?: string
}

/** Texts of messages with variables. */
export class MessagesTemplatesResource extends Resource {
  /**
   * Create a template.
   *
   * A template in Liquid (the LiquidJS dialect), without files. An email has a `subject` and `text`,
   * `html` or both; an SMS has a `body`. Messages refer to it by its `name` or `id`.
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
   * `text`, `html` and `body` are null in lists.
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
   * By its id. To find a template by name, filter the list.
   *
   * Needs the scope `messaging:read`.
   *
   * `GET /v1/messages/templates/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<MessageTemplate> {
    return this.send('GET', `/v1/messages/templates/${pathSegment(id)}`, {}, options)
  }

  /**
   * Update a template.
   *
   * Fields that you leave out stay unchanged; null removes `text` or `html`. Messages that were accepted
   * before keep their texts.
   *
   * Needs the scope `messaging:write`.
   *
   * `PATCH /v1/messages/templates/{id}`
   */
  update(id: string, body?: UpdateMessageTemplate, options?: RequestOptions): Answer<MessageTemplate> {
    return this.send('PATCH', `/v1/messages/templates/${pathSegment(id)}`, { body }, options)
  }

  /**
   * Delete a template.
   *
   * No new message can use the template, and its name becomes free. The answer is the deleted template.
   *
   * Needs the scope `messaging:write`.
   *
   * `DELETE /v1/messages/templates/{id}`
   */
  delete(id: string, options?: RequestOptions): Answer<MessageTemplate> {
    return this.send('DELETE', `/v1/messages/templates/${pathSegment(id)}`, {}, options)
  }

  /**
   * Preview a template.
   *
   * Shows the text of a message with this template and these variables. Nothing is sent.
   *
   * Needs the scope `messaging:read`.
   *
   * `POST /v1/messages/templates/{id}/preview`
   */
  preview(id: string, body: PreviewMessageTemplate, options?: RequestOptions): Answer<RenderedTemplate> {
    return this.send(
      'POST',
      `/v1/messages/templates/${pathSegment(id)}/preview`,
      { body, key: 'needless' },
      options,
    )
  }
}

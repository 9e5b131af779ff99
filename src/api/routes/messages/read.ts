// Routes that read messages: list, retrieve, timeline.
import { z } from 'zod'
import { EMAIL } from '#core/config/providers.ts'
import { listMessages } from '#domain/messages/find.ts'
import { messageChannel, messageSchema, messageStatus, type Message } from '#domain/messages/message.ts'
import { messageTerm } from '#domain/messages/terms.ts'
import { sendEmail } from '#jobs/messages.ts'
import type { ResourceReader } from '../../accept.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { idParams, nextPage, pageQuery, route } from '../../route.ts'
import { timelineRoute } from '../../timeline.ts'
import { openMessage } from './answers.ts'
import { tagFilter } from './bodies.ts'
import { LISTED_MESSAGE } from './examples.ts'
import { numberFilter, recipientFilter } from './recipients.ts'

const filters = pageQuery.extend({
  channel: messageChannel.optional().meta({ description: 'Filter by channel.' }),
  status: messageStatus.optional().meta({ description: 'Filter by status.' }),
  to: recipientFilter.optional().meta({
    description:
      'Filter by recipient: an email address in `to`, `cc` or `bcc`, ignoring case, or a phone number.',
  }),
  from: numberFilter.optional().meta({
    description: 'Filter by the sender of a received SMS, a phone number. Other messages are not found.',
  }),
  tag: tagFilter.optional().meta({ description: 'Filter by tag. Only email has tags.', example: 'shipping' }),
})

export function readMessageRoutes(
  app: RouteApp,
  context: RouteContext,
  { find }: ResourceReader<Message>,
): void {
  const { runList, vault, hashOf } = context
  app.get(
    '/v1/messages',
    route({
      area: 'messages',
      scope: 'messaging:read',
      tag: 'messages',
      operation_id: 'listMessages',
      summary: 'List messages, newest first',
      description: 'Texts, headers and attachments are null in lists. Retrieve a message to read them.',
      querystring: filters,
      response: { 200: z.array(messageSchema) },
      examples: { answer: LISTED_MESSAGE },
      errors: [],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const { to, from, tag, ...query } = request.query
      const terms = [
        ...(to === undefined
          ? []
          : [messageTerm(tenant_id, 'to', hashOf(to.includes('@') ? 'email' : 'sms', to))]),
        ...(from === undefined ? [] : [messageTerm(tenant_id, 'from', hashOf('sms', from))]),
        ...(tag === undefined ? [] : [messageTerm(tenant_id, 'tag', tag)]),
      ]
      const rows = await runList(request, reply, (lists_sql) =>
        listMessages(lists_sql, tenant_id, { ...query, terms }),
      )
      reply.headers(nextPage(request.url, query.limit, rows))
      return rows.map((row) => openMessage(vault, row))
    },
  )

  app.get(
    '/v1/messages/:id',
    route({
      area: 'messages',
      scope: 'messaging:read',
      tag: 'messages',
      operation_id: 'getMessage',
      summary: 'Retrieve a message',
      description: 'Includes the text until it is erased. Attachments are shown with names and sizes only.',
      params: idParams,
      large: 'expected',
      response: { 200: messageSchema },
      errors: ['message_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      (await find({ tenant_id, id, job_id: null })).resource,
  )

  timelineRoute(
    app,
    context,
    {
      path: '/v1/messages',
      resource: 'message',
      area: 'messages',
      scope: 'messaging:read',
      tag: 'messages',
      operation_id: 'getMessageTimeline',
      summary: 'Retrieve the timeline of a message',
      entries: 'attempt, provider answer, notification and event of the message',
      example: { call: sendEmail.call, reference: EMAIL.examples.email },
      errors: ['message_not_found'],
    },
    find,
  )
}

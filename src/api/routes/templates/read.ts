// Routes that read templates: list and retrieve.
import { z } from 'zod'
import { messageChannel } from '#domain/messages/message.ts'
import { findTemplate, listTemplates } from '#domain/templates/find.ts'
import { templateSchema } from '#domain/templates/template.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, nextPage, pageQuery, route } from '../../route.ts'

const filters = pageQuery.extend({
  channel: messageChannel.optional().meta({ description: 'Filter by channel.' }),
  name: z.string().max(64).optional().meta({ description: 'Filter by name.', example: 'order_shipped' }),
})

export function readTemplateRoutes(app: RouteApp, { sql, runList }: RouteContext): void {
  app.get(
    '/v1/messages/templates',
    route({
      area: 'messages',
      scope: 'messaging:read',
      tag: 'templates',
      operation_id: 'listMessageTemplates',
      summary: 'List templates, newest first',
      description: '`text`, `html` and `body` are null in lists.',
      querystring: filters,
      response: { 200: z.array(templateSchema) },
      examples: { answer: { text: null, html: null } },
      errors: [],
    }),
    async (request, reply) => {
      const templates = await runList(request, reply, (lists_sql) =>
        listTemplates(lists_sql, request.credentials.tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, templates))
      return templates
    },
  )

  app.get(
    '/v1/messages/templates/:id',
    route({
      area: 'messages',
      scope: 'messaging:read',
      tag: 'templates',
      operation_id: 'getMessageTemplate',
      summary: 'Retrieve a template',
      description: 'By its id. To find a template by name, filter the list.',
      params: idParams,
      large: 'expected',
      response: { 200: templateSchema },
      errors: ['template_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      requireResource(await findTemplate(sql, tenant_id, id), 'template_not_found'),
  )
}

// Routes of templates.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import { whileThere } from '#core/leaving.ts'
import { messageChannel } from '#domain/messages/message.ts'
import { findProtectedTemplate, findTemplate, listTemplates } from '#domain/templates/find.ts'
import { renderTemplate } from '#domain/templates/render.ts'
import { createTemplate, deleteTemplate, updateTemplate } from '#domain/templates/request.ts'
import { renderedTemplateSchema, templateSchema } from '#domain/templates/template.ts'
import { acceptAtOnce } from '../accept.ts'
import type { RouteContext } from '../context.ts'
import { found } from '../refusals.ts'
import { idParams, nextPage, pageQuery, route } from '../route.ts'
import { createTemplateBody, previewBody, updateTemplateBody } from './templates/body.ts'

const filters = pageQuery.extend({
  channel: messageChannel.optional().meta({ description: 'Filter by channel.' }),
  name: z.string().max(64).optional().meta({ description: 'Filter by name.', example: 'order_shipped' }),
})

export function templateRoutes(root: FastifyInstance, context: RouteContext): void {
  const { sql, lists } = context
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.post(
    '/v1/messages/templates',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'templates',
      operation_id: 'createMessageTemplate',
      summary: 'Create a template',
      description:
        'A template in Liquid (the LiquidJS dialect), without files. An email has a `subject` and `text`, `html` or both; an SMS has a `body`. Messages refer to it by its `name` or `id`.',
      body: createTemplateBody,
      key: 'optional',
      examples: {
        requests: {
          email: {
            summary: 'For email',
            value: {
              idempotency_key: 'template-shipped',
              name: 'order_shipped',
              channel: 'email',
              subject: 'Order {{ order.number }} has shipped',
              text: 'Hello {{ name }}, it is on its way.',
              html: '<p>Hello {{ name }}</p>',
            },
          },
          sms: {
            summary: 'For SMS',
            value: { name: 'code', channel: 'sms', body: 'Your code is {{ code }}.' },
          },
        },
        answer: { metadata: {} },
      },
      large: 'counted',
      response: { 201: templateSchema },
      errors: ['template_not_found', 'template_invalid', 'template_exists', 'idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { idempotency_key: _key, ...fields } = request.body
      return await acceptAtOnce(context, request, reply, {
        body: request.body,
        step: (asked) =>
          whileThere(request, (signal) =>
            createTemplate(sql, { ...fields, ...asked, template_id: newId(), event_id: newId() }, signal),
          ),
        async find(sent) {
          const remembered = await findProtectedTemplate(sql, sent)
          if (remembered?.resource.deleted_at != null)
            throw new AppError('template_not_found', { message: 'The template was deleted since.' })
          return remembered
        },
      })
    },
  )

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
      const templates = await lists(request, reply, (lists_sql) =>
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
      description: 'By its id; the list finds it by its name.',
      params: idParams,
      large: 'expected',
      response: { 200: templateSchema },
      errors: ['template_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      found(await findTemplate(sql, tenant_id, id), 'template_not_found'),
  )

  app.patch(
    '/v1/messages/templates/:id',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'templates',
      operation_id: 'updateMessageTemplate',
      summary: 'Update a template',
      description:
        'Fields that you leave out stay unchanged; null removes `text` or `html`. Messages that were accepted before keep their texts.',
      params: idParams,
      body: updateTemplateBody,
      examples: {
        requests: { subject: { summary: 'Another subject', value: { subject: 'It has shipped' } } },
        answer: { subject: 'It has shipped' },
      },
      large: 'counted',
      response: { 200: templateSchema },
      errors: ['template_not_found', 'template_invalid', 'template_exists'],
    }),
    async (request) => {
      const { params, body, credentials } = request
      const updated = await whileThere(request, (signal) =>
        updateTemplate(
          sql,
          { tenant_id: credentials.tenant_id, id: params.id, event_id: newId() },
          body ?? {},
          signal,
        ),
      )
      return found(updated, 'template_not_found')
    },
  )

  app.delete(
    '/v1/messages/templates/:id',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'templates',
      operation_id: 'deleteMessageTemplate',
      summary: 'Delete a template',
      description:
        'No new message can use the template, and its name becomes free. The answer is the template as it was.',
      params: idParams,
      large: 'expected',
      response: { 200: templateSchema },
      errors: ['template_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      found(await deleteTemplate(sql, tenant_id, id, newId()), 'template_not_found'),
  )

  app.post(
    '/v1/messages/templates/:id/preview',
    route({
      area: 'messages',
      scope: 'messaging:read',
      tag: 'templates',
      operation_id: 'previewMessageTemplate',
      summary: 'Preview a template',
      description: 'Shows the text of a message with this template and these variables. Nothing is sent.',
      params: idParams,
      body: previewBody,
      examples: {
        requests: {
          variables: {
            summary: 'With its variables',
            value: { variables: { name: 'Ada', order: { number: 'A-17' } } },
          },
        },
      },
      large: 'counted',
      response: { 200: renderedTemplateSchema },
      errors: ['template_not_found', 'template_invalid'],
    }),
    async (request) => {
      const { params, body, credentials } = request
      return await whileThere(request, async (signal) =>
        renderTemplate(
          found(await findTemplate(sql, credentials.tenant_id, params.id), 'template_not_found'),
          body.variables,
          signal,
        ),
      )
    },
  )
}

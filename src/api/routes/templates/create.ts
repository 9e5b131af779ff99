// The route that creates a template.
import { AppError } from '#core/errors.ts'
import { whileConnected } from '#core/leaving.ts'
import { findTemplateByKey } from '#domain/templates/find.ts'
import { createTemplate } from '#domain/templates/request.ts'
import { templateSchema } from '#domain/templates/template.ts'
import { acceptWithoutJob } from '../../accept-without-job.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { route } from '../../route.ts'
import { createTemplateBody } from './body.ts'

export function createTemplateRoute(app: RouteApp, context: RouteContext): void {
  const { sql } = context

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
      return await acceptWithoutJob(context, request, reply, {
        body: request.body,
        step: (requested, { id, event_id }) =>
          whileConnected(request, (signal) =>
            createTemplate(sql, { ...fields, ...requested, template_id: id, event_id }, signal),
          ),
        async find(sent) {
          const stored = await findTemplateByKey(sql, sent)
          if (stored?.resource.deleted_at != null)
            throw new AppError('template_not_found', { message: 'The template has been deleted.' })
          return stored
        },
      })
    },
  )
}

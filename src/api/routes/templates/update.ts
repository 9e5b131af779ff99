// The route that updates a template.
import { newId } from '#core/ids.ts'
import { whileConnected } from '#core/leaving.ts'
import { updateTemplate } from '#domain/templates/request.ts'
import { templateSchema } from '#domain/templates/template.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import { updateTemplateBody } from './body.ts'

export function updateTemplateRoute(app: RouteApp, { sql }: RouteContext): void {
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
      const updated = await whileConnected(request, (signal) =>
        updateTemplate(
          sql,
          { tenant_id: credentials.tenant_id, id: params.id, event_id: newId() },
          body ?? {},
          signal,
        ),
      )
      return requireResource(updated, 'template_not_found')
    },
  )
}

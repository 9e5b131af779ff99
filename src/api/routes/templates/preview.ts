// The route that renders a template without sending anything.
import { whileConnected } from '#core/leaving.ts'
import { findTemplate } from '#domain/templates/find.ts'
import { renderTemplate } from '#domain/templates/render.ts'
import { renderedTemplateSchema } from '#domain/templates/template.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import { previewBody } from './body.ts'

export function previewTemplateRoute(app: RouteApp, { sql }: RouteContext): void {
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
      return await whileConnected(request, async (signal) =>
        renderTemplate(
          requireResource(await findTemplate(sql, credentials.tenant_id, params.id), 'template_not_found'),
          body.variables,
          signal,
        ),
      )
    },
  )
}

// The route that deletes a template.
import { newId } from '#core/ids.ts'
import { deleteTemplate } from '#domain/templates/request.ts'
import { templateSchema } from '#domain/templates/template.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'

export function deleteTemplateRoute(app: RouteApp, { sql }: RouteContext): void {
  app.delete(
    '/v1/messages/templates/:id',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'templates',
      operation_id: 'deleteMessageTemplate',
      summary: 'Delete a template',
      description:
        'No new message can use the template, and its name becomes free. The answer is the deleted template.',
      params: idParams,
      large: 'expected',
      response: { 200: templateSchema },
      errors: ['template_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      requireResource(await deleteTemplate(sql, tenant_id, id, newId()), 'template_not_found'),
  )
}

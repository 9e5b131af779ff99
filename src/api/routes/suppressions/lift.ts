// The route that lifts a suppression.
import { newId } from '#core/ids.ts'
import { liftSuppression } from '#domain/suppressions/request.ts'
import { suppressionSchema } from '#domain/suppressions/suppression.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import type { SuppressionView } from './answers.ts'

export function liftSuppressionRoute(app: RouteApp, { sql }: RouteContext, view: SuppressionView): void {
  app.delete(
    '/v1/messages/suppressions/:id',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'suppressions',
      operation_id: 'deleteSuppression',
      summary: 'Lift a suppression',
      description:
        'The address gets messages again, unless it has another suppression. The address is erased when the event `suppression.deleted` is no longer retained. The provider refuses to send to a number that replied STOP until it replies START. The answer is the deleted suppression.',
      params: idParams,
      response: { 200: suppressionSchema },
      errors: ['suppression_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      view(requireResource(await liftSuppression(sql, tenant_id, id, newId()), 'suppression_not_found')),
  )
}

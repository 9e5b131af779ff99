// The route that reads a recovery.
import { findRecovery } from '#domain/deliveries/recover.ts'
import { recoverySchema } from '#domain/deliveries/recovery.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'

export function readRecoveryRoute(app: RouteApp, { runList }: RouteContext): void {
  app.get(
    '/v1/webhook_recoveries/:id',
    route({
      area: 'events',
      tag: 'webhook_endpoints',
      scope: 'events:read',
      operation_id: 'getWebhookRecovery',
      summary: 'Retrieve a recovery',
      description: 'Shows the progress of the recovery.',
      params: idParams,
      response: { 200: recoverySchema },
      errors: ['webhook_recovery_not_found'],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      // Subject to the limits of lists: the statement counts the backlog, and can be as slow as a list.
      const recovery = await runList(request, reply, (lists_sql) =>
        findRecovery(lists_sql, tenant_id, request.params.id),
      )
      return requireResource(recovery, 'webhook_recovery_not_found')
    },
  )
}

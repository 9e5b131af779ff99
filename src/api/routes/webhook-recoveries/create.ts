// The route that starts a recovery of a webhook endpoint.
import { AppError } from '#core/errors.ts'
import { findRecovery, requestRecovery } from '#domain/deliveries/recover.ts'
import { recoverySchema } from '#domain/deliveries/recovery.ts'
import { acceptWithoutJob } from '../../accept-without-job.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import { recoverBody } from '../webhook-endpoints/body.ts'
import { serializeChange } from '../webhook-endpoints/serialize-changes.ts'

const STARTED = { status: 'pending', found: 0, sent: 0 }

export function createRecoveryRoute(app: RouteApp, context: RouteContext): void {
  const { sql, runList } = context

  app.post(
    '/v1/webhook_endpoints/:id/recover',
    route({
      area: 'events',
      tag: 'webhook_endpoints',
      scope: 'webhooks:write',
      operation_id: 'recoverWebhookEndpoint',
      summary: 'Send failed deliveries again',
      description:
        'Sends again the deliveries that were created in this period and are `failed`, `exhausted`, `skipped`, or pending after a failed attempt, even if the endpoint is disabled. Each delivery restarts its retry schedule; its `attempts` continue to count. The recovery ends if the endpoint is disabled after the recovery was created. An endpoint can have one recovery at a time.',
      params: idParams,
      body: recoverBody,
      key: 'optional',
      examples: {
        requests: {
          outage: {
            summary: 'The deliveries of an hour',
            value: { since: '2026-11-20T10:15:30.123456Z', until: '2026-11-20T11:15:30.123456Z' },
          },
        },
        unfinished: { ...STARTED, until: '2026-11-20T11:15:30.123456Z' },
      },
      response: { 202: recoverySchema },
      errors: [
        'webhook_endpoint_not_found',
        'webhook_recovery_not_found',
        'recovery_in_progress',
        'idempotency_key_reused',
      ],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const { since, until } = request.body
      const endpoint_id = request.params.id
      const recovery = await acceptWithoutJob(context, request, reply, {
        body: request.body,
        step: (requested, { id: recovery_id }) =>
          serializeChange(tenant_id, () =>
            requestRecovery(sql, { ...requested, endpoint_id, recovery_id, since, until }),
          ),
        async find(sent) {
          const earlier = await context.findStoredKey(sent)
          if (earlier === undefined) return undefined
          const recovery = await runList(request, reply, (lists_sql) =>
            findRecovery(lists_sql, tenant_id, earlier.resource_id),
          )
          return {
            fingerprint: earlier.fingerprint,
            resource: requireResource(recovery, 'webhook_recovery_not_found'),
          }
        },
        explainRefusal: () => new AppError('webhook_endpoint_not_found'),
      })
      reply.code(202).header('location', `/v1/webhook_recoveries/${recovery.id}`)
      return recovery
    },
  )
}

// The route that reads the outcome of requests by idempotency key.
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { timestamp } from '#core/time.ts'
import { listKeyUses } from '#domain/idempotency.ts'
import { RESOURCE_NAMES } from '#domain/resources.ts'
import { idempotencyKey } from '../body.ts'
import type { RouteApp, RouteContext } from '../context.ts'
import { EXAMPLE_ID, nextPage, pageQuery, route } from '../route.ts'

const storedRequest = z
  .object({
    key: z.string().meta({ description: 'The key.', example: 'order-17-payment' }),
    route: z.string().meta({ description: 'The route of the request.', example: 'POST /v1/payments' }),
    resource: z.string().meta({
      description: `The type of the resource: ${RESOURCE_NAMES.map((resource) => `\`${resource}\``).join(', ')}.`,
      example: 'payment',
    }),
    resource_id: z.uuid().meta({ description: 'The id of the resource.', example: EXAMPLE_ID }),
    status: z.enum(['finished', 'under_way', 'failed', 'unknown']).meta({
      id: 'AcceptedRequestStatus',
      description:
        'The state of the request. `unknown`: Sluice is finding out whether a call to the provider took effect.',
      example: 'finished',
    }),
    created_at: timestamp.meta({ description: 'When the request was accepted.' }),
  })
  .meta({ id: 'AcceptedRequest', description: 'A request that was accepted with this key.' })

export function idempotencyKeyRoutes(app: RouteApp, { runList }: RouteContext): void {
  app.get(
    '/v1/idempotency_keys/:key',
    route({
      area: null,
      scope: null,
      tag: 'idempotency',
      operation_id: 'getIdempotencyKey',
      summary: 'Look up an idempotency key',
      description:
        'Lists the requests that were accepted with this key, newest first. If you did not receive the answer to a request, the list shows whether the request was accepted. Keys are retained for 30 days. Requests accepted at the same moment come on the same page.',
      params: z.strictObject({
        key: idempotencyKey.meta({ description: 'The key.', example: 'order-17-payment' }),
      }),
      querystring: pageQuery,
      response: { 200: z.array(storedRequest) },
      errors: ['idempotency_key_not_found'],
    }),
    async (request, reply) => {
      const { before, created_from, created_to, limit } = request.query
      const rows = await runList(request, reply, (lists_sql) =>
        listKeyUses(lists_sql, request.credentials.tenant_id, request.params.key, request.query),
      )
      const is_unfiltered = [before, created_from, created_to].every((parameter) => parameter === undefined)
      if (rows.length === 0 && is_unfiltered) throw new AppError('idempotency_key_not_found')
      reply.headers(nextPage(request.url, limit, rows))
      return rows.map(({ key, route: full_route, resource, resource_id, job_state, created_at }) => ({
        key,
        route: full_route.split(' ').slice(0, 2).join(' '),
        resource,
        resource_id,
        status: statusOf(job_state),
        created_at,
      }))
    },
  )
}

function statusOf(job_state: string | null): z.output<typeof storedRequest>['status'] {
  if (job_state === null || job_state === 'succeeded') return 'finished'
  if (job_state === 'failed' || job_state === 'discarded') return 'failed'
  return job_state === 'unknown' ? 'unknown' : 'under_way'
}

// Routes that read webhook endpoints: list and retrieve.
import { z } from 'zod'
import { endpointSchema } from '#domain/webhook-endpoints/endpoint.ts'
import { findEndpoint, listEndpoints } from '#domain/webhook-endpoints/find.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, nextPage, pageQuery, route } from '../../route.ts'
import type { EndpointViews } from './answers.ts'

export function readEndpointRoutes(
  app: RouteApp,
  { sql, runList }: RouteContext,
  { view }: EndpointViews,
): void {
  app.get(
    '/v1/webhook_endpoints',
    route({
      area: 'events',
      tag: 'webhook_endpoints',
      scope: 'events:read',
      operation_id: 'listWebhookEndpoints',
      summary: 'List webhook endpoints, newest first',
      querystring: pageQuery,
      response: { 200: z.array(endpointSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const endpoints = await runList(request, reply, (lists_sql) =>
        listEndpoints(lists_sql, request.credentials.tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, endpoints))
      return endpoints.map((endpoint) => view(endpoint))
    },
  )

  app.get(
    '/v1/webhook_endpoints/:id',
    route({
      area: 'events',
      tag: 'webhook_endpoints',
      scope: 'events:read',
      operation_id: 'getWebhookEndpoint',
      summary: 'Retrieve a webhook endpoint',
      params: idParams,
      response: { 200: endpointSchema },
      errors: ['webhook_endpoint_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      view(requireResource(await findEndpoint(sql, tenant_id, id), 'webhook_endpoint_not_found')),
  )
}

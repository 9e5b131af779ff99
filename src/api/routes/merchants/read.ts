// Routes that read merchants: list and retrieve.
import { z } from 'zod'
import { merchantSchema } from '#domain/merchants/merchant.ts'
import { findRecord, listRecords } from '#domain/records.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { booleanFilter, idParams, nextPage, pageQuery, route } from '../../route.ts'

export function readMerchantRoutes(app: RouteApp, { sql, runList }: RouteContext): void {
  app.get(
    '/v1/merchants',
    route({
      area: 'merchants',
      scope: 'merchants:read',
      operation_id: 'listMerchants',
      summary: 'List merchants, newest first',
      querystring: pageQuery.extend({
        archived: booleanFilter('List archived ones instead of the others.'),
      }),
      response: { 200: z.array(merchantSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const merchants = await runList(request, reply, (lists_sql) =>
        listRecords(lists_sql, 'merchant', request.credentials.tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, merchants))
      return merchants
    },
  )

  app.get(
    '/v1/merchants/:id',
    route({
      area: 'merchants',
      scope: 'merchants:read',
      operation_id: 'getMerchant',
      summary: 'Retrieve a merchant',
      description: 'Also returns archived merchants.',
      params: idParams,
      response: { 200: merchantSchema },
      errors: ['merchant_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      requireResource(await findRecord(sql, 'merchant', { tenant_id, id }), 'merchant_not_found'),
  )
}

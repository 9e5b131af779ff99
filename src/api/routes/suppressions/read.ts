// Routes that read suppressions: list and retrieve.
import { z } from 'zod'
import { CHANNELS } from '#core/addresses.ts'
import { messageChannel } from '#domain/messages/message.ts'
import { findSuppression, listSuppressions } from '#domain/suppressions/find.ts'
import { suppressionReason, suppressionSchema } from '#domain/suppressions/suppression.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, nextPage, pageQuery, route } from '../../route.ts'
import { recipientFilter } from '../messages/recipients.ts'
import type { SuppressionView } from './answers.ts'

const filters = pageQuery.extend({
  channel: messageChannel.optional().meta({ description: 'Filter by channel.' }),
  address: recipientFilter
    .optional()
    .meta({ description: 'Filter by address or number.', example: 'grace@example.com' }),
  reason: suppressionReason.optional().meta({ description: 'Filter by reason.' }),
})

export function readSuppressionRoutes(
  app: RouteApp,
  { sql, runList, hashOf }: RouteContext,
  view: SuppressionView,
): void {
  app.get(
    '/v1/messages/suppressions',
    route({
      area: 'messages',
      scope: 'messaging:read',
      tag: 'suppressions',
      operation_id: 'listSuppressions',
      summary: 'List suppressions, newest first',
      querystring: filters,
      response: { 200: z.array(suppressionSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const { address, ...query } = request.query
      const addresses =
        address === undefined ? {} : { addresses: CHANNELS.map((each) => hashOf(each, address)) }
      const rows = await runList(request, reply, (lists_sql) =>
        listSuppressions(lists_sql, request.credentials.tenant_id, { ...query, ...addresses }),
      )
      reply.headers(nextPage(request.url, query.limit, rows))
      return rows.map(view)
    },
  )

  app.get(
    '/v1/messages/suppressions/:id',
    route({
      area: 'messages',
      scope: 'messaging:read',
      tag: 'suppressions',
      operation_id: 'getSuppression',
      summary: 'Retrieve a suppression',
      params: idParams,
      response: { 200: suppressionSchema },
      errors: ['suppression_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      view(requireResource(await findSuppression(sql, tenant_id, id), 'suppression_not_found')),
  )
}

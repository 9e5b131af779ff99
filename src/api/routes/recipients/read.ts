// Routes that read recipients: list and retrieve.
import { z } from 'zod'
import { currencyCode } from '#core/money.ts'
import { listRecipients } from '#domain/recipients/find.ts'
import { recipientSchema, recipientType } from '#domain/recipients/recipient.ts'
import { findRecord } from '#domain/records.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { booleanFilter, idParams, nextPage, pageQuery, route } from '../../route.ts'

export function readRecipientRoutes(app: RouteApp, { sql, runList }: RouteContext): void {
  app.get(
    '/v1/recipients',
    route({
      area: 'recipients',
      scope: 'recipients:read',
      operation_id: 'listRecipients',
      summary: 'List recipients, newest first',
      querystring: pageQuery.extend({
        email: z
          .string()
          .max(320)
          .optional()
          .meta({ description: 'Filter by email; must match exactly.', example: 'grace@example.com' }),
        type: recipientType.optional().meta({ description: 'Filter by type.' }),
        currency: currencyCode.optional().meta({ description: 'Filter by currency.', example: 'usd' }),
        archived: booleanFilter('List archived ones instead of the others.'),
      }),
      response: { 200: z.array(recipientSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const recipients = await runList(request, reply, (lists_sql) =>
        listRecipients(lists_sql, request.credentials.tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, recipients))
      return recipients
    },
  )

  app.get(
    '/v1/recipients/:id',
    route({
      area: 'recipients',
      scope: 'recipients:read',
      operation_id: 'getRecipient',
      summary: 'Retrieve a recipient',
      description: 'Also returns archived recipients.',
      params: idParams,
      response: { 200: recipientSchema },
      errors: ['recipient_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      requireResource(await findRecord(sql, 'recipient', { tenant_id, id }), 'recipient_not_found'),
  )
}

// The route that archives a recipient.
import { newId } from '#core/ids.ts'
import { recipientSchema } from '#domain/recipients/recipient.ts'
import { archiveRecord } from '#domain/records.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'

export function archiveRecipientRoute(app: RouteApp, { sql }: RouteContext): void {
  app.delete(
    '/v1/recipients/:id',
    route({
      area: 'recipients',
      scope: 'recipients:write',
      operation_id: 'archiveRecipient',
      summary: 'Archive a recipient',
      description:
        'No new payout can go to the recipient. It is retained for the books, and is listed only with `archived=true`. Archiving it again changes nothing.',
      params: idParams,
      response: { 200: recipientSchema },
      examples: { answer: { archived_at: '2026-11-20T10:15:30.123456Z' } },
      errors: ['recipient_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      requireResource(
        await archiveRecord(sql, 'recipient', { tenant_id, id }, newId()),
        'recipient_not_found',
      ),
  )
}

// The route that updates a recipient.
import { newId } from '#core/ids.ts'
import { recipientSchema } from '#domain/recipients/recipient.ts'
import { updateRecord } from '#domain/records.ts'
import { updateBodyOf } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import { createRecipientBody, updateRecipientBody } from './body.ts'

export function updateRecipientRoute(app: RouteApp, { sql }: RouteContext): void {
  app.patch(
    '/v1/recipients/:id',
    route({
      area: 'recipients',
      scope: 'recipients:write',
      operation_id: 'updateRecipient',
      summary: 'Update a recipient',
      description:
        'Fields that you leave out stay unchanged. The destination cannot be changed: archive the recipient and create another.',
      params: idParams,
      body: updateBodyOf(updateRecipientBody, createRecipientBody, 'archive the recipient'),
      examples: {
        requests: { email: { summary: 'Another email', value: { email: 'grace@example.org' } } },
        answer: { email: 'grace@example.org' },
      },
      response: { 200: recipientSchema },
      errors: ['recipient_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id }, body }) =>
      requireResource(
        await updateRecord(sql, 'recipient', { tenant_id, id }, newId(), body ?? {}),
        'recipient_not_found',
      ),
  )
}

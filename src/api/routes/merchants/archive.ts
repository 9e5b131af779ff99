// The route that archives a merchant.
import { newId } from '#core/ids.ts'
import { merchantSchema } from '#domain/merchants/merchant.ts'
import { archiveRecord } from '#domain/records.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'

export function archiveMerchantRoute(app: RouteApp, { sql }: RouteContext): void {
  app.delete(
    '/v1/merchants/:id',
    route({
      area: 'merchants',
      scope: 'merchants:write',
      operation_id: 'archiveMerchant',
      summary: 'Archive a merchant',
      description:
        'No new payment can name the merchant. It is retained for the books, and is listed only with `archived=true`. Archiving it again changes nothing.',
      params: idParams,
      response: { 200: merchantSchema },
      examples: { answer: { archived_at: '2026-11-20T10:15:30.123456Z' } },
      errors: ['merchant_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      requireResource(await archiveRecord(sql, 'merchant', { tenant_id, id }, newId()), 'merchant_not_found'),
  )
}

// The route that updates a merchant.
import { newId } from '#core/ids.ts'
import { merchantSchema } from '#domain/merchants/merchant.ts'
import { updateRecord } from '#domain/records.ts'
import { updateBodyOf } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import { createMerchantBody, updateMerchantBody } from './body.ts'

export function updateMerchantRoute(app: RouteApp, { sql }: RouteContext): void {
  app.patch(
    '/v1/merchants/:id',
    route({
      area: 'merchants',
      scope: 'merchants:write',
      operation_id: 'updateMerchant',
      summary: 'Update a merchant',
      description: 'Fields that you leave out stay unchanged.',
      params: idParams,
      body: updateBodyOf(updateMerchantBody, createMerchantBody, 'archive the merchant'),
      examples: {
        requests: {
          site: { summary: 'Another site', value: { url: 'https://shop.engines.example' } },
        },
        answer: { url: 'https://shop.engines.example' },
      },
      response: { 200: merchantSchema },
      errors: ['merchant_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id }, body }) =>
      requireResource(
        await updateRecord(sql, 'merchant', { tenant_id, id }, newId(), body ?? {}),
        'merchant_not_found',
      ),
  )
}

// The route that creates a merchant.
import { merchantSchema } from '#domain/merchants/merchant.ts'
import { fillParty } from '#domain/recovered/fill.ts'
import { createRecord, findRecordByKey, recordColumns, type RecordOf } from '#domain/records.ts'
import { acceptWithoutJob } from '../../accept-without-job.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { route } from '../../route.ts'
import { createMerchantBody } from './body.ts'

export function createMerchantRoute(app: RouteApp, context: RouteContext): void {
  const { sql } = context

  app.post(
    '/v1/merchants',
    route({
      area: 'merchants',
      scope: 'merchants:write',
      operation_id: 'createMerchant',
      summary: 'Create a merchant',
      body: createMerchantBody,
      key: 'required',
      examples: {
        requests: {
          merchant: {
            summary: 'With all details',
            value: {
              idempotency_key: 'merchant-17',
              legal_name: 'Analytical Engines Ltd',
              display_name: 'Analytical Engines',
              country: 'GB',
              support_email: 'help@engines.example',
              url: 'https://engines.example',
              metadata: { plan: 'pro' },
            },
          },
        },
      },
      response: { 201: merchantSchema },
      errors: ['idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { idempotency_key: _key, ...columns } = request.body
      return await acceptWithoutJob(context, request, reply, {
        body: request.body,
        step: (requested, { id, event_id }) =>
          createRecord(sql, 'merchant', { ...requested, id, event_id }, columns),
        find: (sent) => findRecordByKey(sql, 'merchant', sent),
        fillIn: (requested, { id, event_id }) =>
          fillParty<RecordOf<'merchant'>>(
            sql,
            'merchant',
            { ...requested, id, event_id },
            { fields: columns, columns: recordColumns(sql, 'merchant') },
          ),
      })
    },
  )
}

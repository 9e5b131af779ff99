// The route that creates a recipient.
import { recipientSchema } from '#domain/recipients/recipient.ts'
import { fillParty } from '#domain/recovered/fill.ts'
import { createRecord, findRecordByKey, recordColumns, type RecordOf } from '#domain/records.ts'
import { acceptWithoutJob } from '../../accept-without-job.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { route } from '../../route.ts'
import { createRecipientBody } from './body.ts'

export function createRecipientRoute(app: RouteApp, context: RouteContext): void {
  const { sql } = context

  app.post(
    '/v1/recipients',
    route({
      area: 'recipients',
      scope: 'recipients:write',
      operation_id: 'createRecipient',
      summary: 'Create a recipient',
      body: createRecipientBody,
      key: 'required',
      examples: {
        requests: {
          account: {
            summary: 'A connected account at the processor',
            value: {
              idempotency_key: 'recipient-17',
              name: 'Grace Hopper',
              email: 'grace@example.com',
              type: 'account',
              currency: 'usd',
              country: 'US',
              destination: 'acct_success',
              metadata: { order: 'A-17' },
            },
          },
          bank_account: {
            summary: 'A bank account, by its token',
            value: {
              idempotency_key: 'recipient-18',
              name: 'Analytical Engines Ltd',
              type: 'bank_account',
              currency: 'gbp',
              country: 'GB',
              destination: 'ba_success',
            },
          },
        },
      },
      response: { 201: recipientSchema },
      errors: ['idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { idempotency_key: _key, ...columns } = request.body
      return await acceptWithoutJob(context, request, reply, {
        body: request.body,
        step: (requested, { id, event_id }) =>
          createRecord(sql, 'recipient', { ...requested, id, event_id }, columns),
        find: (sent) => findRecordByKey(sql, 'recipient', sent),
        fillIn: (requested, { id, event_id }) =>
          fillParty<RecordOf<'recipient'>>(
            sql,
            'recipient',
            { ...requested, id, event_id },
            { fields: columns, columns: recordColumns(sql, 'recipient') },
          ),
      })
    },
  )
}

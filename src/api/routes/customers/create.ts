// The route that creates a customer.
import { createBatcher } from '#core/batch.ts'
import { createCustomers, type CreateCustomer } from '#domain/customers/change.ts'
import { customerSchema, type Customer } from '#domain/customers/customer.ts'
import { customerColumns, findCustomersByKeys } from '#domain/customers/find.ts'
import type { KeyedResource, KeyOnRoute } from '#domain/idempotency.ts'
import { fillParty } from '#domain/recovered/fill.ts'
import { acceptWithoutJob } from '../../accept-without-job.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { route } from '../../route.ts'
import { createCustomerBody } from './body.ts'

export function createCustomerRoute(app: RouteApp, context: RouteContext): void {
  const { sql } = context
  const create = createBatcher<CreateCustomer, Customer | 'key_used'>(
    'create_customer',
    (requests) => createCustomers(sql, requests),
    {
      key: ({ tenant_id, idempotency_key }) => `${tenant_id} ${idempotency_key}`,
    },
  )
  const replayed = createBatcher<KeyOnRoute, KeyedResource<Customer> | undefined>(
    'find_replayed_customer',
    (sent) => findCustomersByKeys(sql, sent),
  )

  app.post(
    '/v1/customers',
    route({
      area: 'customers',
      scope: 'customer:write',
      operation_id: 'createCustomer',
      summary: 'Create a customer',
      body: createCustomerBody,
      key: 'required',
      examples: {
        requests: {
          named: {
            summary: 'With all details',
            value: {
              idempotency_key: 'customer-17',
              name: 'Ada Lovelace',
              email: 'ada@example.com',
              phone: '+442079460000',
              external_id: 'user-17',
              metadata: { plan: 'pro' },
            },
          },
          bare: { summary: 'With only its key', value: { idempotency_key: 'customer-18' } },
        },
      },
      response: { 201: customerSchema },
      errors: ['idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { body } = request
      return await acceptWithoutJob(context, request, reply, {
        body,
        step: (requested, { id, event_id }) => create({ ...body, ...requested, customer_id: id, event_id }),
        find: replayed,
        fillIn: (requested, { id, event_id }) =>
          fillParty<Customer>(
            sql,
            'customer',
            { ...requested, id, event_id },
            { fields: body, columns: customerColumns(sql) },
          ),
      })
    },
  )
}

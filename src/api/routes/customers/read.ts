// Routes that read customers: list and retrieve.
import { z } from 'zod'
import { createBatcher } from '#core/batch.ts'
import { customerSchema, type Customer } from '#domain/customers/customer.ts'
import { findCustomers, listCustomers } from '#domain/customers/find.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { booleanFilter, idParams, nextPage, pageQuery, route } from '../../route.ts'

export function readCustomerRoutes(app: RouteApp, context: RouteContext): void {
  const { sql, runList } = context
  const find = createBatcher<{ tenant_id: string; id: string }, Customer | undefined>(
    'find_customer',
    (requested) => findCustomers(sql, requested),
  )

  app.get(
    '/v1/customers',
    route({
      area: 'customers',
      scope: null,
      operation_id: 'listCustomers',
      summary: 'List customers, newest first',
      querystring: pageQuery.extend({
        email: z
          .string()
          .max(320)
          .optional()
          .meta({ description: 'Filter by email; must match exactly.', example: 'ada@example.com' }),
        external_id: z
          .string()
          .max(255)
          .optional()
          .meta({ description: 'Filter by your own identifier.', example: 'user-17' }),
        deleted: booleanFilter('Also list deleted customers.'),
      }),
      response: { 200: z.array(customerSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const customers = await runList(request, reply, (lists_sql) =>
        listCustomers(lists_sql, tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, customers))
      return customers
    },
  )

  app.get(
    '/v1/customers/:id',
    route({
      area: 'customers',
      scope: null,
      operation_id: 'getCustomer',
      summary: 'Retrieve a customer',
      description: 'Also returns deleted customers, without personal data.',
      params: idParams,
      response: { 200: customerSchema },
      errors: ['customer_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      requireResource(await find({ tenant_id, id }), 'customer_not_found'),
  )
}

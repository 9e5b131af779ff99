// The route that updates a customer.
import { newId } from '#core/ids.ts'
import { updateCustomer } from '#domain/customers/change.ts'
import { customerSchema } from '#domain/customers/customer.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import { updateCustomerBody } from './body.ts'

export function updateCustomerRoute(app: RouteApp, { sql }: RouteContext): void {
  app.patch(
    '/v1/customers/:id',
    route({
      area: 'customers',
      scope: 'customer:write',
      operation_id: 'updateCustomer',
      summary: 'Update a customer',
      description: 'Fields that you leave out stay unchanged; null clears a field.',
      params: idParams,
      body: updateCustomerBody.nullish(),
      examples: {
        requests: {
          email: { summary: 'Another email, no phone', value: { email: 'ada@example.org', phone: null } },
        },
        answer: { email: 'ada@example.org', phone: null },
      },
      response: { 200: customerSchema },
      errors: ['customer_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id }, body }) =>
      requireResource(await updateCustomer(sql, tenant_id, id, newId(), body ?? {}), 'customer_not_found'),
  )
}

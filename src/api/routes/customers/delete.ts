// The route that deletes a customer.
import { newId } from '#core/ids.ts'
import { deleteCustomer } from '#domain/customers/change.ts'
import { customerSchema } from '#domain/customers/customer.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'

export function deleteCustomerRoute(app: RouteApp, { sql }: RouteContext): void {
  const deleting = new Map<string, ReturnType<typeof deleteCustomer>>()

  /**
   * Concurrent deletions of one customer share a statement: a second statement would only occupy a connection while it
   * waits for the row.
   */
  function remove(tenant_id: string, id: string): ReturnType<typeof deleteCustomer> {
    const key = `${tenant_id} ${id}`
    const in_progress = deleting.get(key)
    if (in_progress !== undefined) return in_progress
    const deleted = deleteCustomer(sql, tenant_id, id, newId()).finally(() => deleting.delete(key))
    deleting.set(key, deleted)
    return deleted
  }

  app.delete(
    '/v1/customers/:id',
    route({
      area: 'customers',
      scope: 'customer:write',
      operation_id: 'deleteCustomer',
      summary: 'Delete a customer',
      description:
        'Erases name, email, phone and metadata, and retains the id for the books. Personal data in earlier events is erased soon after.',
      params: idParams,
      response: { 200: customerSchema },
      examples: {
        answer: {
          name: null,
          email: null,
          phone: null,
          metadata: {},
          deleted_at: '2026-11-20T10:15:30.123456Z',
        },
      },
      errors: ['customer_not_found'],
    }),
    async (request) =>
      requireResource(await remove(request.credentials.tenant_id, request.params.id), 'customer_not_found'),
  )
}

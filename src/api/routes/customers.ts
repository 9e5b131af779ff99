// Routes of customers.
import type { RouteApp, RouteContext } from '../context.ts'
import { createCustomerRoute } from './customers/create.ts'
import { deleteCustomerRoute } from './customers/delete.ts'
import { readCustomerRoutes } from './customers/read.ts'
import { updateCustomerRoute } from './customers/update.ts'

export function customerRoutes(app: RouteApp, context: RouteContext): void {
  createCustomerRoute(app, context)
  readCustomerRoutes(app, context)
  updateCustomerRoute(app, context)
  deleteCustomerRoute(app, context)
}

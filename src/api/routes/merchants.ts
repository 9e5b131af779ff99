// Routes of merchants.
import type { RouteApp, RouteContext } from '../context.ts'
import { archiveMerchantRoute } from './merchants/archive.ts'
import { createMerchantRoute } from './merchants/create.ts'
import { readMerchantRoutes } from './merchants/read.ts'
import { updateMerchantRoute } from './merchants/update.ts'

export function merchantRoutes(app: RouteApp, context: RouteContext): void {
  createMerchantRoute(app, context)
  readMerchantRoutes(app, context)
  updateMerchantRoute(app, context)
  archiveMerchantRoute(app, context)
}

// Routes of recoveries of webhook endpoints.
import type { RouteApp, RouteContext } from '../context.ts'
import { createRecoveryRoute } from './webhook-recoveries/create.ts'
import { readRecoveryRoute } from './webhook-recoveries/read.ts'

export function webhookRecoveryRoutes(app: RouteApp, context: RouteContext): void {
  createRecoveryRoute(app, context)
  readRecoveryRoute(app, context)
}

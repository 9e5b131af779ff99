// Routes of suppressions.
import type { RouteApp, RouteContext } from '../context.ts'
import { createSuppressionView } from './suppressions/answers.ts'
import { createSuppressionRoute } from './suppressions/create.ts'
import { liftSuppressionRoute } from './suppressions/lift.ts'
import { readSuppressionRoutes } from './suppressions/read.ts'

export function suppressionRoutes(app: RouteApp, context: RouteContext): void {
  const view = createSuppressionView(context)
  createSuppressionRoute(app, context, view)
  readSuppressionRoutes(app, context, view)
  liftSuppressionRoute(app, context, view)
}

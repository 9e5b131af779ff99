// Routes of suppressions.
import type { RouteApp, RouteContext } from '../context.ts'
import { createShowSuppression } from './suppressions/answers.ts'
import { createSuppressionRoute } from './suppressions/create.ts'
import { liftSuppressionRoute } from './suppressions/lift.ts'
import { readSuppressionRoutes } from './suppressions/read.ts'

export function suppressionRoutes(app: RouteApp, context: RouteContext): void {
  const show = createShowSuppression(context)
  createSuppressionRoute(app, context, show)
  readSuppressionRoutes(app, context, show)
  liftSuppressionRoute(app, context, show)
}

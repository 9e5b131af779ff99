// Routes of webhook endpoints.
import type { RouteApp, RouteContext } from '../context.ts'
import { createEndpointViews } from './webhook-endpoints/answers.ts'
import { endpointBodies } from './webhook-endpoints/body.ts'
import { createEndpointRoute } from './webhook-endpoints/create.ts'
import { deleteEndpointRoute } from './webhook-endpoints/delete.ts'
import { readEndpointRoutes } from './webhook-endpoints/read.ts'
import { rotateSecretRoute } from './webhook-endpoints/rotate.ts'
import { endpointStatsRoute } from './webhook-endpoints/stats.ts'
import { updateEndpointRoute } from './webhook-endpoints/update.ts'
import { createUrlCheck } from './webhook-endpoints/urls.ts'

export function webhookEndpointRoutes(app: RouteApp, context: RouteContext): void {
  const views = createEndpointViews(context)
  const checkUrl = createUrlCheck(context.config)
  const bodies = endpointBodies({ production: context.config.NODE_ENV === 'production' })
  createEndpointRoute(app, context, views, checkUrl, bodies)
  readEndpointRoutes(app, context, views)
  updateEndpointRoute(app, context, views, checkUrl, bodies)
  deleteEndpointRoute(app, context, views)
  rotateSecretRoute(app, context, views)
  endpointStatsRoute(app, context)
}

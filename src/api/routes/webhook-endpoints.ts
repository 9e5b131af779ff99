// Routes of webhook endpoints.
import type { RouteApp, RouteContext } from '../context.ts'
import { createEndpointAnswers } from './webhook-endpoints/answers.ts'
import { createEndpointRoute } from './webhook-endpoints/create.ts'
import { deleteEndpointRoute } from './webhook-endpoints/delete.ts'
import { readEndpointRoutes } from './webhook-endpoints/read.ts'
import { rotateSecretRoute } from './webhook-endpoints/rotate.ts'
import { endpointStatsRoute } from './webhook-endpoints/stats.ts'
import { updateEndpointRoute } from './webhook-endpoints/update.ts'
import { createUrlCheck } from './webhook-endpoints/urls.ts'

export function webhookEndpointRoutes(app: RouteApp, context: RouteContext): void {
  const answers = createEndpointAnswers(context)
  const checkUrl = createUrlCheck(context.config)
  createEndpointRoute(app, context, answers, checkUrl)
  readEndpointRoutes(app, context, answers)
  updateEndpointRoute(app, context, answers, checkUrl)
  deleteEndpointRoute(app, context, answers)
  rotateSecretRoute(app, context, answers)
  endpointStatsRoute(app, context)
}

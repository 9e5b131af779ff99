// Routes of deliveries to webhook endpoints: deliveries of events, and tests.
import type { RouteApp, RouteContext } from '../context.ts'
import { readDeliveryRoutes } from './webhook-deliveries/read.ts'
import { replayDeliveryRoute } from './webhook-deliveries/replay.ts'
import { testEndpointRoute } from './webhook-deliveries/test.ts'

export function webhookDeliveryRoutes(app: RouteApp, context: RouteContext): void {
  readDeliveryRoutes(app, context)
  testEndpointRoute(app, context)
  replayDeliveryRoute(app, context)
}

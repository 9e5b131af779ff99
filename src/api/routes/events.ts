// Routes of events: the feed, a single event, and the events of a payment.
import type { RouteApp, RouteContext } from '../context.ts'
import { createEventViews } from '../event-answers.ts'
import { feedRoute } from './events/feed.ts'
import { readEventRoutes } from './events/read.ts'

export function eventRoutes(app: RouteApp, context: RouteContext): void {
  const views = createEventViews(context)
  feedRoute(app, context, views)
  readEventRoutes(app, context, views)
}

// Routes of recipients.
import type { RouteApp, RouteContext } from '../context.ts'
import { archiveRecipientRoute } from './recipients/archive.ts'
import { createRecipientRoute } from './recipients/create.ts'
import { readRecipientRoutes } from './recipients/read.ts'
import { updateRecipientRoute } from './recipients/update.ts'

export function recipientRoutes(app: RouteApp, context: RouteContext): void {
  createRecipientRoute(app, context)
  readRecipientRoutes(app, context)
  updateRecipientRoute(app, context)
  archiveRecipientRoute(app, context)
}

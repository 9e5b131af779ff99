// Routes of messages.
import type { Lanes } from '#core/batch.ts'
import type { RouteApp, RouteContext } from '../context.ts'
import { createMessageReader } from './messages/answers.ts'
import { createRequesters } from './messages/requester.ts'
import { batchRoutes } from './messages/batch.ts'
import { cancelMessageRoute } from './messages/cancel.ts'
import { readMessageRoutes } from './messages/read.ts'
import { sendRoutes } from './messages/send.ts'
import { createEmailWork, createSmsWork } from './messages/sending.ts'

export function messageRoutes(app: RouteApp, context: RouteContext): void {
  const reader = createMessageReader(context)
  // The messages of one lane are written by one statement at a time. The channels share the lanes, because emails and
  // SMS of a tenant lock the same counter row.
  const lanes: Lanes = new Map()
  const works = {
    requesterOf: createRequesters(context.sql),
    email: createEmailWork(context, reader, lanes),
    sms: createSmsWork(context, reader, lanes),
  }
  sendRoutes(app, context, works)
  batchRoutes(app, context, works)
  readMessageRoutes(app, context, reader)
  cancelMessageRoute(app, context, reader)
}

// Routes of messages.
import type { Lanes } from '#core/batch.ts'
import type { RouteApp, RouteContext } from '../context.ts'
import { createMessageAnswers } from './messages/answers.ts'
import { createAskers } from './messages/asker.ts'
import { batchRoutes } from './messages/batch.ts'
import { cancelMessageRoute } from './messages/cancel.ts'
import { readMessageRoutes } from './messages/read.ts'
import { sendRoutes } from './messages/send.ts'
import { sendingEmail, sendingSms } from './messages/sending.ts'

export function messageRoutes(app: RouteApp, context: RouteContext): void {
  const answers = createMessageAnswers(context)
  // All messages of a tenant lock the row that counts them, of whichever channel.
  const lanes: Lanes = new Map()
  const sendings = {
    askerOf: createAskers(context.sql),
    email: sendingEmail(context, answers, lanes),
    sms: sendingSms(context, answers, lanes),
  }
  sendRoutes(app, context, sendings)
  batchRoutes(app, context, sendings)
  readMessageRoutes(app, context, answers)
  cancelMessageRoute(app, context, answers)
}

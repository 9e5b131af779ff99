// Routes of messages.
import type { FastifyInstance } from 'fastify'
import type { RouteContext } from '../context.ts'
import { createMessageAnswers } from './messages/answers.ts'
import { batchRoutes } from './messages/batch.ts'
import { cancelMessageRoute } from './messages/cancel.ts'
import { readMessageRoutes } from './messages/read.ts'
import { sendRoutes } from './messages/send.ts'
import { sendingEmail, sendingSms } from './messages/sending.ts'

export function messageRoutes(app: FastifyInstance, context: RouteContext): void {
  const answers = createMessageAnswers(context)
  const sendings = {
    email: sendingEmail(context, answers),
    sms: sendingSms(context, answers),
  }
  sendRoutes(app, context, sendings)
  batchRoutes(app, context, sendings)
  readMessageRoutes(app, context, answers)
  cancelMessageRoute(app, context, answers)
}

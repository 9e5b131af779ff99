// Routes of payments.
import type { FastifyInstance } from 'fastify'
import type { RouteContext } from '../context.ts'
import { actionRoutes } from './actions.ts'
import { createRoute } from './create.ts'
import { createPaymentAnswers } from './answers.ts'
import { readRoutes } from './read.ts'

export function paymentRoutes(app: FastifyInstance, context: RouteContext): void {
  const answers = createPaymentAnswers(context)
  createRoute(app, context, answers)
  readRoutes(app, context, answers)
  actionRoutes(app, context, answers)
}

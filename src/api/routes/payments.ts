// Routes of payments.
import type { FastifyInstance } from 'fastify'
import type { RouteContext } from '../context.ts'
import { actionRoutes } from './payments/actions.ts'
import { createRoute } from './payments/create.ts'
import { createPaymentAnswers } from './payments/answers.ts'
import { readRoutes } from './payments/read.ts'

export function paymentRoutes(app: FastifyInstance, context: RouteContext): void {
  const answers = createPaymentAnswers(context)
  createRoute(app, context, answers)
  readRoutes(app, context, answers)
  actionRoutes(app, context, answers)
}

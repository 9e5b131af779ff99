// Routes of verifications.
import type { FastifyInstance } from 'fastify'
import type { RouteContext } from '../context.ts'
import { verificationActionRoutes } from './verifications/actions.ts'
import { createVerificationAnswers } from './verifications/answers.ts'
import { createVerificationRoute } from './verifications/create.ts'
import { readVerificationRoutes } from './verifications/read.ts'

export function verificationRoutes(app: FastifyInstance, context: RouteContext): void {
  const answers = createVerificationAnswers(context)
  createVerificationRoute(app, context, answers)
  readVerificationRoutes(app, context, answers)
  verificationActionRoutes(app, context, answers)
}

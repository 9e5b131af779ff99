// Routes of verifications.
import type { FastifyInstance } from 'fastify'
import type { RouteContext } from '../context.ts'
import { kycActionRoutes } from './verifications/actions.ts'
import { createKycAnswers } from './verifications/answers.ts'
import { createKycRoute } from './verifications/create.ts'
import { readKycRoutes } from './verifications/read.ts'

export function kycRoutes(app: FastifyInstance, context: RouteContext): void {
  const answers = createKycAnswers(context)
  createKycRoute(app, context, answers)
  readKycRoutes(app, context, answers)
  kycActionRoutes(app, context, answers)
}

// Routes of verifications.
import type { RouteApp, RouteContext } from '../context.ts'
import { createVerificationAnswers } from './verifications/answers.ts'
import { createVerificationRoute } from './verifications/create.ts'
import { decideVerificationRoute } from './verifications/decide.ts'
import { linkVerificationRoute } from './verifications/link.ts'
import { readVerificationRoutes } from './verifications/read.ts'

export function verificationRoutes(app: RouteApp, context: RouteContext): void {
  const answers = createVerificationAnswers(context)
  createVerificationRoute(app, context, answers)
  readVerificationRoutes(app, context, answers)
  linkVerificationRoute(app, context, answers)
  decideVerificationRoute(app, context)
}

// Routes of verifications.
import type { RouteApp, RouteContext } from '../context.ts'
import { createVerificationReader } from './verifications/answers.ts'
import { createVerificationRoute } from './verifications/create.ts'
import { decideVerificationRoute } from './verifications/decide.ts'
import { linkVerificationRoute } from './verifications/link.ts'
import { readVerificationRoutes } from './verifications/read.ts'

export function verificationRoutes(app: RouteApp, context: RouteContext): void {
  const reader = createVerificationReader(context)
  createVerificationRoute(app, context, reader)
  readVerificationRoutes(app, context, reader)
  linkVerificationRoute(app, context, reader)
  decideVerificationRoute(app, context)
}

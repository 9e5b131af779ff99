// Routes of payments.
import type { RouteApp, RouteContext } from '../context.ts'
import { createPaymentAnswers } from './payments/answers.ts'
import { cancelPaymentRoute } from './payments/cancel.ts'
import { capturePaymentRoute } from './payments/capture.ts'
import { createPaymentRoute } from './payments/create.ts'
import { readPaymentRoutes } from './payments/read.ts'

export function paymentRoutes(app: RouteApp, context: RouteContext): void {
  const answers = createPaymentAnswers(context)
  createPaymentRoute(app, context, answers)
  readPaymentRoutes(app, context, answers)
  capturePaymentRoute(app, context, answers)
  cancelPaymentRoute(app, context, answers)
}

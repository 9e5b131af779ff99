// Routes of payments.
import type { RouteApp, RouteContext } from '../context.ts'
import { createPaymentReader } from './payments/answers.ts'
import { cancelPaymentRoute } from './payments/cancel.ts'
import { capturePaymentRoute } from './payments/capture.ts'
import { createPaymentRoute } from './payments/create.ts'
import { readPaymentRoutes } from './payments/read.ts'

export function paymentRoutes(app: RouteApp, context: RouteContext): void {
  const reader = createPaymentReader(context)
  createPaymentRoute(app, context, reader)
  readPaymentRoutes(app, context, reader)
  capturePaymentRoute(app, context, reader)
  cancelPaymentRoute(app, context, reader)
}

// The registry of routes, by resource, in the order of the documentation.
import type { RouteApp, RouteContext } from '../context.ts'
import { aiTaskRoutes } from './ai-tasks.ts'
import { customerRoutes } from './customers.ts'
import { disputeRoutes } from './disputes.ts'
import { eventRoutes } from './events.ts'
import { idempotencyKeyRoutes } from './idempotency-keys.ts'
import { merchantRoutes } from './merchants.ts'
import { messageRoutes } from './messages.ts'
import { paymentRoutes } from './payments.ts'
import { payoutRoutes } from './payouts.ts'
import { recipientRoutes } from './recipients.ts'
import { reconciliationRoutes } from './reconciliation.ts'
import { refundRoutes } from './refunds.ts'
import { suppressionRoutes } from './suppressions.ts'
import { templateRoutes } from './templates.ts'
import { testClockRoutes } from './test-clock.ts'
import { topUpRoutes } from './top-ups.ts'
import { verificationRoutes } from './verifications.ts'
import { walletRoutes } from './wallet.ts'
import { webhookDeliveryRoutes } from './webhook-deliveries.ts'
import { webhookEndpointRoutes } from './webhook-endpoints.ts'
import { webhookRecoveryRoutes } from './webhook-recoveries.ts'

export const ROUTES: ((app: RouteApp, context: RouteContext) => void)[] = [
  customerRoutes,
  merchantRoutes,
  recipientRoutes,
  paymentRoutes,
  refundRoutes,
  disputeRoutes,
  payoutRoutes,
  walletRoutes,
  topUpRoutes,
  verificationRoutes,
  messageRoutes,
  templateRoutes,
  suppressionRoutes,
  aiTaskRoutes,
  eventRoutes,
  webhookEndpointRoutes,
  webhookRecoveryRoutes,
  webhookDeliveryRoutes,
  reconciliationRoutes,
  idempotencyKeyRoutes,
  testClockRoutes,
]

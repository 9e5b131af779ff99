// The registry of routes: each noun adds its own, in the order of the documentation.
import type { FastifyInstance } from 'fastify'
import type { RouteContext } from '../context.ts'
import { customerRoutes } from './customers.ts'
import { idempotencyKeyRoutes } from './idempotency-keys.ts'
import { paymentRoutes } from './payments.ts'
import { reconciliationRoutes } from './reconciliation.ts'
import { refundRoutes } from './refunds.ts'
import { topUpRoutes } from './top-ups.ts'
import { walletRoutes } from './wallet.ts'

export const ROUTES: ((app: FastifyInstance, context: RouteContext) => void)[] = [
  customerRoutes,
  paymentRoutes,
  refundRoutes,
  walletRoutes,
  topUpRoutes,
  reconciliationRoutes,
  idempotencyKeyRoutes,
]

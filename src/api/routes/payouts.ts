// Routes of payouts.
import { findPayouts } from '#domain/payouts/find.ts'
import type { Payout } from '#domain/payouts/payout.ts'
import { batchedFind, type ResourceReader } from '../accept.ts'
import type { RouteApp, RouteContext } from '../context.ts'
import { cancelPayoutRoute } from './payouts/cancel.ts'
import { createPayoutRoute } from './payouts/create.ts'
import { failPayoutRoute } from './payouts/fail.ts'
import { readPayoutRoutes } from './payouts/read.ts'

export function payoutRoutes(app: RouteApp, context: RouteContext): void {
  const { sql } = context
  const reader: ResourceReader<Payout> = {
    find: batchedFind('find_payout', (requested) => findPayouts(sql, requested), 'payout_not_found'),
    pathOf: ({ id }) => `/v1/payouts/${id}`,
    idsOf: ({ id }) => ({ payout_id: id }),
  }
  createPayoutRoute(app, context, reader)
  readPayoutRoutes(app, context, reader)
  cancelPayoutRoute(app, context, reader)
  failPayoutRoute(app, context, reader)
}

// Routes of refunds.
import { findRefunds } from '#domain/refunds/find.ts'
import type { Refund } from '#domain/refunds/refund.ts'
import { batchedFind, type ResourceReader } from '../accept.ts'
import type { RouteContext, RouteApp } from '../context.ts'
import { createRefundRoute } from './refunds/create.ts'
import { readRefundRoutes } from './refunds/read.ts'

export function refundRoutes(app: RouteApp, context: RouteContext): void {
  const { sql } = context
  const reader: ResourceReader<Refund> = {
    find: batchedFind('find_refund', (requested) => findRefunds(sql, requested), 'refund_not_found'),
    pathOf: ({ id }) => `/v1/refunds/${id}`,
    idsOf: ({ id, payment_id }) => ({ payment_id, refund_id: id }),
  }
  createRefundRoute(app, context, reader)
  readRefundRoutes(app, context, reader)
}

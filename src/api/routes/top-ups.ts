// Routes of top-ups.
import { findTopUps } from '#domain/top-ups/find.ts'
import type { TopUp } from '#domain/top-ups/top-up.ts'
import { batchedFind, type ResourceReader } from '../accept.ts'
import type { RouteContext, RouteApp } from '../context.ts'
import { createTopUpRoute } from './top-ups/create.ts'
import { readTopUpRoutes } from './top-ups/read.ts'

export function topUpRoutes(app: RouteApp, context: RouteContext): void {
  const { sql } = context
  const reader: ResourceReader<TopUp> = {
    find: batchedFind('find_top_up', (requested) => findTopUps(sql, requested), 'top_up_not_found'),
    pathOf: ({ id }) => `/v1/wallet/top_ups/${id}`,
    idsOf: ({ id }) => ({ top_up_id: id }),
  }
  createTopUpRoute(app, context, reader)
  readTopUpRoutes(app, context, reader)
}

// Routes of top-ups.
import { findTopUps } from '#domain/top-ups/find.ts'
import type { TopUp } from '#domain/top-ups/top-up.ts'
import { finding, type Answers } from '../accept.ts'
import type { RouteContext, RouteApp } from '../context.ts'
import { createTopUpRoute } from './top-ups/create.ts'
import { readTopUpRoutes } from './top-ups/read.ts'

export function topUpRoutes(app: RouteApp, context: RouteContext): void {
  const { sql } = context
  const answers: Answers<TopUp> = {
    find: finding('find_top_up', (asked) => findTopUps(sql, asked), 'top_up_not_found'),
    pathOf: ({ id }) => `/v1/wallet/top_ups/${id}`,
    idsOf: ({ id }) => ({ top_up_id: id }),
  }
  createTopUpRoute(app, context, answers)
  readTopUpRoutes(app, context, answers)
}

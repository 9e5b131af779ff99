// Routes of payouts.
import type { FastifyInstance } from 'fastify'
import { batcher } from '#core/batch.ts'
import { AppError } from '#core/errors.ts'
import type { AskedFor, Found } from '#domain/jobs/found.ts'
import { findPayouts } from '#domain/payouts/find.ts'
import type { Payout } from '#domain/payouts/payout.ts'
import type { Answers } from '../accept.ts'
import type { RouteContext } from '../context.ts'
import { payoutActionRoutes } from './payouts/actions.ts'
import { createPayoutRoute } from './payouts/create.ts'
import { readPayoutRoutes } from './payouts/read.ts'

export function payoutRoutes(app: FastifyInstance, context: RouteContext): void {
  const { sql } = context
  const read = batcher<AskedFor, Found<Payout> | undefined>('find_payout', (asked) => findPayouts(sql, asked))
  const answers: Answers<Payout> = {
    async find(asked) {
      const found = await read(asked)
      if (found === undefined) throw new AppError('payout_not_found')
      return found
    },
    pathOf: ({ id }) => `/v1/payouts/${id}`,
    idsOf: ({ id }) => ({ payout_id: id }),
  }
  createPayoutRoute(app, context, answers)
  readPayoutRoutes(app, context, answers)
  payoutActionRoutes(app, context, answers)
}

// Operations, over all tenants: for operators only.
import type { FastifyInstance } from 'fastify'
import { createLists } from '#api/lists.ts'
import { asOperator, type DashboardContext } from '../../context.ts'
import { OPERATORS_CONNECTIONS, readInTurn } from '../../reads.ts'
import { wholeAuditRoutes } from '../audit-log.ts'
import { actRoutes } from './acts.ts'
import { bullBoardRoutes } from './bull-board.ts'
import { figureRoutes } from './figures.ts'
import { jobRoutes } from './jobs.ts'
import { pauseRoutes } from './pauses.ts'
import { proposalRoutes } from './proposals.ts'
import { streamRoutes } from './stream.ts'

type Routes = (app: FastifyInstance, context: DashboardContext) => void
const OPERATIONS_ROUTES: Routes[] = [
  figureRoutes,
  jobRoutes,
  actRoutes,
  pauseRoutes,
  proposalRoutes,
  wholeAuditRoutes,
]
/** They answer for as long as somebody listens, or read nothing of ours. */
const OTHER_ROUTES: Routes[] = [streamRoutes, bullBoardRoutes]

export function operationsRoutes(root: FastifyInstance, context: DashboardContext): void {
  const lists = createLists({ long: context.operators }, OPERATORS_CONNECTIONS, context.limit)
  root.register(async (app) => {
    app.addHook('preHandler', async (request) => {
      await context.signedIn(request)
      asOperator(request)
    })
    for (const add of OTHER_ROUTES) add(app, context)
    app.register(async (reads) => {
      readInTurn(reads, lists, (request) => {
        const { user_id } = asOperator(request)
        return { key_id: user_id, tenant_id: user_id }
      })
      for (const add of OPERATIONS_ROUTES) add(reads, context)
    })
  })
}

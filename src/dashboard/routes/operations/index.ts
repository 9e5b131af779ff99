// Operations, over all tenants: for operators only.
import type { FastifyInstance } from 'fastify'
import { asOperator, type DashboardContext } from '../../context.ts'
import { wholeAuditRoutes } from '../audit-log.ts'
import { actRoutes } from './acts.ts'
import { bullBoardRoutes } from './bull-board.ts'
import { figureRoutes } from './figures.ts'
import { jobRoutes } from './jobs.ts'
import { pauseRoutes } from './pauses.ts'
import { streamRoutes } from './stream.ts'

const OPERATIONS_ROUTES: ((app: FastifyInstance, context: DashboardContext) => void)[] = [
  figureRoutes,
  jobRoutes,
  actRoutes,
  pauseRoutes,
  streamRoutes,
  bullBoardRoutes,
  wholeAuditRoutes,
]

export function operationsRoutes(root: FastifyInstance, context: DashboardContext): void {
  root.register(async (app) => {
    app.addHook('preHandler', async (request) => {
      await context.signedIn(request)
      asOperator(request)
    })
    for (const add of OPERATIONS_ROUTES) add(app, context)
  })
}

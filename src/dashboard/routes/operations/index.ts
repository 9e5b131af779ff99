// Operations over all tenants, for operators only.
import type { FastifyInstance } from 'fastify'
import { createListRunner } from '#api/lists.ts'
import { requireOperator, type DashboardContext } from '../../context.ts'
import { OPERATOR_CONNECTIONS, limitReads } from '../../reads.ts'
import { installationAuditRoutes } from '../audit-log.ts'
import { actRoutes } from './acts.ts'
import { bullBoardRoutes } from './bull-board.ts'
import { figureRoutes } from './figures.ts'
import { jobRoutes } from './jobs.ts'
import { pauseRoutes } from './pauses.ts'
import { proposalRoutes } from './proposals.ts'
import { recoveryRoutes } from './recovery.ts'
import { streamRoutes } from './stream.ts'

type Routes = (app: FastifyInstance, context: DashboardContext) => void
const OPERATIONS_ROUTES: Routes[] = [
  figureRoutes,
  jobRoutes,
  actRoutes,
  pauseRoutes,
  proposalRoutes,
  recoveryRoutes,
  installationAuditRoutes,
]
/** Routes without read limits: the stream stays open, and bull-board does not read the database. */
const UNLIMITED_ROUTES: Routes[] = [streamRoutes, bullBoardRoutes]

export function operationsRoutes(root: FastifyInstance, context: DashboardContext): void {
  const runList = createListRunner({ long: context.operatorSql }, OPERATOR_CONNECTIONS, context.limit)
  root.register(async (app) => {
    app.addHook('preHandler', async (request) => {
      await context.requireSession(request)
      requireOperator(request)
    })
    for (const add of UNLIMITED_ROUTES) add(app, context)
    app.register(async (reads) => {
      limitReads(reads, runList, (request) => {
        const { user_id } = requireOperator(request)
        return { key_id: user_id, tenant_id: user_id }
      })
      for (const add of OPERATIONS_ROUTES) add(reads, context)
    })
  })
}

// The routes of the dashboard that /v1 does not have: one line each.
import type { FastifyInstance } from 'fastify'
import type { DashboardContext } from '../context.ts'
import { auditLogRoutes } from './audit-log.ts'
import { eventFigureRoutes } from './events.ts'
import { invitationRoutes } from './invitations.ts'
import { keyRoutes } from './keys.ts'
import { memberRoutes } from './members.ts'
import { operationsRoutes } from './operations/index.ts'
import { overviewRoutes } from './overview.ts'
import { sessionRoutes } from './session.ts'
import { signInRoutes } from './sign-in.ts'

export const DASHBOARD_ROUTES: ((app: FastifyInstance, context: DashboardContext) => void)[] = [
  signInRoutes,
  sessionRoutes,
  invitationRoutes,
  keyRoutes,
  memberRoutes,
  auditLogRoutes,
  overviewRoutes,
  eventFigureRoutes,
  operationsRoutes,
]

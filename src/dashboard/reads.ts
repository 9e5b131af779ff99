// Limits the reads of the dashboard's own routes by user and tenant, like the lists of the API.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ListRequest, RunList } from '#api/lists.ts'
import { requireVariable, type Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { connectDatabase } from '#core/pool.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The connection of a read. Set when the read starts. */
    sql: Sql
  }
}

/** Number of connections reserved for operators, who share them fairly. */
export const OPERATOR_CONNECTIONS = 3
const OPERATOR_STATEMENT_TIMEOUT_MS = 2_000

/** Opens the connections reserved for operators. The connections close with `ends`. */
export function connectOperatorSql(config: Config, ends: AsyncDisposableStack): Sql {
  const sql = connectDatabase(requireVariable(config, 'DATABASE_URL'), {
    max: OPERATOR_CONNECTIONS,
    application_name: 'sluice-dashboard-operators',
    pool_name: 'operators',
    statement_timeout_ms: OPERATOR_STATEMENT_TIMEOUT_MS,
  })
  ends.defer(() => sql.end({ timeout: 5 }))
  return sql
}

/**
 * Runs each GET route of `app` within the limits of `runList`, which provides the connection `request.sql`.
 * `credentialsOf`: the user and the tenant of an admitted request. A read that exceeds the timeout of the quick lane
 * (api/lists.ts) restarts in the long lane.
 */
export function limitReads(
  app: FastifyInstance,
  runList: RunList,
  credentialsOf: (request: FastifyRequest) => ListRequest['credentials'],
): void {
  app.addHook('onRoute', (route) => {
    if (route.method !== 'GET' && route.method !== 'HEAD') return
    const { handler } = route
    route.handler = async function (request, reply) {
      const { raw } = request
      return await runList({ raw, credentials: credentialsOf(request) }, reply, async (sql) => {
        request.sql = sql
        return await handler.call(this, request, reply)
      })
    }
  })
}

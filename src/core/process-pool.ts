// The main pool of a process.
import { requireVariable, type Config } from './config.ts'
import type { Sql } from './db.ts'
import { AppError } from './errors.ts'
import type { Log } from './log.ts'
import { connectDatabase, countPendingStatements } from './pool.ts'

/** The maximum number of running and waiting statements for each connection; further requests are refused. */
const STATEMENTS_PER_CONNECTION = 500

/** Opens the pool of a process. In production, warns if the user has more rights than a process needs. */
export function connectConfiguredDatabase(config: Config, application_name: string, log: Log): Sql {
  const sql = connectDatabase(requireVariable(config, 'DATABASE_URL'), {
    max: config.DATABASE_POOL,
    application_name,
    pool_name: 'main',
  })
  if (config.NODE_ENV === 'production') void warnOfRights(sql, log)
  return sql
}

/** Opens a connection for the checks of the server: they must not wait behind requests. */
export function connectForChecks(config: Config, name: string): Sql {
  return connectDatabase(requireVariable(config, 'DATABASE_URL'), {
    max: 1,
    application_name: `${name}-checks`,
  })
}

/** Ends pools; their running statements have 5 s to finish. */
export async function endPools(...pools: Sql[]): Promise<void> {
  await Promise.all(pools.map((pool) => pool.end({ timeout: 5 })))
}

/**
 * Warns if the connected user owns the tables or is a superuser: a process needs only the rights of its role. Never
 * rejects.
 */
export async function warnOfRights(sql: Sql, log: { warn: (message: string) => void }): Promise<void> {
  const owned = await sql`
    select from pg_class where oid = to_regclass('jobs') and pg_has_role(relowner, 'member')`.catch(() => [])
  if (owned.length > 0)
    log.warn(
      'this process connects as an owner of the tables: use a database user in one of the roles that the migrations create',
    )
}

/** Throws `overloaded` if too many statements of the process wait for the database. */
export function refuseIfOverloaded(sql: Sql, { DATABASE_POOL: max }: Config): void {
  if (countPendingStatements(sql) > max * STATEMENTS_PER_CONNECTION)
    throw new AppError('overloaded', {
      limited_by: 'statements',
      message: 'Too many statements wait for the database. Nothing was accepted: retry later.',
    })
}

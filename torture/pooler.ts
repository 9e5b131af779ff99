// PgBouncer between the processes and PostgreSQL, for `--pooler`.
import type { Sql } from '#core/db.ts'
import { startPgBouncer, type PgBouncer } from '#test/pgbouncer.ts'

/**
 * The user of all processes. PgBouncer cannot set parameters for them, so `migrate` makes them settings of their user,
 * which may not be a superuser.
 */
const USER = 'torture_process'
const PASSWORD = 'torture'
/** Fewer than the pools of the processes have together, and enough for the load. */
const SERVER_CONNECTIONS = '30'

/** Starts PgBouncer for the owner of the tables, and for the user of the processes once `createPooledUser` has run. */
export async function startPooler(database_url: string): Promise<PgBouncer> {
  const { username, password } = new URL(database_url)
  const users = { [username]: decodeURIComponent(password), [USER]: PASSWORD }
  return await startPgBouncer(database_url, users, { default_pool_size: SERVER_CONNECTIONS })
}

/** Creates the user of the processes, after the first migration. The next migration writes its settings. */
export async function createPooledUser(sql: Sql): Promise<void> {
  await sql.unsafe(
    `create role ${USER} login password '${PASSWORD}' in role sluice_api, sluice_webhooks, sluice_worker, sluice_dashboard`,
  )
}

/** The URL with the user of the processes. */
export function asPooledUser(database_url: string): string {
  return Object.assign(new URL(database_url), { username: USER, password: PASSWORD }).href
}

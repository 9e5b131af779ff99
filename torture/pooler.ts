// PgBouncer between the processes and PostgreSQL, for `--pooler`.
import type { Sql } from '#core/db.ts'
import { startPgBouncer, type PgBouncer } from '#test/pgbouncer.ts'

/**
 * PgBouncer cannot set parameters for the processes, so `migrate` makes them settings of their users, which may not be
 * superusers. Each process has its own user: policies of all roles of a user apply to it together.
 */
const PROCESSES = ['api', 'webhooks', 'worker'] as const
type PooledProcess = (typeof PROCESSES)[number]
const PASSWORD = 'torture'
/** For each user. Fewer than the pools of its processes have together, and enough for the load. */
const SERVER_CONNECTIONS = '15'

const userOf = (process: PooledProcess) => `torture_${process}`

/** Starts PgBouncer for the owner of the tables, and for the users of the processes once `createPooledUsers` has run. */
export async function startPooler(database_url: string): Promise<PgBouncer> {
  const { username, password } = new URL(database_url)
  const users = Object.fromEntries(PROCESSES.map((process) => [userOf(process), PASSWORD]))
  return await startPgBouncer(
    database_url,
    { ...users, [username]: decodeURIComponent(password) },
    { default_pool_size: SERVER_CONNECTIONS },
  )
}

/** Creates the users of the processes, after the first migration. The next migration writes their settings. */
export async function createPooledUsers(sql: Sql): Promise<void> {
  for (const process of PROCESSES)
    await sql.unsafe(`create role ${userOf(process)} login password '${PASSWORD}' in role sluice_${process}`)
}

/** The URL with the user of a process. */
export function asPooledUser(database_url: string, process: PooledProcess): string {
  return Object.assign(new URL(database_url), { username: userOf(process), password: PASSWORD }).href
}

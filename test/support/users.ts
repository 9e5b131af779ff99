// Database users of the processes. Each user is a member of one role, because policies of all roles of a user apply to
// it together, and owns nothing, as in production.

const ROLES = ['api', 'webhooks', 'worker', 'dashboard', 'reader'] as const
export type ProcessRole = (typeof ROLES)[number]

const PREFIX = 'sluice_test_'
const PASSWORD = 'test'

/**
 * Creates the users on the server; the migrations have created the roles. Call it once per server, from one connection
 * at a time.
 */
export async function createUsers(sql: { unsafe(statement: string): PromiseLike<unknown> }): Promise<void> {
  for (const role of ROLES)
    await sql.unsafe(`create role ${PREFIX}${role} login password '${PASSWORD}' in role sluice_${role}`)
}

/** The passwords of the users of the processes and of the user in the URL, by name. */
export function passwordsOf(database_url: string): Record<string, string> {
  const { username, password } = new URL(database_url)
  return {
    ...Object.fromEntries(ROLES.map((role) => [`${PREFIX}${role}`, PASSWORD])),
    [username]: decodeURIComponent(password),
  }
}

/** The URL of the same database with the user of this process. */
export function urlAs(role: ProcessRole, database_url: string): string {
  const url = new URL(database_url)
  url.username = `${PREFIX}${role}`
  url.password = PASSWORD
  return url.href
}

/** The variables of a process, with the user of the process in DATABASE_URL. */
export function asUser(role: ProcessRole, env: Record<string, string>): Record<string, string> {
  return { ...env, DATABASE_URL: urlAs(role, env['DATABASE_URL']!) }
}

/**
 * The users separate the statements of the processes from the statements of the tests, which run with the owner of the
 * tables.
 */
export const USERS_OF_PROCESSES = ['api', 'webhooks', 'worker', 'dashboard'].map((role) => `${PREFIX}${role}`)

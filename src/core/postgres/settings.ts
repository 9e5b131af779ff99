// The settings of every session. A direct connection sends them when it starts. PgBouncer refuses them there, so
// `npm run migrate` also makes them settings of the processes' users in this database.
import type postgres from 'postgres'
import { databaseCode, type Sql } from '../db.ts'

/** In the units and spelling of `pg_settings.setting`. */
export const SESSION_SETTINGS = {
  statement_timeout: '12000',
  // A transaction of many statements ends too: an old snapshot keeps vacuum from removing the dead rows of all tables.
  transaction_timeout: '30000',
  // Otherwise a setting of the server or the user could hide the warning that a commit did not wait for its synchronous
  // standby: see `unreplicated.ts`.
  client_min_messages: 'warning',
  // Every statement reads by key or along an index, and these settings force such plans. Otherwise a plan that was made
  // while a table was empty would stay with the prepared statement and scan the full table later.
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  random_page_cost: '0.1',
  seq_page_cost: '0.1',
  jit: 'off',
} as const

/**
 * Of direct connections, also those of the queue: while idle, PostgreSQL notices within 90 s that the host is gone.
 * Its connections would count against the limit of the user for two hours.
 */
export const KEEPALIVE_SETTINGS = {
  tcp_keepalives_idle: '60',
  tcp_keepalives_interval: '10',
  tcp_keepalives_count: '3',
} as const

const SETTING_NAMES = Object.keys(SESSION_SETTINGS) as (keyof typeof SESSION_SETTINGS)[]
/** Their members are the users of processes. People and reports, who use `sluice_reader`, keep their own settings. */
export const PROCESS_ROLES = ['sluice_api', 'sluice_webhooks', 'sluice_worker', 'sluice_dashboard']

/**
 * Writes the settings for each login user that inherits the rights of a process: settings of a group role are not
 * inherited. Returns the users that have only some of the settings and that the current user may not alter. A user
 * without any is not returned: only processes behind PgBouncer need settings, and they check them at their start.
 */
export async function writeUserSettings(tx: postgres.TransactionSql): Promise<string[]> {
  const users = await tx<{ name: string; database: string; settings: string[] }[]>`
    select u.rolname as name, current_database() as database, coalesce(s.setconfig, '{}') as settings
    from pg_roles u
    left join pg_db_role_setting s on s.setrole = u.oid
      and s.setdatabase = (select oid from pg_database where datname = current_database())
    where u.rolcanlogin and not u.rolsuper and u.rolname <> current_user
      and exists (select from pg_roles r where r.rolname in ${tx(PROCESS_ROLES)} and pg_has_role(u.oid, r.oid, 'usage'))
    order by u.rolname`
  const skipped: string[] = []
  for (const { name, database, settings } of users) {
    const missing = SETTING_NAMES.filter(
      (setting) => !settings.includes(`${setting}=${SESSION_SETTINGS[setting]}`),
    )
    if (missing.length === 0) continue
    const of = `role ${quoted(name)} in database ${quoted(database)}`
    const statements = missing.map((setting) => `alter ${of} set ${setting} = '${SESSION_SETTINGS[setting]}'`)
    await tx
      .savepoint(async (step) => void (await step.unsafe(statements.join(';\n'))))
      .catch((error: unknown) => {
        if (databaseCode(error) !== '42501') throw error
        if (missing.length < SETTING_NAMES.length) skipped.push(name)
      })
  }
  return skipped
}

/** What is missing in the settings of a session behind PgBouncer and what to do, or undefined. */
export async function problemOfSettings(sql: Sql): Promise<string | undefined> {
  const found = await sql<{ name: string; setting: string; of_user: string; of_database: string }[]>`
    select name, setting, current_user as of_user, current_database() as of_database
    from pg_settings where name in ${sql(SETTING_NAMES)}`
  const wrong = found.filter(
    ({ name, setting }) => SESSION_SETTINGS[name as (typeof SETTING_NAMES)[number]] !== setting,
  )
  const [first] = wrong
  if (first === undefined) return undefined
  const names = wrong.map(({ name }) => name).join(', ')
  return (
    `DATABASE_URL: behind PgBouncer the user "${first.of_user}" needs its settings in the database ` +
    `"${first.of_database}", and these are missing: ${names}. Run npm run migrate as a user that may alter ` +
    `"${first.of_user}", then RECONNECT in PgBouncer's console.`
  )
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Why a promotion could lose what was committed, although SYNCHRONOUS_STANDBY says that it cannot. */
export async function problemOfStandby(sql: Sql): Promise<string | undefined> {
  const [settings] = await sql<{ commit: string; source: string; standbys: string }[]>`
    select setting as commit, source, current_setting('synchronous_standby_names') as standbys
    from pg_settings where name = 'synchronous_commit'`
  const { commit, source, standbys } = settings!
  if (commit !== 'on' && commit !== 'remote_apply')
    return `SYNCHRONOUS_STANDBY: synchronous_commit is ${commit}, so a standby may lack what was committed. Set it to on.`
  if (source === 'client')
    return 'SYNCHRONOUS_STANDBY: DATABASE_URL sets synchronous_commit, so other sessions may have another value. Set it in PostgreSQL.'
  if (standbys === '')
    return 'SYNCHRONOUS_STANDBY: synchronous_standby_names is empty, so no commit waits for a standby.'
  return undefined
}

// The database that a command reads besides the one in use: an option without a password, or a variable.
import { ConfigError, type Config } from '#core/config.ts'
import { databaseError, isServerError, type Sql } from '#core/db.ts'
import { assertMigrated } from '#core/migrate.ts'
import { connectDatabase } from '#core/pool.ts'
import { parseDatabaseUrl, problemOfDatabaseUrl } from '#core/postgres/address.ts'
import { readOnlyUrl } from '../database.ts'

/** The variable of an option with a URL: arguments can be read by all users of the machine. */
const VARIABLE_OF = { '--with': 'OLD_DATABASE_URL', '--restored': 'RESTORED_DATABASE_URL' } as const

/** `name`: the option or variable, for messages. `is_backup`: DATABASE_URL says which user and database it has. */
export type OtherDatabase = { name: string; url: string; is_backup: boolean }

/** The URL in the option, or else in its variable. Errors: ConfigError if the option has a password. */
export function findOtherDatabase(
  config: Config,
  option: keyof typeof VARIABLE_OF,
  value: string | undefined,
): OtherDatabase | undefined {
  const variable = VARIABLE_OF[option]
  const url = value ?? config[variable]
  if (url === undefined) return undefined
  const name = value === undefined ? variable : option
  const problem = problemOfDatabaseUrl(url)
  if (problem !== undefined) throw new ConfigError(`${name} ${problem}`)
  if (value !== undefined && parseDatabaseUrl(url).password !== undefined)
    throw new ConfigError(
      `${option} has a password, which all users of this machine can read in the list of processes. Change it, and set ${variable} or ${variable}_FILE instead.`,
    )
  return { name, url, is_backup: false }
}

/** Opens sessions that cannot write. Errors: ConfigError that names the option or variable. */
export async function openReadOnly(
  database: OtherDatabase,
  options: { max: number; application_name: string; statement_timeout_ms: number },
): Promise<Sql> {
  // Nothing writes to this database, so an old snapshot keeps nothing from being removed.
  const sql = connectDatabase(readOnlyUrl(database.url), { ...options, transaction_timeout_ms: 0 })
  try {
    // A pooler may not pass the setting on.
    const [session] = await sql<{ is_read_only: boolean }[]>`
      select current_setting('transaction_read_only') = 'on' as is_read_only`
    if (session?.is_read_only !== true)
      throw new ConfigError(
        'the session is not read-only. Name PostgreSQL itself, and no pooler in front of it.',
      )
    await assertMigrated(sql)
    return sql
  } catch (error) {
    await sql.end({ timeout: 1 })
    throw error instanceof ConfigError
      ? new ConfigError(`${database.name}: ${error.message}`)
      : otherDatabaseError(error, database)
  }
}

/** Turns a database error into a message that names the option or variable. */
export function otherDatabaseError(error: unknown, { name, url, is_backup }: OtherDatabase): unknown {
  if (is_backup && isServerError(error) && /^(28|3D)/.test(error.code))
    return new ConfigError(`DATABASE_URL must name a user and a database of the backup: ${error.message}.`)
  return databaseError(error, url, name)
}

// Finds the database of a command: DATABASE_URL, or the database of the `npm start` that runs in this folder.
import { z } from 'zod'
import { ConfigError, type Config } from '#core/config.ts'
import { VARIABLE_NAMES } from '#core/config/variables.ts'
import { connectDatabase } from '#core/pool.ts'
import { databaseError, isServerError, type Sql } from '#core/db.ts'
import { assertMigrated } from '#core/migrate.ts'
import { parseDatabaseUrl } from '#core/postgres/address.ts'
import { isReadOnlyServer } from '#core/postgres/connection-errors.ts'
import { COMMAND_SUFFIX, isSealed } from '#domain/switches/find.ts'
import { readDevFile } from './dev-file.ts'

const DevFile = z.object({
  database_url: z.string(),
  redis_url: z.string().nullish(),
  /** The variables that lead to the emulators. */
  provider_variables: z.record(z.string(), z.string()).default({}),
})

const Secrets = z.object({ encryption_key: z.string() })

/** The URL of the database. Errors: ConfigError if DATABASE_URL is unset and no `npm start` runs in DATA_DIR. */
export function databaseUrl(config: Config): string {
  const url = config.DATABASE_URL ?? readDevFile(config.DATA_DIR, DevFile)?.database_url
  if (url === undefined) throw notRunningError(config)
  return url
}

/**
 * The configuration, completed by that of the `npm start` that runs in this folder if DATABASE_URL is unset. Errors:
 * those of `databaseUrl`.
 */
export function completeConfig(config: Config): Config {
  const started = config.DATABASE_URL === undefined ? readDevFile(config.DATA_DIR, DevFile) : undefined
  const redis_url = config.QUEUE === 'postgres' ? undefined : (started?.redis_url ?? undefined)
  const defaults = {
    ...started?.provider_variables,
    REDIS_URL: redis_url,
    DATABASE_URL: databaseUrl(config),
    ENCRYPTION_KEY: started && readDevFile(config.DATA_DIR, Secrets, 'secrets.json')?.encryption_key,
  }
  const unset = VARIABLE_NAMES.filter((name) => config[name] === undefined && name in defaults)
  return {
    ...config,
    ...Object.fromEntries(unset.map((name) => [name, defaults[name as keyof typeof defaults]])),
  }
}

/**
 * The URL of the same database for sessions that change nothing. Of several servers, the first that answers is used if
 * the URL does not say which.
 */
export function readOnlyUrl(url: string): string {
  const own = url.replaceAll(/(?<=[?&])default_transaction_read_only=[^&]*&?/gi, '')
  const session = own.includes('target_session_attrs=') ? '' : 'target_session_attrs=any&'
  return `${own}${own.includes('?') ? '&' : '?'}${session}default_transaction_read_only=on`
}

const SEALED =
  'The database is sealed, so nothing is written to it: it moves to another server. If it does not: npm run recover -- seal --undo'

const SEALED_BEHIND_PGBOUNCER =
  'The database is sealed, so commands can only read it, which PgBouncer does not ensure: name PostgreSQL itself in DATABASE_URL, without pgbouncer=true'

/**
 * Runs `work` on the database. `writes_sealed`: `work` may write although the database is sealed; otherwise it can only
 * read then. Errors: ConfigError if the database does not answer, is not migrated to this version, or is sealed and
 * `work` writes or the address is that of PgBouncer.
 */
export async function withDatabase<T>(
  config: Config,
  { writes_sealed = false, ...options }: { max: number; application_name: string; writes_sealed?: boolean },
  work: (sql: Sql) => Promise<T>,
): Promise<T> {
  const url = databaseUrl(config)
  // A seal waits for the sessions with this name.
  const may_write = { ...options, application_name: `${options.application_name}${COMMAND_SUFFIX}` }
  let sql = connectDatabase(url, writes_sealed ? options : may_write)
  let is_sealed = false
  try {
    await assertMigrated(sql)
    is_sealed = !writes_sealed && (await isSealed(sql))
    if (is_sealed) {
      if (parseDatabaseUrl(url).pgbouncer) throw new ConfigError(SEALED_BEHIND_PGBOUNCER)
      await sql.end()
      sql = connectDatabase(readOnlyUrl(url), options)
    }
    return await work(sql)
  } catch (error) {
    if (is_sealed && isReadOnlyServer(error)) throw new ConfigError(SEALED)
    throw explainDatabaseError(error, config, url)
  } finally {
    await sql.end()
  }
}

/**
 * Turns a database error into a message for the operator. If DATABASE_URL is unset, an unreachable database means that
 * no `npm start` runs. Commands are run by the owner of the tables, so a missing right means another user.
 */
export function explainDatabaseError(error: unknown, config: Config, url: string): unknown {
  if (isServerError(error) && error.code === '42501')
    return new ConfigError(
      `DATABASE_URL: the user "${parseDatabaseUrl(url).user}" may not do this: ${error.message}. Use the URL of the owner of the tables.`,
    )
  const problem = databaseError(error, url)
  const is_default = config.DATABASE_URL === undefined && problem !== error && !isServerError(error)
  return is_default ? notRunningError(config) : problem
}

function notRunningError({ DATA_DIR, NODE_ENV }: Config): ConfigError {
  if (NODE_ENV === 'production')
    return new ConfigError(
      'DATABASE_URL is not set. Set it, or DATABASE_URL_FILE, to the database of the installation, as the owner of the tables',
    )
  return new ConfigError(
    `No Sluice runs in ${DATA_DIR}. Start one with npm start, or set DATABASE_URL, e.g. DATABASE_URL=postgres://sluice:secret@127.0.0.1:5432/sluice`,
  )
}

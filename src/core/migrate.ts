// Applies the SQL files of `migrations/`: the numbered ones in order, each once, forward only; then `roles.sql`, the
// grants.
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import postgres from 'postgres'
import { ConfigError } from './config.ts'
import { databaseCode, type Sql } from './db.ts'

const FOLDER = new URL('../../migrations/', import.meta.url)
/** While a statement waits for a table lock, later users of the table wait behind it: so the wait is limited. */
const LOCK_TIMEOUT_MS = 30_000

/** The statement that limits the wait for locks, unless the user or the database has a limit already. */
export const setLockTimeout = ({ in_transaction }: { in_transaction: boolean }) =>
  `select set_config('lock_timeout', '${LOCK_TIMEOUT_MS}', ${in_transaction}) where current_setting('lock_timeout') = '0'`

/**
 * Due jobs are found in an index that begins with their priority. PostgreSQL 18 can skip that column; older versions
 * read the whole index.
 */
const MIN_POSTGRES_VERSION = 18

/** Several processes may create the table at once: one succeeds, and the others ignore their error. */
const MIGRATIONS = `
  do $$ begin
    create table if not exists schema_migrations (
      name text primary key, checksum text not null, applied_at timestamptz not null default now());
  exception when unique_violation or duplicate_table then null;
  end $$`

const NUMBERED = /^\d{4}_.+\.sql$/
const ROLES = 'roles.sql'

/**
 * Applies all new migrations and returns their names. Several processes may call it at once. `warn` is called for
 * optional parts that could not be set up. Throws ConfigError if an applied file was changed, if the server is too
 * old, and if a lock is not free within half a minute (or the `lock_timeout` of the user or database).
 */
export async function migrate(
  database_url: string,
  warn: (text: string) => void = () => {},
): Promise<string[]> {
  const sql = postgres(database_url, {
    max: 1,
    fetch_types: false,
    onnotice({ severity, message }) {
      if (severity === 'WARNING') warn(message ?? '')
    },
  })
  try {
    const [server] = await sql<{ version_num: number }[]>`
      select current_setting('server_version_num')::integer as version_num`
    const problem = serverProblem(server!.version_num)
    if (problem !== undefined) throw new ConfigError(problem)
    return await sql.begin(async (tx) => {
      await tx.unsafe(MIGRATIONS)
      // One migration runs at a time. A table lock is used, because any database user could hold an advisory lock.
      await tx`lock table schema_migrations in share row exclusive mode`
      await tx.unsafe(setLockTimeout({ in_transaction: true }))
      const applied = new Map(
        (await tx<{ name: string; checksum: string }[]>`select name, checksum from schema_migrations`).map(
          (row) => [row.name, row.checksum],
        ),
      )
      const newly_applied: string[] = []
      for (const name of await migrationNames()) {
        const text = await readFile(new URL(name, FOLDER), 'utf8')
        const checksum = createHash('sha256').update(text).digest('hex')
        const before = applied.get(name)
        if (before === checksum) continue
        if (before !== undefined)
          throw new ConfigError(
            `The migration ${name} was changed after it was applied to this database. Restore the file, and make the change in a new migration.`,
          )
        await tx.unsafe(text)
        await tx`insert into schema_migrations (name, checksum) values (${name}, ${checksum})`
        newly_applied.push(name)
      }
      await tx.unsafe(await readFile(new URL(ROLES, FOLDER), 'utf8'))
      return newly_applied
    })
  } catch (error) {
    throw lockError(error)
  } finally {
    await sql.end()
  }
}

// The problem of a server with this `server_version_num`, or undefined.
function serverProblem(version_num: number): string | undefined {
  const major = Math.floor(version_num / 10_000)
  if (major >= MIN_POSTGRES_VERSION) return undefined
  return `DATABASE_URL: PostgreSQL ${MIN_POSTGRES_VERSION} or newer is needed, and the server is ${major}.${version_num % 10_000}.`
}

/** Turns a lock timeout into a message for the operator. Other errors are returned unchanged. */
export function lockError(error: unknown): unknown {
  if (databaseCode(error) !== '55P03') return error
  return new ConfigError(
    'Nothing was migrated: another session locks a table that must be changed, or runs a migration. Find the session in pg_stat_activity, end it, and run the migration again.',
  )
}

/**
 * The reason why this version cannot use the database: the server is too old, migrations are missing, or (without
 * `allow_newer`) a newer version has migrated it. Undefined if this version can use the database. Errors: those of
 * the connection.
 */
export async function migrationProblem(
  sql: Sql,
  { allow_newer }: { allow_newer: boolean },
): Promise<string | undefined> {
  const [server] = await sql<{ version_num: number }[]>`
    select current_setting('server_version_num')::integer as version_num`
  const too_old = serverProblem(server!.version_num)
  if (too_old !== undefined) return too_old
  let applied: Set<string>
  try {
    const rows = await sql<{ name: string }[]>`select name from schema_migrations`
    applied = new Set(rows.map(({ name }) => name))
  } catch (error) {
    const code = databaseCode(error)
    if (code === '42P01') return 'The database has no tables yet. Run: npm run migrate'
    // Permission denied: probably the migration that grants the right to read this table is missing.
    if (code === '42501')
      return 'The database is not migrated for this version, or its user may not read schema_migrations. Run: npm run migrate'
    throw error
  }
  const local_names = await migrationNames()
  const [missing, ...more] = local_names.filter((name) => !applied.has(name))
  if (missing !== undefined)
    return `The database is not migrated: ${missing}${more.length > 0 ? ` and ${more.length} more` : ''} missing. Run: npm run migrate`
  const newer = [...applied]
    .filter((name) => !local_names.includes(name))
    .sort()
    .at(-1)
  if (newer !== undefined && !allow_newer)
    return `The database was migrated by a newer version: ${newer} is not known here. Start that version, or set ALLOW_NEWER_DATABASE=true to roll back to this one`
  return undefined
}

/**
 * Rejects while the database does not answer, is too old or lacks a migration. A database of a newer version is
 * accepted: that is normal during a deployment.
 */
export async function assertMigrated(sql: Sql): Promise<void> {
  const problem = await migrationProblem(sql, { allow_newer: true })
  if (problem !== undefined) throw new ConfigError(problem)
}

async function migrationNames(): Promise<string[]> {
  return (await readdir(FOLDER)).filter((name) => NUMBERED.test(name)).sort()
}

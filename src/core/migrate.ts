// Applies the SQL files of `migrations/`: the numbered ones in order, each once, forward only; then who may do what.
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import postgres from 'postgres'
import { ConfigError } from './config.ts'
import { databaseCode, type Sql } from './db.ts'

const FOLDER = new URL('../../migrations/', import.meta.url)
/** Who waits for a lock on a table holds up all who use it after. */
const LOCK_LIMIT_MS = 30_000

/** The statement that limits waits for locks, where the user or the database has no limit already. */
export const limitLocks = ({ in_transaction }: { in_transaction: boolean }) =>
  `select set_config('lock_timeout', '${LOCK_LIMIT_MS}', ${in_transaction}) where current_setting('lock_timeout') = '0'`

/** Due jobs are looked for in an index that leads with their priority, which 18 skips; older ones read all that wait. */
const OLDEST_SERVER = 18

/** Of several that make it at once one does; the others wait for that. */
const MIGRATIONS = `
  do $$ begin
    create table if not exists schema_migrations (
      name text primary key, checksum text not null, applied_at timestamptz not null default now());
  exception when unique_violation or duplicate_table then null;
  end $$`

const NUMBERED = /^\d{4}_.+\.sql$/
const ROLES = 'roles.sql'

/**
 * Brings the database up to the newest migration; several processes may call it at once. Returns the names applied now.
 * `warn` hears what could not be set up and is not essential. Throws when a file that was applied has since been changed, when
 * the server is too old, and when somebody holds a table that has to be changed for long (half a minute, unless the user or the database has a
 * `lock_timeout`).
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
      // One at a time. Not an advisory lock: that anybody may take who can connect.
      await tx`lock table schema_migrations in share row exclusive mode`
      await tx.unsafe(limitLocks({ in_transaction: true }))
      const applied = new Map(
        (await tx<{ name: string; checksum: string }[]>`select name, checksum from schema_migrations`).map(
          (row) => [row.name, row.checksum],
        ),
      )
      const fresh: string[] = []
      for (const name of await migrationNames()) {
        const text = await readFile(new URL(name, FOLDER), 'utf8')
        const checksum = createHash('sha256').update(text).digest('hex')
        const before = applied.get(name)
        if (before === checksum) continue
        if (before !== undefined)
          throw new ConfigError(`The migration ${name} was changed after it was applied to this database.`)
        await tx.unsafe(text)
        await tx`insert into schema_migrations (name, checksum) values (${name}, ${checksum})`
        fresh.push(name)
      }
      await tx.unsafe(await readFile(new URL(ROLES, FOLDER), 'utf8'))
      return fresh
    })
  } catch (error) {
    throw lockError(error)
  } finally {
    await sql.end()
  }
}

// Why a server that tells this `server_version_num` is not used; undefined: it is.
function serverProblem(version_num: number): string | undefined {
  const major = Math.floor(version_num / 10_000)
  if (major >= OLDEST_SERVER) return undefined
  return `DATABASE_URL: PostgreSQL ${OLDEST_SERVER} or newer is needed, and the server is ${major}.${version_num % 10_000}.`
}

/** An error of waiting too long for a lock as a message for the operator; other errors as they are. */
export function lockError(error: unknown): unknown {
  if (databaseCode(error) !== '55P03') return error
  return new ConfigError(
    'Nothing was migrated: somebody else holds a table that has to be changed, or migrates. See pg_stat_activity, end what holds it, and run it again.',
  )
}

/**
 * What makes a database unfit for this version: a server that is too old, migrations that are missing, or, unless
 * `allow_newer`, some that only a newer version knows. Undefined: it fits. Errors: those of the connection.
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
    // The right to read it came with a migration too.
    if (code === '42501')
      return 'The database is not migrated for this version, or its user may not read schema_migrations. Run: npm run migrate'
    throw error
  }
  const known = await migrationNames()
  const [missing, ...more] = known.filter((name) => !applied.has(name))
  if (missing !== undefined)
    return `The database is not migrated: ${missing}${more.length > 0 ? ` and ${more.length} more` : ''} missing. Run: npm run migrate`
  const newer = [...applied]
    .filter((name) => !known.includes(name))
    .sort()
    .at(-1)
  if (newer !== undefined && !allow_newer)
    return `The database was migrated by a newer version: ${newer} is not known here. Start that version; to go back to this one all the same, set ALLOW_NEWER_DATABASE=true`
  return undefined
}

/** Rejects while the database does not answer, is of a server that is too old or lacks a migration. One of a newer version is part of a deployment. */
export async function assertMigrated(sql: Sql): Promise<void> {
  const problem = await migrationProblem(sql, { allow_newer: true })
  if (problem !== undefined) throw new ConfigError(problem)
}

async function migrationNames(): Promise<string[]> {
  return (await readdir(FOLDER)).filter((name) => NUMBERED.test(name)).sort()
}

// Applies the SQL files of `migrations/`: the numbered ones in order, each once, forward only; then `roles.sql`, the
// grants. Each file is a step of its own, so that the steps before a failed one stay applied.
import type postgres from 'postgres'
import { ConfigError } from './config.ts'
import { databaseCode, isServerError, isUnavailable, type Sql } from './db.ts'
import { migrationNames, readMigrations, readRoles, type Migration } from './migrate/files.ts'
import { applyMigration, runInTransaction } from './migrate/steps.ts'
import {
  blockingSessionsOf,
  retryWhileLocked,
  TRIES,
  type BlockingSession,
  type LockWait,
} from './migrate/lock-waits.ts'
import { createTarget, openSession } from './postgres/servers.ts'
import { writeUserSettings } from './postgres/settings.ts'

/**
 * Due jobs are found in an index that begins with their priority. PostgreSQL 18 can skip that column; older versions
 * read the whole index.
 */
const MIN_POSTGRES_VERSION = 18

/**
 * A run locks the view to exclude other runs. Migrations lock only tables, so none of them waits for the view. Several
 * processes may create the table and the view at once: one succeeds, and the others ignore their error.
 */
const MIGRATIONS = `
  do $$ begin
    create table if not exists schema_migrations (
      name text primary key, checksum text not null, applied_at timestamptz not null default now());
    if to_regclass('migration_lock') is null then create view migration_lock as select 1 as locked; end if;
  exception when unique_violation or duplicate_table or duplicate_object then null;
  end $$`

/** No timeout may end the session that excludes other runs while it waits for the steps. */
const WITHOUT_TIMEOUTS = `
  set local idle_in_transaction_session_timeout = 0; set local transaction_timeout = 0; set local statement_timeout = 0`

/**
 * Applies all new migrations and returns their names. Several processes may call it at once: one of them applies
 * them. `report` is called for each try that a lock prevented, with the blocking session, and for optional parts that
 * could not be set up. Throws ConfigError if an applied file was changed, if the server is too old, if the address is
 * that of PgBouncer and a migration is new, and if a lock is not free in about two and a half minutes; the steps before
 * it stay applied.
 */
export async function migrate(
  database_url: string,
  report: (text: string) => void = () => {},
  tries = TRIES,
): Promise<string[]> {
  const target = createTarget(database_url)
  const open = () =>
    openSession(target, {
      connection: { ...target.address.settings, application_name: 'sluice-migrate' },
      onnotice({ severity, message }) {
        if (severity === 'WARNING') report(message ?? '')
      },
    })
  await using cleanup = new AsyncDisposableStack()
  const [sql, guard] = [open(), open()]
  cleanup.defer(() => sql.end())
  cleanup.defer(() => guard.end())
  const problem = problemOfServer(await versionOf(sql))
  if (problem !== undefined) throw new ConfigError(problem)
  await sql.unsafe(MIGRATIONS)
  if (target.address.pgbouncer) await refusePending(sql)
  const [step_pid, guard_pid] = [await pidOf(sql), await pidOf(guard)]
  const guard_wait: LockWait = {
    report,
    tries,
    findBlockingSessions: () => sql.unsafe(blockingSessionsOf(guard_pid)),
  }
  await retryWhileLocked('migration_lock', guard_wait, (lock_timeout_ms) =>
    excludeOthers(guard, lock_timeout_ms),
  )
  const findBlockingSessions = async () => {
    // Within a transaction PostgreSQL shows the sessions as they were first read.
    await guard.unsafe('select pg_stat_clear_snapshot()')
    return await guard.unsafe<BlockingSession[]>(blockingSessionsOf(step_pid))
  }
  return await applyAll(sql, { report, tries, findBlockingSessions }, async () => {
    if ((await pidOf(guard)) !== guard_pid)
      throw new ConfigError('The connection to the database was lost. Run the migration again.')
  })
}

/**
 * Locks out other runs until the connection of `guard` ends. The lock has a session of its own, because it spans the
 * transactions of all steps. While that session is idle it has no snapshot, so that no index build waits for it: its
 * statements are not prepared, because a prepared one keeps its snapshot until the next one. An
 * advisory lock could be held by any database user; this lock only by the owner of the view.
 */
async function excludeOthers(guard: postgres.Sql, lock_timeout_ms: number): Promise<void> {
  await guard.unsafe('begin')
  try {
    await guard.unsafe(`${WITHOUT_TIMEOUTS}; set local lock_timeout = ${lock_timeout_ms}`)
    await guard.unsafe('lock table migration_lock in share update exclusive mode')
  } catch (error) {
    await guard.unsafe('rollback')
    throw error
  }
}

/** `assertExclusive` rejects if the session that excludes other runs was lost. */
async function applyAll(
  sql: postgres.Sql,
  wait: LockWait,
  assertExclusive: () => Promise<void>,
): Promise<string[]> {
  const newly_applied: string[] = []
  let step = 'the list of the applied migrations'
  try {
    // The tables of a new database have no rows: no step takes long.
    const is_new = (await sql`select from schema_migrations limit 1`).length === 0
    for (const migration of await findPending(sql, wait.report)) {
      step = migration.name
      await assertExclusive()
      if (migration.kind !== 'transaction' && !is_new)
        wait.report(`${step}: runs outside a transaction: reads and writes go on.`)
      await applyMigration(sql, migration, wait)
      newly_applied.push(migration.name)
    }
    step = 'roles.sql'
    await assertExclusive()
    await runInTransaction(sql, { name: step, text: await readRoles(), locks: [] }, wait)
    const without_settings = await sql.begin(writeUserSettings)
    if (without_settings.length > 0) wait.report(textOfSkipped(without_settings))
  } catch (error) {
    throw withStep(error, step, newly_applied)
  }
  return newly_applied
}

/** The error of a run that failed at `step`: it names the step, and what was applied before it. */
function withStep(error: unknown, step: string, applied: string[]): unknown {
  const before = applied.length === 0 ? '' : `Applied ${applied.join(', ')}. `
  if (error instanceof ConfigError)
    return before === '' ? error : new ConfigError(`${before}${error.message}`)
  // A refused connection is explained where its address is known.
  if (!isServerError(error) || isUnavailable(error)) return error
  const remedy = error.code === '42501' ? ' Run it as the owner of the tables.' : ''
  return new ConfigError(`${before}${step} failed: ${error.message} (${error.code}).${remedy}`)
}

function textOfSkipped(users: string[]): string {
  return `New session settings of ${users.join(', ')} were not written, because this user may not alter them. Processes behind PgBouncer need them: run npm run migrate as a user with CREATEROLE and the admin option on these users, or as a superuser.`
}

/** Throws ConfigError if a migration is new: its locks and settings need a session, and PgBouncer shares sessions. */
async function refusePending(sql: postgres.Sql): Promise<void> {
  const [first, ...more] = await findPending(sql)
  if (first === undefined) return
  const pending = `${first.name}${more.length > 0 ? ` and ${more.length} more` : ''}`
  throw new ConfigError(
    `DATABASE_URL: PgBouncer shares sessions, and the new migrations (${pending}) need one of their own. Name the address of PostgreSQL itself, without pgbouncer=true.`,
  )
}

/**
 * The migrations that this database lacks. `report` is called if a newer version has migrated it. Errors: ConfigError
 * if an applied file was changed.
 */
export async function findPending(
  sql: postgres.Sql,
  report: (text: string) => void = () => {},
): Promise<Migration[]> {
  const rows = await sql<{ name: string; checksum: string }[]>`select name, checksum from schema_migrations`
  const applied = new Map(rows.map(({ name, checksum }) => [name, checksum]))
  const migrations = await readMigrations()
  const newer = newestUnknown(
    [...applied.keys()],
    migrations.map(({ name }) => name),
  )
  if (newer !== undefined) report(`The database was migrated by a newer version: ${newer} is not known here.`)
  for (const { name, checksum } of migrations)
    if (applied.has(name) && applied.get(name) !== checksum)
      throw new ConfigError(
        `The migration ${name} was changed after it was applied to this database. Restore the file, and make the change in a new migration.`,
      )
  return migrations.filter(({ name }) => !applied.has(name))
}

async function pidOf(sql: postgres.Sql): Promise<number> {
  const [session] = await sql.unsafe<{ pid: number }[]>('select pg_backend_pid() as pid')
  return session!.pid
}

async function versionOf(sql: Sql | postgres.Sql): Promise<number> {
  const [server] = await (sql as postgres.Sql)<{ version_num: number }[]>`
    select current_setting('server_version_num')::integer as version_num`
  return server!.version_num
}

/** The problem of a server with this `server_version_num`, or undefined. */
function problemOfServer(version_num: number): string | undefined {
  const major = Math.floor(version_num / 10_000)
  if (major >= MIN_POSTGRES_VERSION) return undefined
  return `DATABASE_URL: PostgreSQL ${MIN_POSTGRES_VERSION} or newer is needed, and the server is ${major}.${version_num % 10_000}.`
}

/**
 * The reason why this version cannot use the database: the server is too old, migrations are missing, (without
 * `allow_newer`) a newer version has migrated it, or the user is neither in the role of `process` nor an owner of the
 * tables. Undefined if this version can use the database. Errors: those of the connection.
 */
export async function problemOfDatabase(
  sql: Sql,
  { allow_newer, process }: { allow_newer: boolean; process?: string | undefined },
): Promise<string | undefined> {
  const too_old = problemOfServer(await versionOf(sql))
  if (too_old !== undefined) return too_old
  let applied: Set<string>
  try {
    const rows = await sql<{ name: string }[]>`select name from schema_migrations`
    applied = new Set(rows.map(({ name }) => name))
  } catch (error) {
    const code = databaseCode(error)
    if (code === '42P01') return 'The database has no tables yet. Run: npm run migrate'
    // Permission denied: the user has no role of a process, or the migration that grants them this right is missing.
    if (code === '42501') {
      const [row] = await sql<{ login: string }[]>`select current_user as login`
      return `The user ${row!.login} may not read schema_migrations. Grant it the role of its process, such as sluice_api, or, if the database is not migrated for this version, run: npm run migrate`
    }
    throw error
  }
  const local_names = await migrationNames()
  const [missing, ...more] = local_names.filter((name) => !applied.has(name))
  if (missing !== undefined)
    return `The database is not migrated: ${missing}${more.length > 0 ? ` and ${more.length} more` : ''} missing. Run: npm run migrate`
  const newer = newestUnknown([...applied], local_names)
  if (newer !== undefined && !allow_newer)
    return `The database was migrated by a newer version: ${newer} is not known here. Start that version, or set ALLOW_NEWER_DATABASE=true to roll back to this one`
  return process === undefined ? undefined : await problemOfUser(sql, process)
}

/** The newest applied migration that only a newer version knows. */
function newestUnknown(applied: string[], known: string[]): string | undefined {
  return applied
    .filter((name) => !known.includes(name))
    .sort()
    .at(-1)
}

/** A process with the user of another process would start, and then each of its statements would be refused. */
async function problemOfUser(sql: Sql, process: string): Promise<string | undefined> {
  const role = `sluice_${process}`
  const [user] = await sql<{ login: string; may_run: boolean }[]>`
    select current_user as login, pg_has_role(c.relowner, 'usage')
      or coalesce((select pg_has_role(r.oid, 'usage') from pg_roles r where r.rolname = ${role}), true) as may_run
    from pg_class c where c.oid = 'schema_migrations'::regclass`
  if (user!.may_run) return undefined
  return `DATABASE_URL: the user ${user!.login} is not in the role ${role}, which this process needs. Each process has a user of its own.`
}

/**
 * Rejects while the database does not answer, is too old, lacks a migration or refuses the user of `process`. A
 * database of a newer version is accepted: that is normal during a deployment.
 */
export async function assertMigrated(sql: Sql, process?: string): Promise<void> {
  const problem = await problemOfDatabase(sql, { allow_newer: true, process })
  if (problem !== undefined) throw new ConfigError(problem)
}

// Makes a copy of a database an installation of its own.
import type { Sql, Tx } from '#core/db.ts'
import { identifyDatabase } from '../old-primary/compare.ts'
import { LOST_AFTER_S } from '../operations/processes.ts'
import { appendAuditEntry, type Actor } from '../people/audit-log.ts'
import { findNewestChange } from './find.ts'
import { declareBatch } from './release.ts'

/** What an operator reads about a copy of a database before it becomes another installation. */
export type DatabaseCopy = {
  installation: string
  server: string
  newest_at: string
  /** The processes and commands that use the database now, or did within the last minute, by name. */
  processes: string[]
}

export async function findDatabaseCopy(sql: Sql | Tx): Promise<DatabaseCopy> {
  const processes = await sql<{ name: string }[]>`
    select format('%s (%s/%s)', name, host, pid) as name from processes
    where ended_at is null and seen_at > now() - ${LOST_AFTER_S} * interval '1 second'
    union
    select application_name from pg_stat_activity
    where datname = current_database() and application_name like 'sluice-%' and pid <> pg_backend_pid()
    order by name`
  return {
    ...(await identifyDatabase(sql)),
    newest_at: await findNewestChange(sql),
    processes: processes.map(({ name }) => name),
  }
}

/**
 * Gives the database a new id of the installation. No process may use the database: the processes of the original
 * would lose their mark. Before that, the copy counts as restored, so that its open jobs wait. Returns both ids; or, if
 * the database is not as `described` any more, what it is now.
 */
export async function drawInstallation(
  sql: Sql,
  { described, reason }: { described: DatabaseCopy; reason: string },
  by: Actor,
): Promise<{ from: string; to: string } | { changed: DatabaseCopy }> {
  return await sql.begin(async (tx) => {
    // No process uses the database, so that an old snapshot harms nothing. A copy can have millions of open jobs.
    await tx`set local transaction_timeout = 0`
    // A process that starts reads the id: it waits for the new one, or is found.
    await tx`lock table installation in access exclusive mode`
    const found = await findDatabaseCopy(tx)
    if (JSON.stringify(found) !== JSON.stringify(described)) return { changed: found }
    const declared = { newest_at: described.newest_at, witness: null, reason }
    while (!(await declareBatch(tx, declared, by)));
    const [drawn] = await tx<[{ from: string; to: string }]>`
      update installation
      set id = gen_random_uuid(), drawn_at = clock_timestamp()
      returning old.id as from, new.id as to`
    await appendAuditEntry(tx, by, { action: 'installation.draw', details: { ...drawn, reason } })
    return drawn
  })
}

// Makes a copy of a database an installation of its own.
import type { Sql } from '#core/db.ts'
import { appendAuditEntry, type Actor } from '../people/audit-log.ts'
import { findNewestChange } from './find.ts'
import { declareSwitch } from './release.ts'

/** A process whose heartbeat is older has ended. */
const HEARTBEAT_LIFETIME = '1 minute'

/** The processes and commands that use the database now, or did within the last minute, by name. */
export async function findUsers(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select format('%s (%s/%s)', name, host, pid) as name from processes
    where ended_at is null and seen_at > now() - ${HEARTBEAT_LIFETIME}::interval
    union
    select application_name from pg_stat_activity
    where datname = current_database() and application_name like 'sluice-%' and pid <> pg_backend_pid()
    order by name`
  return rows.map(({ name }) => name)
}

/**
 * Gives the database a new id of the installation, and another key for what witnesses remember. No process may use the
 * database: the processes of the original would lose their mark. Before that, the copy counts as restored, so that
 * its open jobs wait. Returns both ids.
 */
export async function drawInstallation(
  sql: Sql,
  reason: string,
  by: Actor,
): Promise<{ from: string; to: string }> {
  await declareSwitch(sql, { newest_at: await findNewestChange(sql), reason }, by)
  return await sql.begin(async (tx) => {
    const [drawn] = await tx<[{ from: string; to: string }]>`
      update installation
      set id = gen_random_uuid(), witness_key = draw_witness_key(), drawn_at = clock_timestamp()
      returning old.id as from, new.id as to`
    await appendAuditEntry(tx, by, { action: 'installation.draw', details: { ...drawn, reason } })
    return drawn
  })
}

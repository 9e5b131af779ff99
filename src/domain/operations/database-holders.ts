// The sessions, prepared transactions and replication slots that hold a snapshot or have written in an open
// transaction. Vacuum removes no row that the oldest snapshot may read.
import type { Sql } from '#core/db.ts'
import { PROCESS_ROLES } from '#core/postgres/settings.ts'

export type DatabaseHolder = {
  /** Identifies the session, prepared transaction or slot. */
  id: string
  /** Of a session of Sluice its application_name, of any other its role, otherwise the kind. */
  name: string
  /** The transaction that writes; null if it has not written. */
  xid: string | null
  /** The oldest transaction that its snapshot does not see as finished; null without a snapshot. */
  xmin: string | null
  /** The age of its transaction in seconds; null without the right to see it. */
  transaction_s: number | null
  /** Its snapshot is at least this old, in seconds; 0 without the right to see it. */
  snapshot_s: number
}

/**
 * The other holders in this database. Every user may choose any application_name, so it counts only if the user is that
 * of a process or the owner of the tables. PostgreSQL shows the times of a session only to users with the rights of its
 * user, and its transaction numbers to all users.
 */
export async function findDatabaseHolders(sql: Sql): Promise<DatabaseHolder[]> {
  return await sql<DatabaseHolder[]>`
    select a.pid::text as id,
      case when a.application_name ~ '^sluice(-[a-z]+)+$' and a.usesysid in (
        select relowner from pg_class where oid = 'jobs'::regclass
        union all
        select m.member from pg_auth_members m join pg_roles r on r.oid = m.roleid
        where r.rolname in ${sql(PROCESS_ROLES)}
      ) then a.application_name else coalesce(a.usename, 'unknown') end as name,
      a.backend_xid::text as xid, a.backend_xmin::text as xmin,
      extract(epoch from clock_timestamp() - a.xact_start)::float8 as transaction_s,
      coalesce(extract(epoch from clock_timestamp()
        - case when a.state like 'idle in transaction%' then a.xact_start else a.query_start end
      ), 0)::float8 as snapshot_s
    from pg_stat_activity a
    where (a.datname = current_database() or a.datname is null) and a.usesysid is not null
      and a.pid <> pg_backend_pid() and (a.backend_xid is not null or a.backend_xmin is not null)
    union all
    select gid, 'prepared transaction', transaction::text, transaction::text,
      extract(epoch from clock_timestamp() - prepared)::float8, extract(epoch from clock_timestamp() - prepared)::float8
    from pg_prepared_xacts where database = current_database()
    union all
    select slot_name::text, 'slot ' || slot_name, null, xmin::text, null, 0 from pg_replication_slots
    where xmin is not null`
}

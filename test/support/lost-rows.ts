// Takes a database back in time: everything of a tenant is lost, as after the restore of a backup.
import type { World } from './world.ts'

/** What a tenant has before its first request. */
const KEPT = ['tenants', 'api_keys', 'members', 'invitations', 'audit_entries']

/**
 * Deletes everything of a tenant except for the tenant and its keys, and all notifications (`tenant`: the tenant
 * too, but not its keys); then records the switch of the database, unless `switched` is false. The worker reads the
 * lists of the providers since then.
 */
export async function loseEverythingOf(
  { sql }: Pick<World, 'sql'>,
  tenant_id: string,
  { tenant = false, switched = true } = {},
): Promise<void> {
  await sql.begin(async (tx) => {
    // An event that is numbered at this moment would keep its number, and those before it would be missing.
    await tx`lock table events, event_sequences in share row exclusive mode`
    // The triggers that keep the ledger final would refuse this.
    await tx`set local session_replication_role = replica`
    const tables = await tx<{ name: string }[]>`
      select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
      where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and c.relname <> all(${KEPT}::text[])`
    for (const { name } of tables) await tx`delete from ${tx(name)} where tenant_id = ${tenant_id}`
    if (tenant) await tx`delete from tenants where id = ${tenant_id}`
    await tx`delete from notifications`
    await tx`delete from job_attempts where job_id in (select id from jobs where queue = 'notifications')`
    await tx`delete from jobs where queue = 'notifications'`
    if (switched) await recordSwitch(tx)
  })
}

/** Records a switch of the database that lost what happened in the last hour. */
export async function recordSwitch(
  sql: Pick<World, 'sql'>['sql'] | Parameters<Parameters<World['sql']['begin']>[1]>[0],
): Promise<void> {
  await sql`
    insert into database_switches
      (number, kind, sign, from_system_identifier, from_timeline, to_system_identifier, to_timeline, newest_at,
        switched_at, recorded_at)
    select coalesce(max(number), 0) + 1, 'failover', 'operator', '1', 1, '1', 2, now() - interval '1 hour', now(), now()
    from database_switches`
}

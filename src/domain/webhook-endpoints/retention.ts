// Deletes outdated delivery counts, deleted endpoints and completed recoveries.
import type { Sql } from '#core/db.ts'

/** The days for which counts are retained: statistics cover seven days. */
const RETENTION_DAYS = 8

/** Deletes at most `limit` old counts and returns their number. */
export async function deleteOldStats(sql: Sql, limit: number): Promise<number> {
  const rows = await sql`
    delete from webhook_stats s using (
      select tenant_id, endpoint_id, hour, bucket, shard from webhook_stats
      where hour < now() - ${RETENTION_DAYS} * interval '1 day' order by hour limit ${limit}
    ) old
    where s.tenant_id = old.tenant_id and s.endpoint_id = old.endpoint_id and s.hour = old.hour
      and s.bucket = old.bucket and s.shard = old.shard`
  return rows.count
}

/** Deletes at most `limit` endpoints that were deleted more than `days` days ago, and returns their number. */
export async function purgeDeletedEndpoints(sql: Sql, days: number, limit: number): Promise<number> {
  const rows = await sql`
    with deleted as (
      delete from webhook_endpoints p using (
        select tenant_id, id from webhook_endpoints
        where deleted_at < now() - ${days} * interval '1 day' limit ${limit}
      ) old
      where p.tenant_id = old.tenant_id and p.id = old.id
      returning p.tenant_id, p.id
    ), backlog as (
      delete from webhook_backlogs n using deleted where n.tenant_id = deleted.tenant_id and n.endpoint_id = deleted.id
    )
    select from deleted`
  return rows.length
}

/** Deletes at most `limit` recoveries that were completed more than `days` days ago, and returns their number. */
export async function deleteOldRecoveries(sql: Sql, days: number, limit: number): Promise<number> {
  const rows = await sql`
    delete from webhook_recoveries r using (
      select tenant_id, id from webhook_recoveries
      where status = 'completed' and after_at is null and updated_at < now() - ${days} * interval '1 day' limit ${limit}
    ) old
    where r.tenant_id = old.tenant_id and r.id = old.id`
  return rows.count
}

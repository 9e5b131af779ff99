// Deletes counts of deliveries that are older than what an endpoint's figures cover.
import type { Sql } from '#core/db.ts'

/** The figures are of seven days. */
const KEPT_DAYS = 8

/** Deletes at most `limit` old counts, and returns how many it deleted. */
export async function forgetOldStats(sql: Sql, limit: number): Promise<number> {
  const rows = await sql`
    delete from webhook_stats s using (
      select tenant_id, endpoint_id, hour, bucket, shard from webhook_stats
      where hour < now() - ${KEPT_DAYS} * interval '1 day' order by hour limit ${limit}
    ) old
    where s.tenant_id = old.tenant_id and s.endpoint_id = old.endpoint_id and s.hour = old.hour
      and s.bucket = old.bucket and s.shard = old.shard`
  return rows.count
}

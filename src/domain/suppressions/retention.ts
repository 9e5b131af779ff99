// The retention of addresses of deleted suppressions: as long as the events that show them.
import type { Sql } from '#core/db.ts'

/**
 * Erases the addresses of suppressions deleted at least `days` days ago, oldest first, at most `limit`. Returns the
 * count.
 */
export async function eraseLiftedAddresses(sql: Sql, days: number, limit: number): Promise<number> {
  const rows = await sql`
    update suppressions s set sealed = null, updated_at = clock_timestamp()
    from (
      select tenant_id, id from suppressions
      where sealed is not null and deleted_at <= now() - ${days} * interval '1 day'
      order by deleted_at limit ${limit} for update skip locked
    ) old
    where s.tenant_id = old.tenant_id and s.id = old.id`
  return rows.count
}

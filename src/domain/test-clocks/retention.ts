// Drops the history of test clocks with the data of test mode to which it applies.
import type { Sql } from '#core/db.ts'

/**
 * Drops up to `limit` steps of the clock of a tenant that are older than 90 days, except for the last of them, which
 * applies to younger data. Returns the count.
 */
export async function dropTestClockSteps(sql: Sql, tenant_id: string, limit: number): Promise<number> {
  const rows = await sql`
    with old as (
      select o.tenant_id, o.at from test_clock_steps o
      where o.tenant_id = ${tenant_id} and o.at < (
        select max(last.at) from test_clock_steps last
        where last.tenant_id = ${tenant_id} and last.at < now() - interval '90 days')
      order by o.at limit ${limit}
    )
    delete from test_clock_steps s using old where s.tenant_id = old.tenant_id and s.at = old.at`
  return rows.count
}

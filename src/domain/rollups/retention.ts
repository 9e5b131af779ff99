// Deletes roll-ups beyond their retention.
import type { Sql } from '#core/db.ts'

export const MINUTE_RETENTION_H = 48
const HOUR_RETENTION_DAYS = 90
/**
 * The hours for which the per-minute rows of tenants are retained. There are many of these rows, and their sums per
 * hour are retained longer.
 */
const TENANT_MINUTE_RETENTION_H = 3
const PAYMENT_RETENTION_DAYS = 400

/**
 * Deletes at most `limit` rows of each kind. Returns the number of deleted rows of the kind that had the most deleted
 * rows. Jobs are counted up to `counted_until`. The per-minute rows of tenants from the hour of `counted_until` on are
 * retained, because they are not summed yet.
 */
export async function deleteOldRollups(sql: Sql, counted_until: string, limit: number): Promise<number> {
  const jobs = await sql`
    delete from job_rollups r using (
      select o.* from (values (60::smallint, ${MINUTE_RETENTION_H}::integer), (3600, ${HOUR_RETENTION_DAYS * 24}))
        retained(resolution, hours)
      cross join lateral (
        select o.resolution, o.queue, o.name, o.at from job_rollups o
        where o.resolution = retained.resolution and o.at < now() - retained.hours * interval '1 hour'
        order by o.at limit ${limit}
      ) o
    ) old
    where r.resolution = old.resolution and r.queue = old.queue and r.name = old.name and r.at = old.at`
  const tenants = await sql`
    delete from tenant_rollups r using (
      select o.* from (values (60::smallint, ${TENANT_MINUTE_RETENTION_H}::integer),
        (3600, ${HOUR_RETENTION_DAYS * 24}))
        retained(resolution, hours)
      cross join lateral (
        select o.resolution, o.queue, o.at, o.tenant_id from tenant_rollups o
        where o.resolution = retained.resolution
          and o.at < date_trunc('hour', now()) - retained.hours * interval '1 hour'
          and (o.resolution > 60 or o.at < date_trunc('hour', ${counted_until}::timestamptz))
        order by o.at limit ${limit}
      ) o
    ) old
    where r.resolution = old.resolution and r.queue = old.queue and r.at = old.at and r.tenant_id = old.tenant_id`
  const payments = await sql`
    delete from payment_days d using (
      select tenant_id, day, currency, kind from payment_days
      where day < now()::date - ${PAYMENT_RETENTION_DAYS}::integer order by day limit ${limit}
    ) old
    where d.tenant_id = old.tenant_id and d.day = old.day and d.currency = old.currency and d.kind = old.kind`
  return Math.max(jobs.count, tenants.count, payments.count)
}

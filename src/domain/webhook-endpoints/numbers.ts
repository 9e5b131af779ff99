// The numbers of endpoints: what came of their deliveries, by hour and bucket.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** The bucket of a successful attempt is the logarithm to this base of how long it took, in ms. */
export const BUCKET_BASE = 1.1
/** The other buckets: deliveries that ended without arriving, and attempts that failed. */
export const BUCKETS = { undelivered: -1, failed_attempt: -2 }
/** The numbers of an endpoint are in so many rows for an hour and bucket: writers seldom wait for each other. */
const SHARDS = 4

/** A part of a statement: adds the rows of `counted`, with `tenant_id`, `endpoint_id` and `bucket`, to this hour. */
export function addStats(sql: Sql | Tx, counted: Fragment): Fragment {
  return sql`
    insert into webhook_stats as s (tenant_id, endpoint_id, hour, bucket, shard, count, last_at)
    select tenant_id, endpoint_id, date_trunc('hour', now()), bucket, pg_backend_pid() % ${SHARDS}, count(*), now()
    from ${counted} group by tenant_id, endpoint_id, bucket order by tenant_id, endpoint_id, bucket
    on conflict (tenant_id, endpoint_id, hour, bucket, shard)
      do update set count = s.count + excluded.count, last_at = excluded.last_at`
}

// The statistics of endpoints: the outcomes of their deliveries, by hour and bucket.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** The bucket of a successful attempt is the logarithm to this base of its duration in ms. */
export const BUCKET_BASE = 1.1
/** The other buckets: deliveries that were not delivered, and failed attempts. */
export const BUCKETS = { undelivered: -1, failed_attempt: -2 }
/** The number of rows for each endpoint, hour and bucket, so that writers seldom wait for each other. */
const SHARDS = 4

/**
 * A part of a statement: adds the rows of `counted`, with `tenant_id`, `endpoint_id` and `bucket`, to the
 * present hour.
 */
export function addingStats(sql: Sql | Tx, counted: Fragment): Fragment {
  return sql`
    insert into webhook_stats as s (tenant_id, endpoint_id, hour, bucket, shard, count, last_at)
    select tenant_id, endpoint_id, date_trunc('hour', now()), bucket, pg_backend_pid() % ${SHARDS}, count(*), now()
    from ${counted} group by tenant_id, endpoint_id, bucket order by tenant_id, endpoint_id, bucket
    on conflict (tenant_id, endpoint_id, hour, bucket, shard)
      do update set count = s.count + excluded.count, last_at = excluded.last_at`
}

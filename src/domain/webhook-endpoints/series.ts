// The outcomes of an endpoint's deliveries in the last seven days, by hour.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { BUCKET_BASE, BUCKETS } from './numbers.ts'

const pointSchema = z.object({
  /** The beginning of the period. */
  at: z.string(),
  delivered: z.int(),
  /** Deliveries that were not delivered. */
  failed: z.int(),
  failed_attempts: z.int(),
})
export const endpointHourSchema = pointSchema.extend({
  /** The median duration of successful requests; null without any. */
  p50_ms: z.int().nullable(),
  p95_ms: z.int().nullable(),
})
export const endpointSeriesSchema = z.object({ endpoint_id: z.uuid(), points: z.array(pointSchema) })

/** The hours of an endpoint, oldest first, including empty ones. */
export async function findEndpointHours(
  sql: Sql,
  tenant_id: string,
  endpoint_id: string,
): Promise<z.output<typeof endpointHourSchema>[]> {
  return await sql<z.output<typeof endpointHourSchema>[]>`
    with counted as (
      select hour, bucket, sum(count) as count from webhook_stats
      where tenant_id = ${tenant_id} and endpoint_id = ${endpoint_id}
        and hour > date_trunc('hour', now()) - interval '7 days'
      group by hour, bucket
    ), ranked as (
      select hour, round(power(${BUCKET_BASE}::double precision, bucket))::bigint as took_ms,
        sum(count) over (partition by hour order by bucket) / sum(count) over (partition by hour) as share
      from counted where bucket >= 0
    )
    select at, ${counts(sql)},
      (select min(took_ms) from ranked r where r.hour = at and share >= 0.5) as p50_ms,
      (select min(took_ms) from ranked r where r.hour = at and share >= 0.95) as p95_ms
    from generate_series(
      date_trunc('hour', now()) - interval '167 hours', date_trunc('hour', now()), interval '1 hour') at
    left join counted c on c.hour = at
    group by at order by at`
}

/** The outcomes of the deliveries of every endpoint of a tenant, in periods of six hours, without durations. */
export async function findEndpointSeries(
  sql: Sql,
  tenant_id: string,
): Promise<z.output<typeof endpointSeriesSchema>[]> {
  return await sql<z.output<typeof endpointSeriesSchema>[]>`
    select endpoint_id, jsonb_agg(
      jsonb_build_object('at', ends - interval '6 hours', 'delivered', delivered, 'failed', failed,
        'failed_attempts', failed_attempts) order by ends) as points
    from (
      select p.id as endpoint_id, ends, ${counts(sql)}
      from webhook_endpoints p
      cross join generate_series(
        date_trunc('hour', now()) - interval '161 hours', date_trunc('hour', now()) + interval '1 hour',
        interval '6 hours') ends
      left join webhook_stats c on c.tenant_id = p.tenant_id and c.endpoint_id = p.id
        and c.hour >= ends - interval '6 hours' and c.hour < ends
      where p.tenant_id = ${tenant_id} and p.deleted_at is null
      group by p.id, ends
    ) period
    group by endpoint_id`
}

function counts(sql: Sql) {
  return sql`
    coalesce(sum(c.count) filter (where c.bucket >= 0), 0)::bigint as delivered,
    coalesce(sum(c.count) filter (where c.bucket = ${BUCKETS.undelivered}), 0)::bigint as failed,
    coalesce(sum(c.count) filter (where c.bucket = ${BUCKETS.failed_attempt}), 0)::bigint as failed_attempts`
}

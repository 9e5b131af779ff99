// The statistics of an endpoint in the last seven days.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import { BUCKET_BASE, BUCKETS } from './numbers.ts'

const count = (description: string, example: number) => z.int().meta({ description, example })
const tookMs = (description: string, example: number) => z.int().nullable().meta({ description, example })

export const endpointStatsSchema = z
  .object({
    delivered: count('The number of successful deliveries.', 1200),
    failed: count('The number of deliveries that failed: `failed` or `exhausted`.', 3),
    pending: count('The number of deliveries that currently wait for an attempt or are being sent.', 2),
    p50_ms: tookMs('The median response time of successful requests (p50); null if there were none.', 84),
    p95_ms: tookMs('The 95th percentile of their response time (p95), accurate to about 5 %.', 310),
    last_success_at: timestamp.nullable().meta({ description: 'When the last attempt succeeded.' }),
    last_failure_at: timestamp
      .nullable()
      .meta({ description: 'When the last attempt failed.', example: null }),
  })
  .meta({
    id: 'WebhookEndpointStats',
    description: 'Delivery statistics for the last seven days. Tests and replays are not counted.',
  })
export type EndpointStats = z.output<typeof endpointStatsSchema>

/** The statistics of an endpoint, all zero or null without deliveries; undefined if the endpoint does not exist. */
export async function findEndpointStats(
  sql: Sql,
  tenant_id: string,
  id: string,
): Promise<EndpointStats | undefined> {
  const [row] = await sql<EndpointStats[]>`
    with counted as (
      select bucket, sum(count) as count, max(last_at) as last_at from webhook_stats
      where tenant_id = ${tenant_id} and endpoint_id = ${id}
        and hour > date_trunc('hour', now()) - interval '7 days'
      group by bucket
    ), ranked as (
      select round(power(${BUCKET_BASE}::double precision, bucket))::bigint as took_ms,
        sum(count) over (order by bucket) / sum(count) over () as share
      from counted where bucket >= 0
    )
    select
      (select coalesce(sum(count), 0)::bigint from counted where bucket >= 0) as delivered,
      (select coalesce(sum(count), 0)::bigint from counted where bucket = ${BUCKETS.undelivered}) as failed,
      (select count(*) from webhook_due d where d.tenant_id = e.tenant_id and d.endpoint_id = e.id)
        + (select count(*) from jobs j
          where j.queue = ${sendDelivery.queue} and j.tenant_id = e.tenant_id and j.finished_at is null
            and j.resource_id = e.id and j.name = ${sendDelivery.name}) as pending,
      (select min(took_ms) from ranked where share >= 0.5) as p50_ms,
      (select min(took_ms) from ranked where share >= 0.95) as p95_ms,
      (select max(last_at) from counted where bucket >= 0) as last_success_at,
      (select max(last_at) from counted where bucket = ${BUCKETS.failed_attempt}) as last_failure_at
    from webhook_endpoints e where e.tenant_id = ${tenant_id} and e.id = ${id} and e.deleted_at is null`
  return row
}

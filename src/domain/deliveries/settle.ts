// Settles attempts: one statement writes the outcome with the job, the endpoint and the endpoint's statistics.
import { isoText, type Fragment, type Sql } from '#core/db.ts'
import { traceColumn } from '#core/tracing.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { finishing, fencing, type Settlement } from '../jobs/settle.ts'
import { addingStats, BUCKET_BASE, BUCKETS } from '../webhook-endpoints/numbers.ts'
import { hasDeliveryId, isCreatedInWeeksOf } from './by-id.ts'

/** An endpoint whose attempts have all failed for this long is disabled. */
const DISABLE_AFTER_DAYS = 5
/** The number of attempts that the log of a delivery retains. */
const MAX_LOGGED_ATTEMPTS = 50
/** The excerpt to erase when an attempt is added: the last five attempts retain their excerpts. */
const EXCERPT_TO_ERASE = ['-5', 'response_excerpt']

/** How an attempt at a delivery ended. */
export type DeliverySettlement = Settlement & { change: DeliveryChange }

/** The outcome of an attempt, as the statement reads it. */
export type DeliveryChange = {
  delivery_id: string
  delivery_created_at: string
  endpoint_id: string
  /** The kind of attempt. `manual`: it does not affect the schedule. `test`: it does not affect the endpoint. */
  how: 'scheduled' | 'manual' | 'test'
  /** `retry`: the next attempt follows after `next_ms`. A failed manual attempt changes nothing. */
  result: 'delivered' | 'retry' | 'failed' | 'exhausted' | 'skipped'
  next_ms: number | null
  /** The receiver answered 410 Gone. */
  gone: boolean
  /** Null if no request was sent. */
  attempt: {
    status_code: number | null
    duration_ms: number
    error: string | null
    response_excerpt: string | null
  } | null
}

/**
 * Writes the outcomes of attempts. A delivered delivery stays delivered, even if a concurrent attempt reports another
 * outcome. An endpoint that answered 410, or whose attempts have all failed for five days, is disabled with an event.
 * Returns the ids of the jobs that passed the fence.
 */
export async function settleDeliveries(sql: Sql, settlements: DeliverySettlement[]): Promise<Set<string>> {
  const trace = traceColumn(sql)
  const disabled = 'webhook_endpoint.disabled' satisfies EventType
  const rows = await sql<{ id: string }[]>`
    with ${fencing(sql, settlements)},
    updates as materialized (
      select fenced.tenant_id, c.*, (c.attempt ->> 'duration_ms')::float8 as duration_ms,
        c.result = 'delivered' as ok, c.how = 'scheduled' as counts
      from fenced cross join lateral jsonb_to_record(fenced.change) as c(
        delivery_id uuid, endpoint_id uuid, how text, result text, next_ms float8,
        gone boolean, attempt jsonb)
      where fenced.is_final
    ),
    ${deliveryUpdates(
      sql,
      settlements.map(({ change }) => change),
    )},
    due as (
      insert into webhook_due (tenant_id, endpoint_id, sequence, delivery_id, delivery_created_at, due_at, queued_at
        ${trace.name})
      select tenant_id, endpoint_id, sequence, id, created_at, next_attempt_at, clock_timestamp() ${trace.value}
      from delivery where status = 'pending' and how = 'scheduled'
      on conflict do nothing
    ), not_due as (
      delete from webhook_due w using delivery d
      where d.ok and w.tenant_id = d.tenant_id and w.endpoint_id = d.endpoint_id and w.sequence = d.sequence
        and w.delivery_id = d.id
    ),
    ${endpointUpdates(sql)},
    event as (${insertingEvents(
      sql,
      'webhook_endpoint',
      sql`select e.*, uuidv7() as event_id, ${disabled} as event from endpoint e where e.is_announced`,
    )}),
    counted as (
      select tenant_id, endpoint_id, b.bucket from updates
      cross join lateral (values
        (case when ok then round(ln(greatest(duration_ms, 1)) / ln(${BUCKET_BASE}::float8))
          when attempt is not null then ${BUCKETS.failed_attempt}::smallint end),
        (case when result in ('failed', 'exhausted') then ${BUCKETS.undelivered}::smallint end)) as b(bucket)
      where b.bucket is not null and counts
    ), stats as (${addingStats(sql, sql`counted`)}),
    ${finishing(sql, settlements)}
    select id from job`
  return new Set(rows.map(({ id }) => id))
}

/** The part `delivery`: updates each delivery with the outcome of its attempt. */
function deliveryUpdates(sql: Sql, changes: DeliveryChange[]): Fragment {
  const times = changes.map(({ delivery_created_at }) => delivery_created_at)
  const next = sql`
          when t.result = 'retry' then due_after(t.tenant_id, t.next_ms * interval '1 millisecond')`
  return sql`
    delivery as (
      update webhook_deliveries d set
        status = case when d.status = 'delivered' or t.ok then 'delivered'
          when t.how = 'manual' then d.status when t.result = 'retry' then 'pending' else t.result end,
        attempts = d.attempts + (t.how <> 'manual' and t.attempt is not null)::integer,
        step = d.step + (t.how = 'scheduled' and t.attempt is not null)::integer,
        next_attempt_at = case when d.status = 'delivered' or t.ok then null
          when t.how = 'manual' then d.next_attempt_at
          ${changes.some(({ result }) => result === 'retry') ? next : sql``} end,
        last_status_code = case when t.attempt is null or (t.how = 'manual' and not t.ok) then d.last_status_code
          else (t.attempt ->> 'status_code')::smallint end,
        last_error = case when t.attempt is null or (t.how = 'manual' and not t.ok) then d.last_error
          when t.ok then null else t.attempt ->> 'error' end,
        delivered_at = case when t.ok then coalesce(d.delivered_at, clock_timestamp()) else d.delivered_at end,
        failed_at = case when t.ok or t.how = 'manual' then d.failed_at
          else coalesce(d.failed_at, clock_timestamp()) end,
        attempts_log = case when t.attempt is null then d.attempts_log else
          jsonb_set(case when jsonb_array_length(d.attempts_log) >= ${MAX_LOGGED_ATTEMPTS}
            then d.attempts_log - 0 else d.attempts_log end, ${EXCERPT_TO_ERASE}::text[], 'null', false)
          || (t.attempt || case when d.excerpts_erased then '{"response_excerpt": null}'::jsonb else '{}' end
            || jsonb_build_object('manual', t.how = 'manual',
            'at', ${isoText(sql, sql`(clock_timestamp() - t.duration_ms * interval '1 millisecond')`)})) end,
        updated_at = clock_timestamp()
      from updates t
      where ${hasDeliveryId(sql, sql`t.tenant_id`, sql`t.delivery_id`)} and ${isCreatedInWeeksOf(sql, times)}
      returning d.tenant_id, d.endpoint_id, d.id, d.created_at, d.sequence, d.status, d.next_attempt_at, t.how, t.ok
    )`
}

/** The parts up to `endpoint`: whether an endpoint is failing now, and whether the failure disables the endpoint. */
function endpointUpdates(sql: Sql): Fragment {
  return sql`
    attempted as (
      select tenant_id, endpoint_id, bool_or(ok) as ok, bool_or(gone) as gone, bool_or(counts and not ok) as fails
      from updates where how <> 'test' and attempt is not null group by 1, 2
    ), changed as (
      select v.*, p.* from (select * from attempted order by tenant_id, endpoint_id) v
      cross join lateral (
        select case when p.status = 'disabled' then null when v.gone then 'gone'
            when v.fails and not v.ok and p.failing_since < now() - ${DISABLE_AFTER_DAYS} * interval '1 day'
              then 'failing' end as disables
        from webhook_endpoints p
        where p.tenant_id = v.tenant_id and p.id = v.endpoint_id and (
          (v.ok and p.failing_since is not null) or (v.gone and p.status = 'enabled')
          or (v.fails and not v.ok and (p.failing_since is null
            or (p.failing_since < now() - ${DISABLE_AFTER_DAYS} * interval '1 day' and p.status = 'enabled'))))
        for update
      ) p
    ), endpoint as (
      update webhook_endpoints p set
        failing_since = case when j.ok then null when j.fails then coalesce(p.failing_since, now())
          else p.failing_since end,
        status = case when j.disables is null then p.status else 'disabled' end,
        disabled_reason = coalesce(j.disables, p.disabled_reason),
        updated_at = case when j.disables is null then p.updated_at else clock_timestamp() end
      from changed j where p.tenant_id = j.tenant_id and p.id = j.endpoint_id
      returning p.*, j.disables is not null and p.deleted_at is null as is_announced
    )`
}

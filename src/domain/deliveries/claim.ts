// Claims due deliveries from the backlogs of their endpoints, round robin, and inserts their jobs as claimed by
// this worker.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import { enqueuing } from '#jobs/job.ts'
import { LEASE_MS, type ClaimedJob, type TenantShare } from '../jobs/claim.ts'
import { waitEndedAt } from '../switches/holds.ts'
import { dropUnwanted, isUnwanted } from './drop.ts'
import {
  backlogsOf,
  lockBacklogs,
  type DueBacklog,
  type BacklogPosition,
  type ScannedBacklogs,
} from './backlogs.ts'

/** The sends of a rate-limited endpoint are scheduled up to this far ahead. */
const SEND_AHEAD_MS = 200
/**
 * Up to this rate each send is scheduled separately. Above this rate the sends within `RATE_STEP_MS` begin together, so
 * that they are read and settled in batches.
 */
const MAX_SINGLE_RATE_PER_S = 100
const RATE_STEP_MS = 50
/** The delay before the next scan of a backlog that another process has locked. */
const BUSY_RETRY_DELAY_MS = 10

/** A claimed job; it begins in `begins_in_ms`, which spreads the requests of a rate-limited endpoint. */
type ClaimedDelivery = { job: ClaimedJob; backlog: BacklogPosition; begins_in_ms: number }

export type ClaimedDeliveries = {
  jobs: ClaimedDelivery[]
  /** Where the next scan continues; null: from the first backlog. */
  after: BacklogPosition | null
  /** The number of unwanted deliveries removed from their backlogs. The backlogs may contain more of them. */
  dropped: number
  /** The backlogs that had work to do. */
  scanned: { backlog: BacklogPosition; next_scan: NextScan }[]
}

/**
 * When a backlog is scanned again before the regular scan reaches it. `after_attempt`: after an attempt to its
 * endpoint has ended, because the endpoint's window or the worker's slots are used up. `in_ms`: after a delay,
 * because of its rate limit or a lock. Null: not earlier.
 */
export type NextScan = 'after_attempt' | { in_ms: number } | null

type ClaimsByBacklog = Pick<ClaimedDeliveries, 'jobs' | 'scanned'>

export type ClaimOptions = {
  worker: string
  /** The maximum number of deliveries to claim. */
  room: number
  /** The limit on each tenant's claimed deliveries. */
  share: TenantShare | undefined
  /** Whether an endpoint is known to respond quickly. */
  proven: (endpoint_id: string) => boolean
  /** When this worker last sent a request to an endpoint, by a monotonic clock; null if never. */
  last_at: (endpoint_id: string) => number | null
  /**
   * Endpoints that are not proven get at most `window` deliveries each and `room` in total: first the endpoints
   * without open attempts, and among them the endpoint that has waited longest. Further attempts to the same endpoint
   * are limited by `room_for_more`.
   */
  unproven: { window: number; room: number; room_for_more: number }
}

export const FIRST_BACKLOG: BacklogPosition = { tenant_id: LOWEST_ID, endpoint_id: LOWEST_ID }

/**
 * Claims due deliveries, for each endpoint up to its limit of open attempts. A failing endpoint gets one delivery at
 * a time, an ordered endpoint the next delivery in its sequence. The backlogs are locked before a second statement
 * counts the open attempts, so two workers never use the same free slot.
 */
export async function claimDeliveries(
  sql: Sql,
  scanned_backlogs: ScannedBacklogs,
  options: ClaimOptions,
): Promise<ClaimedDeliveries> {
  return await sql.begin(async (tx) => {
    const { backlogs, busy, after } = await lockBacklogs(tx, scanned_backlogs)
    const unwanted = backlogs.filter(({ enabled, deleted, stale }) => !enabled || deleted || stale)
    const dropped = unwanted.length === 0 ? 0 : await dropUnwanted(tx, unwanted)
    // Skips backlogs that may still contain many deliveries to drop: a search for due deliveries would read all
    // deliveries that are to be dropped.
    const open = backlogs.filter(({ deleted, stale }) => !deleted && !stale)
    const { jobs, scanned } =
      open.length === 0 ? { jobs: [], scanned: [] } : await claimFrom(tx, open, options)
    for (const backlog of busy) scanned.push({ backlog, next_scan: { in_ms: BUSY_RETRY_DELAY_MS } })
    // A due delivery that was not claimed, although no limit applies, must be dropped: it was queued after
    // `dropUnwanted` had removed the others.
    const useful = new Set(jobs.map(({ backlog }) => backlog.endpoint_id))
    for (const { backlog, next_scan } of scanned) if (next_scan !== null) useful.add(backlog.endpoint_id)
    const useless = open.filter(({ endpoint_id }) => !useful.has(endpoint_id))
    const late = useless.length === 0 ? 0 : await dropUnwanted(tx, useless)
    return { jobs, scanned, after, dropped: dropped + late }
  })
}

async function claimFrom(tx: Tx, backlogs: DueBacklog[], options: ClaimOptions): Promise<ClaimsByBacklog> {
  const requested = tx`
    select job_id, tenant_id, endpoint_id as resource_id, true as will_wake, null::text as dedupe_key,
      null::text as request_id, due_at, trace_context,
      jsonb_build_object('delivery_id', delivery_id, 'created_at', delivery_created_at, 'recovery_id', recovery_id)
        as payload
    from claimed`
  const claimed_by = { worker: options.worker, lease_ms: LEASE_MS }
  const rows = await tx<ClaimedRow[]>`
    with ${freeSlots(tx, backlogs, options)},
    ${dueDeliveries(tx)},
    ${chosenDeliveries(tx, options)},
    claimed as (
      delete from webhook_due w using chosen c
      where w.tenant_id = c.tenant_id and w.endpoint_id = c.endpoint_id and w.sequence = c.sequence
        and w.delivery_id = c.delivery_id
      -- The first attempt is due before its delivery is created, which is rounded down to a millisecond.
      returning w.*, c.nth, uuidv7() as job_id,
        w.due_at < w.delivery_created_at + interval '1 millisecond' as is_first_attempt
    ),
    job as (${enqueuing(tx, sendDelivery, requested, tx`due_at`, claimed_by, tx`trace_context`)} returning *)
    select l.tenant_id, l.endpoint_id, l.free, coalesce(n.due, 0)::integer as due, t.nth, j.id, j.queue, j.name,
      j.payload, j.request_id, j.trace_context, t.is_first_attempt, j.attempt, j.started_at, j.max_attempts,
      j.failures, 0 as database_failures, j.lease_token,
      extract(epoch from now() - greatest(j.run_at, ${waitEndedAt(tx)}))::float8 * 1000 as waited_ms,
      extract(epoch from now() - j.created_at)::float8 * 1000 as age_ms, null::float8 as unknown_ms,
      null::jsonb as call, null::jsonb as send_history
    from backlog l
    left join (
      select tenant_id, endpoint_id, count(*) as due from waiting group by 1, 2) n using (tenant_id, endpoint_id)
    left join claimed t using (tenant_id, endpoint_id)
    left join job j on j.id = t.job_id`
  return await schedule(tx, backlogs, rows)
}

/** The part `backlog`: each backlog with its number of open jobs and of free slots (`free`). */
function freeSlots(tx: Tx, backlogs: DueBacklog[], { proven, last_at, unproven }: ClaimOptions): Fragment {
  const l = backlogsOf(
    tx,
    backlogs.map(({ rate_per_s, wait_ms, window, ...backlog }) => {
      const is_proven = proven(backlog.endpoint_id)
      return {
        ...backlog,
        is_proven,
        last_at: last_at(backlog.endpoint_id),
        window: is_proven ? window : Math.min(window, unproven.window),
        allowed: rate_per_s === null ? window : allowance(rate_per_s, wait_ms),
      }
    }),
  )
  return tx`
    open as (
      select j.tenant_id, j.resource_id, count(*) as jobs
      from (select distinct l.tenant_id from ${l}) l
      cross join lateral (
        select j.tenant_id, j.resource_id from jobs j
        where j.queue = ${sendDelivery.queue} and j.tenant_id = l.tenant_id and j.finished_at is null
          and j.name = ${sendDelivery.name}
        -- The order is that of the index of open jobs: another index may seem as cheap while no job is open.
        order by j.priority, j.run_at offset 0
      ) j
      group by 1, 2
    ), backlog as (
      select l.*, coalesce(o.jobs, 0) as jobs, least(l."window" - coalesce(o.jobs, 0), l.allowed) as free from ${l}
      left join open o on o.tenant_id = l.tenant_id and o.resource_id = l.endpoint_id
    )`
}

/** The part `waiting`: the due deliveries of each backlog, up to its free slots; `nth` is the rank in its backlog. */
function dueDeliveries(tx: Tx): Fragment {
  return tx`
    waiting as (
      select w.*, l.is_proven, l.last_at, l.jobs,
        row_number() over (partition by w.tenant_id, w.endpoint_id order by w.due_rank) as nth
      from backlog l cross join lateral (
        (select w.*, row_number() over (order by w.due_at, w.sequence) as due_rank from webhook_due w
        where not l.ordered and w.tenant_id = l.tenant_id and w.endpoint_id = l.endpoint_id and w.due_at <= now()
          and not ${isUnwanted(tx)}
        order by w.due_at, w.sequence limit greatest(l.free, 0))
        union all
        (select w.*, 1 from (
          select * from webhook_due w
          where l.ordered and w.tenant_id = l.tenant_id and w.endpoint_id = l.endpoint_id
          order by w.sequence limit 1) w
        where w.due_at <= now() and l.free > 0 and not ${isUnwanted(tx)})
      ) w
    )`
}

/** The part `chosen`: the deliveries to claim, limited by the shares of tenants and of slow endpoints. */
function chosenDeliveries(tx: Tx, { room, share, unproven }: ClaimOptions): Fragment {
  return tx`
    shared as (
      select w.*, row_number() over (partition by w.tenant_id order by w.nth, w.due_at) as tenant_rank,
        row_number() over (partition by w.is_proven order by w.jobs + w.nth, w.last_at nulls first,
          w.due_at) as speed_rank
      from waiting w
    ), chosen as materialized (
      select s.* from shared s
      where (s.is_proven or s.speed_rank <=
          case when s.jobs + s.nth = 1 then ${unproven.room}::integer else ${unproven.room_for_more}::integer end)
        and s.tenant_rank <= coalesce(${share?.left ?? null}::integer
          - coalesce((${tx.json(share?.claimed ?? {})}::jsonb ->> s.tenant_id::text)::integer, 0), s.tenant_rank)
      order by s.nth, s.due_at limit ${room}
    )`
}

/**
 * A backlog with one of its claimed jobs; the fields of the job are null if none was claimed. `due`: the number of due
 * deliveries of the backlog, counted up to `free`.
 */
type ClaimedRow = BacklogPosition & { free: number; due: number } & (
    | (ClaimedJob & { nth: number })
    | { [key in 'nth' | Exclude<keyof ClaimedJob, 'tenant_id'>]: null }
  )

/**
 * Schedules each delivery, stores when rate-limited endpoints may receive again, and decides when each backlog is
 * scanned again.
 */
async function schedule(tx: Tx, backlogs: DueBacklog[], rows: ClaimedRow[]): Promise<ClaimsByBacklog> {
  const limits = new Map(backlogs.map(({ endpoint_id, ...backlog }) => [endpoint_id, backlog]))
  const sent: (BacklogPosition & { reserved_ms: number })[] = []
  const claimed: ClaimsByBacklog = { jobs: [], scanned: [] }
  for (const of_backlog of Map.groupBy(rows, ({ endpoint_id }) => endpoint_id).values()) {
    const { tenant_id, endpoint_id, free, due } = of_backlog[0]!
    const backlog = { tenant_id, endpoint_id }
    const { rate_per_s, wait_ms } = limits.get(endpoint_id)!
    const gap_ms = rate_per_s === null ? 0 : 1000 / rate_per_s
    const jobs = of_backlog.filter((row) => row.id !== null)
    for (const { endpoint_id: _endpoint, free: _free, due: _due, nth, ...job } of jobs)
      claimed.jobs.push({
        job,
        backlog,
        begins_in_ms: wait_ms + alignedToStep((nth - 1) * gap_ms, rate_per_s),
      })
    const reserved_ms = jobs.length * gap_ms
    if (reserved_ms > 0) sent.push({ ...backlog, reserved_ms })
    const is_limited = rate_per_s !== null && jobs.length >= allowance(rate_per_s, wait_ms)
    const more = due >= free || due > jobs.length
    const next_scan: NextScan = is_limited
      ? { in_ms: wait_ms + reserved_ms - SEND_AHEAD_MS / 2 }
      : more
        ? 'after_attempt'
        : null
    claimed.scanned.push({ backlog, next_scan })
  }
  if (sent.length > 0)
    await tx`
      update webhook_backlogs n
      set next_send_at = greatest(n.next_send_at, clock_timestamp()) + s.reserved_ms * interval '1 millisecond'
      from jsonb_to_recordset(${tx.json(sent)}) as s(tenant_id uuid, endpoint_id uuid, reserved_ms float8)
      where n.tenant_id = s.tenant_id and n.endpoint_id = s.endpoint_id`
  return claimed
}

/**
 * The delay of a send after the first one. Above `MAX_SINGLE_RATE_PER_S` sends are grouped in steps; rounding up to the
 * next step never exceeds the rate.
 */
function alignedToStep(after_ms: number, rate_per_s: number | null): number {
  return (rate_per_s ?? 0) > MAX_SINGLE_RATE_PER_S
    ? Math.ceil(after_ms / RATE_STEP_MS) * RATE_STEP_MS
    : after_ms
}

function allowance(rate_per_s: number, wait_ms: number): number {
  return wait_ms > SEND_AHEAD_MS ? 0 : Math.floor(((SEND_AHEAD_MS - wait_ms) * rate_per_s) / 1000) + 1
}

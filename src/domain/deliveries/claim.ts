// Takes due deliveries out of the lines of their endpoints, by turns, and makes jobs that this worker already holds.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import { enqueue } from '#jobs/job.ts'
import { LEASE_MS, type ClaimedJob, type TenantShare } from '../jobs/claim.ts'
import { dropUnwanted, isUnwanted } from './drop.ts'
import {
  backlogsOf,
  lockBacklogs,
  type DueBacklog,
  type BacklogPosition,
  type ScannedBacklogs,
} from './backlogs.ts'

/** A rate is kept by sending each in time, so far ahead. */
const SEND_AHEAD_MS = 200
/** Up to this rate each begins by itself. Above, those of a step begin together, and so are read and settled together. */
const MAX_SINGLE_RATE_PER_S = 100
const RATE_STEP_MS = 50
/** A line that somebody else is busy with is looked at again after so long. */
const BUSY_RETRY_DELAY_MS = 10

/** A job that was made for this worker; it begins in `begins_in_ms`, because the rate of its endpoint is limited. */
type ClaimedDelivery = { job: ClaimedJob; backlog: BacklogPosition; begins_in_ms: number }

export type ClaimedDeliveries = {
  jobs: ClaimedDelivery[]
  /** Where the next walk continues; null: from the first line. */
  after: BacklogPosition | null
  /** How many left their lines because nobody wants them any more: there may be others. */
  dropped: number
  /** The lines in which there was something to do. */
  scanned: { backlog: BacklogPosition; next_scan: NextScan }[]
}

/**
 * When a line is looked at again, sooner than a walk comes by: when an attempt there ends, because its window or the room
 * holds up more; in so many milliseconds, because its rate does, or somebody else; or not.
 */
export type NextScan = 'after_attempt' | { in_ms: number } | null

type ClaimsByBacklog = Pick<ClaimedDeliveries, 'jobs' | 'scanned'>

export type ClaimOptions = {
  worker: string
  /** How many are wanted. */
  room: number
  /** Of each tenant no more than this has left. */
  share: TenantShare | undefined
  /** Endpoints that are known to answer soon. */
  proven: (endpoint_id: string) => boolean
  /** When this worker last sent something to an endpoint, on a clock of its own; null: not that it knew. */
  last_at: (endpoint_id: string) => number | null
  /**
   * The others get at most `window` each, and `room` together: first those that have none under way, of these the one that
   * has waited longest for its turn. For a second attempt and more of each there is `room_for_more`.
   */
  unproven: { window: number; room: number; room_for_more: number }
}

export const FIRST_BACKLOG: BacklogPosition = { tenant_id: LOWEST_ID, endpoint_id: LOWEST_ID }

/**
 * Takes due deliveries, of each endpoint no more than it may have under way. An endpoint that is failing gets one at a
 * time, an ordered one its next in sequence. The locks come first and the count of what is under way after them, in a
 * statement of its own: so two workers never count the same.
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
    // Before all that nobody wants has left it, looking for the rest would mean to look through all of it.
    const open = backlogs.filter(({ deleted, stale }) => !deleted && !stale)
    const { jobs, scanned } =
      open.length === 0 ? { jobs: [], scanned: [] } : await claimFrom(tx, open, options)
    for (const backlog of busy) scanned.push({ backlog, next_scan: { in_ms: BUSY_RETRY_DELAY_MS } })
    // Something is due, and nothing holds it up: nobody wants it. It came after the line was looked through.
    const useful = new Set(jobs.map(({ backlog }) => backlog.endpoint_id))
    for (const { backlog, next_scan } of scanned) if (next_scan !== null) useful.add(backlog.endpoint_id)
    const useless = open.filter(({ endpoint_id }) => !useful.has(endpoint_id))
    const late = useless.length === 0 ? 0 : await dropUnwanted(tx, useless)
    return { jobs, scanned, after, dropped: dropped + late }
  })
}

/** Whether there is any line: without one a walk would ask three times for nothing. */
export async function hasBacklog(sql: Sql): Promise<boolean> {
  const rows = await sql`select from webhook_due limit 1`
  return rows.length > 0
}

async function claimFrom(tx: Tx, backlogs: DueBacklog[], options: ClaimOptions): Promise<ClaimsByBacklog> {
  const requested = tx`
    select job_id, tenant_id, endpoint_id as subject_id, true as will_wake, null::text as dedupe_key,
      null::text as request_id, due_at,
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
      returning w.*, c.nth, uuidv7() as job_id
    ),
    job as (${enqueue(tx, sendDelivery, requested, tx`due_at`, claimed_by)} returning *)
    select l.tenant_id, l.endpoint_id, l.free, coalesce(n.due, 0)::integer as due, t.nth, j.id, j.queue, j.name,
      j.payload, j.request_id, j.attempt, j.max_attempts, j.failures, j.lease_token,
      extract(epoch from now() - j.run_at)::float8 * 1000 as waited_ms,
      extract(epoch from now() - j.created_at)::float8 * 1000 as age_ms, null::float8 as unknown_ms,
      null::jsonb as call, null::jsonb as send_history
    from backlog l
    left join (
      select tenant_id, endpoint_id, count(*) as due from waiting group by 1, 2) n using (tenant_id, endpoint_id)
    left join claimed t using (tenant_id, endpoint_id)
    left join job j on j.id = t.job_id`
  return await schedule(tx, backlogs, rows)
}

/** The part `backlog`: the lines with how many jobs they have, and how many more they may have now (`free`). */
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
      select j.tenant_id, j.subject_id, count(*) as jobs
      from (select distinct l.tenant_id from ${l}) l
      cross join lateral (
        select j.tenant_id, j.subject_id from jobs j
        where j.queue = ${sendDelivery.queue} and j.tenant_id = l.tenant_id and j.finished_at is null
          and j.name = ${sendDelivery.name} offset 0
      ) j
      group by 1, 2
    ), backlog as (
      select l.*, coalesce(o.jobs, 0) as jobs, least(l."window" - coalesce(o.jobs, 0), l.allowed) as free from ${l}
      left join open o on o.tenant_id = l.tenant_id and o.subject_id = l.endpoint_id
    )`
}

/** The part `waiting`: what is due in each line, as much as it has room for; `nth` within its line. */
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

/** The part `chosen`: what of it is claimed now, by the shares of tenants and of slow endpoints. */
function chosenDeliveries(tx: Tx, { room, share, unproven }: ClaimOptions): Fragment {
  return tx`
    shared as (
      select w.*, row_number() over (partition by w.tenant_id order by w.nth, w.due_at) as tenant_rank,
        row_number() over (partition by w.is_proven order by w.jobs + w.nth, w.last_at nulls first, w.due_at) as speed_rank
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

/** A line and what is due in it, at most `free`, and a job that was made of that, or null. */
type ClaimedRow = BacklogPosition & { free: number; due: number } & (
    | (ClaimedJob & { nth: number })
    | { [key in 'nth' | Exclude<keyof ClaimedJob, 'tenant_id'>]: null }
  )

/** Says when each begins, writes when lines with a limited rate may send again, and says when each is looked at again. */
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

/** How long after the first: later, never sooner than the rate allows. */
function alignedToStep(after_ms: number, rate_per_s: number | null): number {
  return (rate_per_s ?? 0) > MAX_SINGLE_RATE_PER_S
    ? Math.ceil(after_ms / RATE_STEP_MS) * RATE_STEP_MS
    : after_ms
}

function allowance(rate_per_s: number, wait_ms: number): number {
  return wait_ms > SEND_AHEAD_MS ? 0 : Math.floor(((SEND_AHEAD_MS - wait_ms) * rate_per_s) / 1000) + 1
}

// Takes due deliveries out of the lines of their endpoints, by turns, and makes jobs that this worker already holds.
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import { LEASE_MS, type ClaimedJob, type TenantShare } from '../jobs/claim.ts'
import { droppedAs } from './dropped.ts'

/** The most lines that one walk visits, whether anything in them is due or not. */
const LINES_A_WALK = 250
/** How many deliveries that nobody wants any more leave a line at once. */
const DROPPED_AT_ONCE = 500
/** A rate is kept by sending each in time, so far ahead. */
const AHEAD_MS = 100

/** Where a walk through the lines continues. */
export type LinePosition = { tenant_id: string; endpoint_id: string }
export const FIRST_LINE: LinePosition = { tenant_id: LOWEST_ID, endpoint_id: LOWEST_ID }

/** Which lines are visited: the next of a walk through all, or these, and those of all endpoints of these tenants. */
export type VisitedLines = { after: LinePosition } | { lines: LinePosition[]; tenants: string[] }

/** A job that was made for this worker; it begins in `begins_in_ms`, because the rate of its endpoint is limited. */
type TakenJob = { job: ClaimedJob; line: LinePosition; begins_in_ms: number }

export type TakenDeliveries = {
  jobs: TakenJob[]
  /** Where the next walk continues; null: from the first line. */
  after: LinePosition | null
  /** How many left their lines because nobody wants them any more: there may be others. */
  dropped: number
}

/** A line in which something is due, with its endpoint locked. */
type DueLine = LinePosition & {
  ordered: boolean
  enabled: boolean
  deleted: boolean
  /** What was waiting before this is not sent. */
  enabled_at: string
  /** Whether it was disabled for a time, so that there may be such. */
  was_disabled: boolean
  /** What becomes of deliveries that are not sent. */
  dropped_as: 'failed' | 'skipped'
  /** How many jobs it may have at once. */
  window: number
  rate_per_s: number | null
  /** Until its rate allows the next. */
  wait_ms: number
}

/**
 * Takes up to `room` due deliveries, of each tenant no more than its `share` has left, and of each endpoint no more
 * than it may have under way. An endpoint that is failing gets one at a time, an ordered one its next in sequence. The
 * locks come first and the count of what is under way after them, in a statement of its own: so two workers never count
 * the same.
 */
export async function takeDeliveries(
  sql: Sql,
  visited: VisitedLines,
  options: { worker: string; room: number; share: TenantShare | undefined },
): Promise<TakenDeliveries> {
  return await sql.begin(async (tx) => {
    const { lines, after } = await lockLines(tx, visited)
    if (lines.length === 0) return { jobs: [], after, dropped: 0 }
    const unwanted = lines.filter(({ enabled, deleted, was_disabled }) => !enabled || deleted || was_disabled)
    const dropped = unwanted.length === 0 ? 0 : await dropUnwanted(tx, unwanted)
    const open = lines.filter(({ deleted }) => !deleted)
    const jobs = open.length === 0 ? [] : await takeFrom(tx, open, options)
    return { jobs, after, dropped }
  })
}

async function lockLines(
  tx: Tx,
  visited: VisitedLines,
): Promise<{ lines: DueLine[]; after: LinePosition | null }> {
  const rows = await tx<(LinePosition & { visited: number; line: DueLine | null })[]>`
    with recursive ${'after' in visited ? walk(tx, visited.after) : named(tx, visited)}, due as (
      select v.tenant_id, v.endpoint_id from visit v
      where v.visited > 0
        and exists (
          select from webhook_due w
          where w.tenant_id = v.tenant_id and w.endpoint_id = v.endpoint_id and w.due_at <= now())
        and not exists (
          select from pauses u
          where (u.queue is null or u.queue = ${sendDelivery.queue})
            and (u.tenant_id is null or u.tenant_id = v.tenant_id))
    ), line as (
      select p.* from due cross join lateral (
        select p.tenant_id, p.id as endpoint_id, p.ordered, p.status = 'enabled' as enabled,
          p.deleted_at is not null as deleted, p.enabled_at,
          p.enabled_at > p.created_at + interval '1 second' and p.enabled_at > now() - interval '10 days'
            as was_disabled,
          coalesce(${droppedAs(tx)}, 'skipped') as dropped_as,
          case when p.ordered or p.failing_since is not null then 1 else p.max_in_flight end as "window", p.rate_per_s,
          greatest(extract(epoch from p.next_send_at - clock_timestamp()) * 1000, 0)::float8 as wait_ms
        from webhook_endpoints p where p.tenant_id = due.tenant_id and p.id = due.endpoint_id
        for update skip locked
      ) p
    )
    select v.tenant_id, v.endpoint_id, v.visited, to_jsonb(line) as line
    from visit v left join line on line.tenant_id = v.tenant_id and line.endpoint_id = v.endpoint_id
    where v.visited > 0 and (line.endpoint_id is not null or v.visited = ${LINES_A_WALK})
    order by v.visited, v.tenant_id, v.endpoint_id`
  const last = rows.at(-1)
  return {
    lines: rows.flatMap(({ line }) => line ?? []),
    after:
      last?.visited === LINES_A_WALK ? { tenant_id: last.tenant_id, endpoint_id: last.endpoint_id } : null,
  }
}

/** The part `visit`: the next lines of a walk through all of them. */
function walk(tx: Tx, after: LinePosition): Fragment {
  return tx`
    visit as (
      select ${after.tenant_id}::uuid as tenant_id, ${after.endpoint_id}::uuid as endpoint_id, 0 as visited
      union all
      select next.tenant_id, next.endpoint_id, v.visited + 1 from visit v
      cross join lateral (
        select w.tenant_id, w.endpoint_id from webhook_due w
        where (w.tenant_id, w.endpoint_id) > (v.tenant_id, v.endpoint_id)
        order by w.tenant_id, w.endpoint_id limit 1
      ) next
      where v.visited < ${LINES_A_WALK}
    )`
}

/** The same of lines that are known. */
function named(tx: Tx, { lines, tenants }: Extract<VisitedLines, { lines: unknown }>): Fragment {
  return tx`
    visit as (
      select tenant_id, endpoint_id, 1 as visited
      from jsonb_to_recordset(${tx.json(lines)}) as l(tenant_id uuid, endpoint_id uuid)
      union
      select p.tenant_id, p.id, 1 from webhook_endpoints p
      where p.tenant_id = any(${tenants}::uuid[]) and p.deleted_at is null
    )`
}

/** Takes from the lines what is not sent, and says so of the deliveries. Returns how many these were. */
async function dropUnwanted(tx: Tx, lines: DueLine[]): Promise<number> {
  const rows = await tx`
    with unwanted as (
      select w.*, l.dropped_as from ${recordsOf(tx, lines)}
      cross join lateral (
        select w.* from (
          select * from webhook_due w
          where w.tenant_id = l.tenant_id and w.endpoint_id = l.endpoint_id and w.due_at <= now()
          order by w.due_at, w.sequence limit ${4 * DROPPED_AT_ONCE}
        ) w
        where l.deleted or (w.recovery_id is null and (not l.enabled or w.queued_at < l.enabled_at))
        limit ${DROPPED_AT_ONCE}
      ) w
    ), gone as (
      delete from webhook_due w using unwanted u
      where w.tenant_id = u.tenant_id and w.endpoint_id = u.endpoint_id and w.sequence = u.sequence
        and w.delivery_id = u.delivery_id
      returning w.tenant_id, w.endpoint_id, w.delivery_id, w.delivery_created_at, u.dropped_as
    ), delivery as (
      update webhook_deliveries d set status = g.dropped_as, next_attempt_at = null,
        failed_at = coalesce(d.failed_at, clock_timestamp()), updated_at = clock_timestamp()
      from gone g
      where d.tenant_id = g.tenant_id and d.id = g.delivery_id and d.created_at = g.delivery_created_at
        and d.status = 'pending'
    )
    select from gone`
  return rows.length
}

async function takeFrom(
  tx: Tx,
  lines: DueLine[],
  { worker, room, share }: { worker: string; room: number; share: TenantShare | undefined },
): Promise<TakenJob[]> {
  const rows = await tx<(ClaimedJob & { endpoint_id: string; nth: number })[]>`
    with open as (
      select j.tenant_id, j.subject_id, count(*) as jobs
      from (select distinct l.tenant_id from ${recordsOf(tx, lines)}) l
      cross join lateral (
        select j.tenant_id, j.subject_id from jobs j
        where j.queue = ${sendDelivery.queue} and j.tenant_id = l.tenant_id and j.finished_at is null offset 0
      ) j
      group by 1, 2
    ), waiting as (
      select w.*, row_number() over (partition by w.tenant_id, w.endpoint_id order by w.place) as nth
      from (select l.*, least(l."window" - coalesce(o.jobs, 0), l.allowed) as free from ${recordsOf(tx, lines)}
        left join open o on o.tenant_id = l.tenant_id and o.subject_id = l.endpoint_id) l
      cross join lateral (
        (select w.*, row_number() over (order by w.due_at, w.sequence) as place from webhook_due w
        where not l.ordered and w.tenant_id = l.tenant_id and w.endpoint_id = l.endpoint_id and w.due_at <= now()
          and (w.recovery_id is not null or (l.enabled and w.queued_at >= l.enabled_at))
        order by w.due_at, w.sequence limit greatest(l.free, 0))
        union all
        (select head.*, 1 from (
          select * from webhook_due w
          where l.ordered and w.tenant_id = l.tenant_id and w.endpoint_id = l.endpoint_id
          order by w.sequence limit 1) head
        where head.due_at <= now() and l.free > 0
          and (head.recovery_id is not null or (l.enabled and head.queued_at >= l.enabled_at)))
      ) w
    ), shared as (
      select w.*, row_number() over (partition by w.tenant_id order by w.nth, w.due_at) as of_tenant from waiting w
    ), chosen as materialized (
      select s.* from shared s
      where s.of_tenant <= coalesce(${share?.left ?? null}::integer
        - coalesce((${tx.json(share?.held ?? {})}::jsonb ->> s.tenant_id::text)::integer, 0), s.of_tenant)
      order by s.nth, s.due_at limit ${room}
    ), taken as (
      delete from webhook_due w using chosen c
      where w.tenant_id = c.tenant_id and w.endpoint_id = c.endpoint_id and w.sequence = c.sequence
        and w.delivery_id = c.delivery_id
      returning w.*, c.nth, uuidv7() as job_id
    ), job as (
      insert into jobs (id, tenant_id, queue, name, subject_id, payload, max_attempts, run_at, rung_at, state, attempt,
        worker, started_at, lease_token, lease_until)
      select t.job_id, t.tenant_id, ${sendDelivery.queue}, ${sendDelivery.name}, t.endpoint_id,
        jsonb_build_object('delivery_id', t.delivery_id, 'created_at', t.delivery_created_at,
          'recovery_id', t.recovery_id),
        ${sendDelivery.max_attempts}::integer, t.due_at, now(), 'running', 1, ${worker}, now(), gen_random_uuid(),
        clock_timestamp() + ${LEASE_MS} * interval '1 millisecond'
      from taken t
      returning *
    )
    select j.id, j.tenant_id, j.queue, j.name, j.payload, j.request_id, j.attempt, j.max_attempts, j.failures,
      j.lease_token, extract(epoch from now() - j.run_at)::float8 * 1000 as waited_ms,
      extract(epoch from now() - j.created_at)::float8 * 1000 as age_ms, null::float8 as unknown_ms,
      null::jsonb as call,
      j.subject_id as endpoint_id, t.nth
    from job j join taken t on t.job_id = j.id`
  const limited = new Map(
    lines.flatMap((line) => (line.rate_per_s === null ? [] : [[line.endpoint_id, line]])),
  )
  await keepRates(tx, limited, rows)
  return rows.map(({ endpoint_id, nth, ...job }) => {
    const line = { tenant_id: job.tenant_id, endpoint_id }
    const limit = limited.get(endpoint_id)
    return {
      job,
      line,
      begins_in_ms: limit === undefined ? 0 : limit.wait_ms + ((nth - 1) * 1000) / limit.rate_per_s!,
    }
  })
}

/** Says of endpoints with a limited rate when the next may be sent. */
async function keepRates(
  tx: Tx,
  limited: Map<string, DueLine>,
  taken: { endpoint_id: string }[],
): Promise<void> {
  const counts = Map.groupBy(taken, ({ endpoint_id }) => endpoint_id)
  const sent = [...limited.values()].flatMap(({ tenant_id, endpoint_id, rate_per_s }) => {
    const count = counts.get(endpoint_id)?.length ?? 0
    return count === 0 ? [] : [{ tenant_id, endpoint_id, takes_ms: (count * 1000) / rate_per_s! }]
  })
  if (sent.length === 0) return
  await tx`
    update webhook_endpoints p
    set next_send_at = greatest(p.next_send_at, clock_timestamp()) + s.takes_ms * interval '1 millisecond'
    from jsonb_to_recordset(${tx.json(sent)}) as s(tenant_id uuid, endpoint_id uuid, takes_ms float8)
    where p.tenant_id = s.tenant_id and p.id = s.endpoint_id`
}

/** The lines `l`, each with how many its rate allows in the next moment. */
function recordsOf(tx: Tx, lines: DueLine[]) {
  const items: Json = lines.map(({ rate_per_s, wait_ms, ...line }) => ({
    ...line,
    allowed: rate_per_s === null ? line.window : allowedNow(rate_per_s, wait_ms),
  }))
  return tx`
    jsonb_to_recordset(${tx.json(items)}) as l(tenant_id uuid, endpoint_id uuid, ordered boolean, enabled boolean,
      deleted boolean, enabled_at timestamptz, dropped_as text, "window" integer, allowed integer)`
}

function allowedNow(rate_per_s: number, wait_ms: number): number {
  return wait_ms > AHEAD_MS ? 0 : Math.floor(((AHEAD_MS - wait_ms) * rate_per_s) / 1000) + 1
}

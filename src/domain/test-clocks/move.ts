// Moves the clocks of tenants in test mode, and makes what is due by them due by the real time.
import { QUEUES } from '#core/config/queues.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import { sandboxAccount } from '../sandboxes/account.ts'
import {
  deadlinesOf,
  isWaitingJob,
  resourceDeadlinesOf,
  waitingWorkOf,
  type DeadlineRules,
} from './deadlines.ts'

/** A step includes the deadlines up to this long after the earliest one. */
const STEP = '1 second'
/** After so many steps, a step is longer: for example, a job that is retried every few seconds until the end. */
const MAX_SHORT_STEPS = 1_000
const LONG_STEP = '6 hours'
/** How long a step waits for the work of the previous one, which may be a receiver that does not answer. */
const MAX_WAIT_S = 30
const MAX_COUNTED = 10_000
/** Payments and verifications of a clock that does not move are read at these intervals, unless one is due earlier. */
const RESOURCE_INTERVALS_S = { least: 5, most: 3_600 }

/** `clock_offset`, `offset_ms`: how far the clock is ahead of the real time, the first as PostgreSQL writes it. */
export type ClockPosition = {
  tenant_id: string
  clock_offset: string
  offset_ms: number
  is_advancing: boolean
  /** Whether a payment or a verification may be due. */
  resources_due: boolean
}

/**
 * The clocks that move, and those whose tenant has something due by the clock and not by the real time. In random
 * order, so that none is always the last.
 */
export async function findClocksWithWork(sql: Sql): Promise<ClockPosition[]> {
  return await sql<ClockPosition[]>`
    select c.tenant_id, c.clock_offset::text, extract(epoch from c.clock_offset)::float8 * 1000 as offset_ms,
      c.advance_to is not null as is_advancing, c.advance_to is not null or ${areResourcesDue(sql)} as resources_due
    from test_clocks c
    where c.advance_to is not null or (c.clock_offset > '0' and (${areResourcesDue(sql)} or exists (
      select from (${waitingWorkOf(sql, sql`c.tenant_id`)}) w where w.at <= now() + c.clock_offset)))
    order by random()`
}

function areResourcesDue(sql: Sql | Tx): Fragment {
  return sql`coalesce(c.resources_due_at <= now() + c.clock_offset, true)`
}

/**
 * Makes up to `limit` jobs and deliveries due whose time has come by the clock of their tenant, in its order. Moves the
 * clock to its next deadline, once nothing is due and the work of the last step has ended. One transaction, under the
 * lock of the clock: one worker at a time has it, and the next one continues where it ended.
 *
 * `sandbox_due_at`: the next change that the sandbox has scheduled, by the clock of the tenant; null: none. The caller
 * has run what is due at `clock_offset`: if another worker has moved the clock since, nothing happens. Returns whether
 * the next pass should follow at once.
 */
export async function moveTestClock(
  sql: Sql,
  { tenant_id, clock_offset }: Pick<ClockPosition, 'tenant_id' | 'clock_offset'>,
  rules: DeadlineRules,
  { limit, sandbox_due_at }: { limit: number; sandbox_due_at: string | null },
): Promise<boolean> {
  return await sql.begin(async (tx) => {
    const [clock] = await tx<LockedClock[]>`
      select c.tenant_id, c.clock_offset::text, c.advance_to, c.steps,
        c.advance_to <= now() + c.clock_offset as has_arrived,
        c.moved_at < now() - ${MAX_WAIT_S} * interval '1 second' as has_waited,
        ${areResourcesDue(tx)} as resources_due
      from test_clocks c where c.tenant_id = ${tenant_id} for update skip locked`
    if (clock === undefined) return false
    if (clock.clock_offset !== clock_offset) return true
    if (clock.advance_to === null && clock.resources_due) await setResourcesDue(tx, clock, rules)
    const due = (await makeJobsDue(tx, clock, limit)) + (await makeDeliveriesDue(tx, clock, limit))
    if (due > 0 || clock.advance_to === null) return due >= limit
    if (!clock.has_waited && (await hasOpenWork(tx, tenant_id))) return false
    if (clock.has_arrived)
      await tx`update test_clocks set advance_to = null, remaining = 0 where tenant_id = ${tenant_id}`
    else await step(tx, clock, rules, sandbox_due_at)
    return !clock.has_arrived
  })
}

type LockedClock = {
  tenant_id: string
  /** An interval as PostgreSQL writes it. */
  clock_offset: string
  advance_to: string | null
  steps: number
  has_arrived: boolean
  has_waited: boolean
  resources_due: boolean
}

/**
 * Sets the time of the clock before which no payment and no verification can be due: neither one that is open, nor one
 * that is created later, because each has a delay. What is overdue, such as a cancel that the processor has not yet
 * answered, is read again after the shortest interval.
 */
async function setResourcesDue(
  tx: Tx,
  { tenant_id, clock_offset }: LockedClock,
  rules: DeadlineRules,
): Promise<void> {
  const { least, most } = RESOURCE_INTERVALS_S
  const delay_s = Math.min(most, rules.action_ttl_s, rules.verification_ttl_days * 86_400)
  const after = (delay: number) => tx`now() + ${clock_offset}::interval + ${delay} * interval '1 second'`
  await tx`
    update test_clocks set resources_due_at = greatest(${after(least)}, least(${after(delay_s)}, (
      select min(d.at) from (${resourceDeadlinesOf(tx, tx`${tenant_id}::uuid`, rules)}) d)))
    where tenant_id = ${tenant_id}`
}

/** The rows keep their order: each gets a due time of its own, a few microseconds ago. */
async function makeJobsDue(tx: Tx, { tenant_id, clock_offset }: LockedClock, limit: number): Promise<number> {
  const rows = await tx`
    with waiting as (
      select j.id, j.run_at from jobs j
      where ${isWaitingJob(tx, tx`${tenant_id}::uuid`)} and j.run_at <= now() + ${clock_offset}::interval
      order by j.run_at, j.id limit ${limit} for update skip locked
    ), due as (
      select id, row_number() over (order by run_at desc, id desc) as nth from waiting
    )
    update jobs j set run_at = now() - due.nth * interval '1 microsecond', wakeup_sent_at = null
    from due where j.id = due.id`
  return rows.count
}

/** As `makeJobsDue`. The next attempt that a delivery shows remains a time of the clock. */
async function makeDeliveriesDue(
  tx: Tx,
  { tenant_id, clock_offset }: LockedClock,
  limit: number,
): Promise<number> {
  const rows = await tx`
    with waiting as (
      select w.tenant_id, w.endpoint_id, w.sequence, w.delivery_id, w.due_at from webhook_due w
      where w.tenant_id = ${tenant_id} and w.due_at > now() and w.due_at <= now() + ${clock_offset}::interval
      order by w.due_at, w.sequence limit ${limit} for update skip locked
    ), due as (
      select *, row_number() over (order by due_at desc, sequence desc) as nth from waiting
    )
    update webhook_due w set due_at = now() - due.nth * interval '1 microsecond'
    from due
    where w.tenant_id = due.tenant_id and w.endpoint_id = due.endpoint_id and w.sequence = due.sequence
      and w.delivery_id = due.delivery_id`
  return rows.count
}

/**
 * Whether work of the tenant is due or in progress: jobs, notifications from its sandbox, events without a position in
 * the feed, or deliveries. What a pause stops does not count.
 */
async function hasOpenWork(tx: Tx, tenant_id: string): Promise<boolean> {
  const isPaused = (queue: Fragment) => tx`
    exists (
      select from only pauses u where (u.queue is null or u.queue = ${queue})
        and (u.tenant_id is null or u.tenant_id = ${tenant_id}))`
  const [found] = await tx<{ has_work: boolean }[]>`
    select exists (
        select from unnest(${[...QUEUES]}::text[]) q (queue) cross join lateral (
          select j.state from jobs j
          where j.queue = q.queue and j.tenant_id = ${tenant_id} and j.finished_at is null
            and (j.state = 'running' or j.run_at <= now())
          offset 0) j
        where j.state = 'running' or not ${isPaused(tx`q.queue`)}
      ) or exists (
        select from (
          select n.id, n.state from notifications n
          where n.account = ${sandboxAccount(tenant_id)} and not n.livemode offset 0) n
        where n.state = 'received' and exists (
          select from jobs j
          where j.id = n.id and (j.state = 'running' or (j.state in ('ready', 'unknown') and j.run_at <= now()))
          offset 0)
      ) or exists (select from event_outbox o where o.tenant_id = ${tenant_id})
      or (not ${isPaused(tx`${sendDelivery.queue}`)} and exists (
        select from webhook_endpoints p
        where p.tenant_id = ${tenant_id} and p.deleted_at is null and p.status = 'enabled' and case when p.ordered
          -- An ordered endpoint gets its next event only after all earlier ones.
          then (
            select w.due_at <= now() from webhook_due w where w.tenant_id = p.tenant_id and w.endpoint_id = p.id
            order by w.sequence limit 1)
          else exists (
            select from webhook_due w
            where w.tenant_id = p.tenant_id and w.endpoint_id = p.id and w.due_at <= now())
          end
      )) as has_work`
  return found!.has_work
}

/** Moves the clock to its next deadline and, in the same step, past those that follow at once. */
async function step(
  tx: Tx,
  { tenant_id, clock_offset, advance_to, steps }: LockedClock,
  rules: DeadlineRules,
  sandbox_due_at: string | null,
): Promise<void> {
  const length = steps < MAX_SHORT_STEPS ? STEP : LONG_STEP
  const deadlines = deadlinesOf(tx, tx`${tenant_id}::uuid`, rules)
  await tx`
    with ahead as materialized (
      select d.at from (${deadlines} union all select ${sandbox_due_at}::timestamptz) d
      where d.at > now() + ${clock_offset}::interval and d.at <= ${advance_to}::timestamptz
    ), target as (
      select least(min(at) + ${length}::interval, ${advance_to}::timestamptz) as at from ahead
    ), moved as (
      update test_clocks c set moved_at = now(), steps = c.steps + 1,
        clock_offset = greatest(c.clock_offset, make_interval(secs => extract(epoch from t.at - now())::float8)),
        remaining = (select count(*) from (select from ahead a where a.at > t.at limit ${MAX_COUNTED}) counted)
      from target t where c.tenant_id = ${tenant_id}
      returning c.tenant_id, c.clock_offset
    )
    insert into test_clock_steps as s (tenant_id, at, clock_offset) select tenant_id, now(), clock_offset from moved
    on conflict (tenant_id, at) do update set clock_offset = excluded.clock_offset`
}

// Recurring work: each run is done by one worker under a lease, and stores its position.
import { TEST_SUFFIX } from '#core/config/providers.ts'
import { isDatabaseFailure, type Json, type Sql, type Tx } from '#core/db.ts'
import { PROCESS_NAME } from '#core/heartbeat.ts'

/** A run of recurring work by one worker. `token` is the fencing token of every write of the run. */
export type Run = {
  name: string
  token: string
  /** ISO 8601. */
  started_at: string
  /** The position stored by the last run; null at first. */
  position: Json
  /** The result of the last run; null at first. */
  result: Json
}

/** If the worker dies during a run, another worker continues after this time. */
export const RUN_LEASE_S = 60
/** The maximum length of a failure's text. */
const MAX_FAILURE_LENGTH = 500
/** The delay before the next run after one that the database failed. */
const DATABASE_RETRY_S = 5
/**
 * The fencing tokens of runs by this process that have failed while the database was unavailable, by name: this process
 * need not wait until their leases lapse.
 */
const failed_tokens = new Map<string, string>()

/**
 * Begins a run if one is due and no other worker has it; otherwise undefined. The first run is due at once, or
 * `first_after_s` seconds after the first call. `renewRun` renews its lease.
 */
export async function beginRun(
  sql: Sql,
  name: string,
  { first_after_s = 0 }: { first_after_s?: number } = {},
): Promise<Run | undefined> {
  const is_due = sql`due_at <= now()
    and (lease_until is null or lease_until <= now() or lease_token = ${failed_tokens.get(name) ?? null}::uuid)`
  const [existing] = await sql<{ due: boolean }[]>`
    select coalesce(${is_due}, false) as due from recurring_work where name = ${name}`
  if (existing === undefined) {
    const created = await sql`
      insert into recurring_work (name, due_at) values (${name}, now() + ${first_after_s} * interval '1 second')
      on conflict do nothing`
    if (created.count === 0 || first_after_s > 0) return undefined
  } else if (!existing.due) return undefined
  const [run] = await sql<Run[]>`
    update recurring_work set lease_token = gen_random_uuid(), started_at = now(), worker = ${PROCESS_NAME},
      lease_until = now() + ${RUN_LEASE_S} * interval '1 second'
    where name = ${name} and ${is_due}
    returning name, lease_token as token, started_at, position, result`
  failed_tokens.delete(name)
  return run
}

/**
 * Performs a run if one is due. If `work` throws, the run is recorded as failed. The next run is due after the duration
 * of a lease, or soon if the database failed.
 */
export async function runIfDue<T>(
  sql: Sql,
  name: string,
  work: (run: Run) => Promise<T>,
  options: { first_after_s?: number } = {},
): Promise<T | undefined> {
  const run = await beginRun(sql, name, options)
  if (run === undefined) return undefined
  try {
    return await work(run)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const next_s = isDatabaseFailure(error) ? DATABASE_RETRY_S : RUN_LEASE_S
    // If the database is unavailable, this write fails too.
    await failRun(sql, run, { reason, next_s }).catch(() => failed_tokens.set(name, run.token))
    throw error
  }
}

/** Stores the position of the run and renews its lease; false if the lease was lost. */
export async function renewRun(sql: Sql | Tx, run: Run, position: Json): Promise<boolean> {
  const renewed = await sql`
    update recurring_work set position = ${sql.json(position)},
      lease_until = now() + ${RUN_LEASE_S} * interval '1 second'
    where name = ${run.name} and lease_token = ${run.token} and lease_until > now()`
  return renewed.count > 0
}

/** Ends the run; the next is due in `next_s` seconds. False if the lease was lost: nothing was written. */
export async function endRun(
  sql: Sql,
  run: Run,
  { position, result = null, next_s }: { position: Json; result?: Json; next_s: number },
): Promise<boolean> {
  const updated = await sql`
    update recurring_work set lease_token = null, lease_until = null,
      position = ${sql.json(position)}, result = ${sql.json(result)},
      ended_at = now(), duration_ms = extract(epoch from now() - started_at) * 1000,
      failure = null, failing_since = null, failed_runs = 0,
      due_at = now() + ${next_s} * interval '1 second'
    where name = ${run.name} and lease_token = ${run.token} and lease_until > now()`
  return updated.count > 0
}

/**
 * Ends the run as failed. The next run is due in `next_s` seconds and starts at `position`, if given. The time of the
 * last successful run remains, and its result unless `result` replaces it. Does nothing if the lease was lost.
 */
export async function failRun(
  sql: Sql,
  run: Run,
  { reason, position, result, next_s }: { reason: string; position?: Json; result?: Json; next_s: number },
): Promise<void> {
  await sql`
    update recurring_work set lease_token = null, lease_until = null,
      position = ${position === undefined ? sql`position` : sql.json(position)},
      result = ${result === undefined ? sql`result` : sql.json(result)},
      failure = ${reason.slice(0, MAX_FAILURE_LENGTH)}, failing_since = coalesce(failing_since, started_at),
      failed_runs = failed_runs + 1, due_at = now() + ${next_s} * interval '1 second'
    where name = ${run.name} and lease_token = ${run.token} and lease_until > now()`
}

/** Records a run of work that every worker does without a lease. `failure` null: the run succeeded. */
export async function recordRun(
  sql: Sql,
  name: string,
  { failure, duration_ms, next_s }: { failure: string | null; duration_ms: number; next_s: number },
): Promise<void> {
  const reason = failure?.slice(0, MAX_FAILURE_LENGTH) ?? null
  const failed = reason !== null
  await sql`
    insert into recurring_work as w
      (name, due_at, worker, started_at, ended_at, duration_ms, failure, failing_since, failed_runs)
    values (${name}, now() + ${next_s} * interval '1 second', ${PROCESS_NAME},
      now() - ${duration_ms} * interval '1 millisecond', ${failed ? null : sql`now()`}, ${failed ? null : duration_ms},
      ${reason}, ${failed ? sql`now()` : null}, ${failed ? 1 : 0})
    on conflict (name) do update set due_at = excluded.due_at, worker = excluded.worker,
      started_at = excluded.started_at, ended_at = coalesce(excluded.ended_at, w.ended_at),
      duration_ms = coalesce(excluded.duration_ms, w.duration_ms), failure = excluded.failure,
      failing_since = case when ${failed} then coalesce(w.failing_since, now()) end,
      failed_runs = case when ${failed} then w.failed_runs + 1 else 0 end`
}

/**
 * Postpones the next run by `next_s` seconds: this run had nothing to do, which proves neither success nor
 * failure.
 */
export async function postponeRun(sql: Sql, name: string, next_s: number): Promise<void> {
  await sql`update recurring_work set due_at = now() + ${next_s} * interval '1 second' where name = ${name}`
}

/**
 * The recurring work of live mode whose last run failed, by name, each with the seconds for which all its runs have
 * failed.
 */
export async function findFailingRuns(sql: Sql): Promise<{ name: string; failing_s: number }[]> {
  return await sql<{ name: string; failing_s: number }[]>`
    select name, extract(epoch from now() - failing_since)::float8 as failing_s from recurring_work
    where failing_since is not null and name not like ${`%${TEST_SUFFIX}`}`
}

/** The position that the last run stored; null before the first. */
export async function findLastPosition(sql: Sql, name: string): Promise<Json> {
  const [row] = await sql<{ position: Json }[]>`select position from recurring_work where name = ${name}`
  return row?.position ?? null
}

/** The result of the last successful run and its age in seconds; undefined before the first. */
export async function findLastRun(
  sql: Sql,
  name: string,
): Promise<{ result: Json; age_s: number } | undefined> {
  const [row] = await sql<{ result: Json; age_s: number }[]>`
    select result, extract(epoch from now() - ended_at)::float8 as age_s from recurring_work
    where name = ${name} and ended_at is not null`
  return row
}

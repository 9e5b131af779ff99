// The outages that workers report: failed calls, and providers and operations that do not answer.
import { clientOperation, PROVIDER_FACTS, providerKey } from '#core/config/providers.ts'
import { QUEUES, type QueueName } from '#core/config/queues.ts'
import type { Fragment, Json, Sql } from '#core/db.ts'
import { CALLS } from '#jobs/index.ts'
import { isOfMode } from '../modes.ts'
import {
  outageText,
  problemOf,
  variablesToCheck,
  type CallFailure,
  type OutageProblem,
} from './outage-texts.ts'

/** `provider`: the key of the provider, here and below. */
export type FailedCalls = { provider: string; at: string; outcome: CallFailure; count: number }
/**
 * The outage of a provider (`operation` null) or of one of its operations, as a worker sees it. `lasts_ms`: for how
 * long the worker has had no answer. `failed_ms`: the time since the last failed call. `is_partial`: the provider
 * answers other operations.
 */
export type WorkerOutage = {
  provider: string
  operation: string | null
  outcome: CallFailure
  lasts_ms: number
  failed_ms: number
  is_partial: boolean
}

/** A worker that has not confirmed its outage for this long has ended, or hangs. */
const CONFIRMATION_TIMEOUT_S = 30
/** Shorter outages are not reported. */
const MIN_OUTAGE_S = 10
/** An operation that no job is retried for, such as a lookup, has an outage while its last failure is this recent. */
const RECENT_FAILURE_S = 90
const FAILURE_RETENTION_H = 48
/** The maximum number of unknown jobs that are scanned. */
const MAX_UNKNOWN_SCANNED = 10_000
const WINDOW_MIN = 15

/** Adds failed calls, and replaces the outages of a worker. */
export async function writeOutages(
  sql: Sql,
  worker: string,
  { failed, outages }: { failed: FailedCalls[]; outages: WorkerOutage[] },
): Promise<void> {
  const of_providers = outages.filter(({ operation }) => operation === null)
  const of_operations = outages.filter(({ operation }) => operation !== null)
  await sql`
    with counted as (
      insert into provider_failures as f (provider, at, outcome, count)
      select * from jsonb_to_recordset(${sql.json(failed)})
        as c(provider text, at timestamptz, outcome text, count integer)
      order by 1, 2, 3
      on conflict (provider, at, outcome) do update set count = f.count + excluded.count
    ), ended as (
      delete from provider_outages o
      where o.worker = ${worker} and o.provider <> all(${of_providers.map(({ provider }) => provider)}::text[])
    ), ended_of_operations as (
      delete from operation_outages o
      where o.worker = ${worker}
        and (o.provider || ' ' || o.operation)
          <> all(${of_operations.map(({ provider, operation }) => `${provider} ${operation}`)}::text[])
    ), of_operations as (
      insert into operation_outages (provider, operation, worker, since, failed_at, outcome, is_partial, seen_at)
      select provider, operation, ${worker}, now() - lasts_ms * interval '1 millisecond',
        now() - failed_ms * interval '1 millisecond', outcome, is_partial, now()
      from jsonb_to_recordset(${sql.json(of_operations)})
        as o(provider text, operation text, outcome text, is_partial boolean, lasts_ms float8, failed_ms float8)
      on conflict (provider, operation, worker) do update set since = excluded.since, failed_at = excluded.failed_at,
        outcome = excluded.outcome, is_partial = excluded.is_partial, seen_at = excluded.seen_at
    )
    insert into provider_outages (provider, worker, since, outcome, seen_at)
    select provider, ${worker}, now() - lasts_ms * interval '1 millisecond', outcome, now()
    from jsonb_to_recordset(${sql.json(of_providers)}) as o(provider text, outcome text, lasts_ms float8)
    on conflict (provider, worker) do update
      set since = excluded.since, outcome = excluded.outcome, seen_at = excluded.seen_at`
}

/** Deletes at most `limit` outdated rows of each kind. */
export async function deleteOldOutages(sql: Sql, limit: number): Promise<void> {
  await sql`
    delete from provider_failures f using (
      select provider, at, outcome from provider_failures
      where at < now() - ${FAILURE_RETENTION_H} * interval '1 hour' order by at limit ${limit}
    ) old
    where f.provider = old.provider and f.at = old.at and f.outcome = old.outcome`
  await sql`
    delete from provider_outages o using (
      select provider, worker from provider_outages where seen_at < now() - interval '1 hour' limit ${limit}
    ) old
    where o.provider = old.provider and o.worker = old.worker`
  await sql`
    delete from operation_outages o using (
      select provider, operation, worker from operation_outages
      where seen_at < now() - interval '1 hour' limit ${limit}
    ) old
    where o.provider = old.provider and o.operation = old.operation and o.worker = old.worker`
}

/** The failed calls to each provider in the last 15 minutes, by outcome. */
export async function findFailedCalls(sql: Sql): Promise<Map<string, { outcome: string; count: number }[]>> {
  const rows = await sql<{ provider: string; outcome: string; count: number }[]>`
    select provider, outcome, sum(count)::bigint as count from provider_failures
    where at > now() - ${WINDOW_MIN} * interval '1 minute'
    group by provider, outcome order by provider, count desc, outcome`
  return Map.groupBy(rows, ({ provider }) => provider)
}

/**
 * An outage of a provider. `operations`: the names of the operations without answers; empty: all. `check`: the
 * variables whose values an operator should check.
 */
export type Outage = {
  provider: string
  title: string
  problem: OutageProblem
  operations: string[]
  since: string
  lasts_s: number
  check: string[]
}

/** Whether an outage concerns the call of a job. `livemode`: the mode of the job's tenant. */
export function concernsCall(
  { provider, operations }: Pick<Outage, 'provider' | 'operations'>,
  call: { provider: string; operation: string },
  livemode = true,
): boolean {
  return (
    providerKey(call.provider, livemode) === provider &&
    (operations.length === 0 || operations.includes(clientOperation(call.operation)))
  )
}

type OutageRow = {
  provider: string
  operation: string | null
  outcome: CallFailure
  since: string
  lasts_s: number
}

/**
 * The providers of a mode that currently do not answer, and the operations that a provider does not answer while it
 * answers others. An operation counts only if it failed after its provider answered others. Calls of one worker with
 * the outcome `retry` or `ambiguous` are an outage only if a job of the provider, or of the operation, is retrying, or
 * has become unknown since these calls began to fail. Otherwise other workers may have had answers.
 */
export async function findOutages(sql: Sql, livemode = true): Promise<Outage[]> {
  const calls = CALLS.map(({ provider, operation, job, queue }) => ({
    provider: providerKey(provider, livemode),
    operation: clientOperation(operation),
    job,
    queue,
  }))
  const rows = await sql<OutageRow[]>`
    with call as materialized (
      select * from jsonb_to_recordset(${sql.json(calls)}) as c(provider text, operation text, job text, queue text)
    ), reported as (
      select o.provider, null as operation, o.worker, o.since, null::timestamptz as failed_at, o.outcome, o.seen_at,
        ${wasAnotherAnswered(sql, sql`now()`, livemode)} as is_partial
      from provider_outages o
      union all
      select o.provider, o.operation, o.worker, o.since, o.failed_at, o.outcome, o.seen_at,
        o.is_partial or ${wasAnotherAnswered(sql, sql`o.failed_at`, livemode)}
      from operation_outages o
    ), outage as (
      -- A provider has an outage if it answers no operation, and an operation if its provider answers another one.
      select o.* from reported o
      where o.seen_at > now() - ${CONFIRMATION_TIMEOUT_S} * interval '1 second'
        and o.since < now() - ${MIN_OUTAGE_S} * interval '1 second'
        and exists (select from call c where c.provider = o.provider)
        and o.is_partial = (o.operation is not null) and ${isNeeded(sql, calls, livemode)}
    )
    select o.provider, o.operation, (array_agg(o.outcome order by o.seen_at desc))[1] as outcome, min(o.since) as since,
      extract(epoch from now() - min(o.since))::float8 as lasts_s
    from outage o
    where o.operation is null
      or not exists (select from outage p where p.provider = o.provider and p.operation is null)
    group by o.provider, o.operation order by o.provider, o.operation`
  const groups = Map.groupBy(rows, ({ provider, outcome }) => `${provider} ${problemOf(outcome)}`)
  return [...groups.values()].flatMap((group) => {
    const oldest = group.reduce((a, b) => (a.lasts_s >= b.lasts_s ? a : b))
    const { provider, outcome } = oldest
    const facts = PROVIDER_FACTS[provider]
    if (facts === undefined) return []
    return [
      {
        provider,
        title: facts.title,
        problem: problemOf(outcome),
        operations: group.flatMap(({ operation }) => operation ?? []),
        since: oldest.since,
        lasts_s: oldest.lasts_s,
        check: [...variablesToCheck(provider, outcome)],
      },
    ]
  })
}

/** The texts of the outages of both modes that concern the jobs of each queue. */
export async function findOutagesOfQueues(sql: Sql): Promise<Map<QueueName, string[]>> {
  const outages = [...(await findOutages(sql)), ...(await findOutages(sql, false))]
  const concerns = (outage: Outage, call: (typeof CALLS)[number]) =>
    concernsCall(outage, call, true) || concernsCall(outage, call, false)
  return new Map(
    QUEUES.map((queue) => [
      queue,
      outages
        .filter((outage) => CALLS.some((call) => call.queue === queue && concerns(outage, call)))
        .map(({ provider, problem, operations }) => outageText(provider, problem, operations)),
    ]),
  )
}

/**
 * Whether jobs of other operations than those that fail for the worker of `o` ended with an answer in a whole minute
 * between the start of the outage and `before`, according to the roll-ups: workers that serve different queues call
 * different operations. The roll-ups have no jobs of test mode.
 */
function wasAnotherAnswered(sql: Sql, before: Fragment, livemode: boolean): Fragment {
  if (!livemode) return sql`false`
  return sql`exists (
    select from call c
    cross join lateral (
      select from job_rollups r
      where r.resolution = 60 and r.queue = c.queue and r.name = c.job
        and r.at > o.since and r.at <= ${before} - interval '1 minute' and r.succeeded + r.declined > 0
      limit 1
    ) answered
    where c.provider = o.provider and not exists (
      select from operation_outages f
      where f.provider = o.provider and f.worker = o.worker and f.operation = c.operation))`
}

/** Whether a job waits for the end of the outage `o`, or may wait for it. */
function isNeeded(sql: Sql, calls: { operation: string }[], livemode: boolean): Fragment {
  const names: Json = [...new Set(calls.map(({ operation }) => operation))]
  return sql`(o.outcome in ('misconfigured', 'late')
    or (not ${sql.json(names)}::jsonb ? o.operation and o.failed_at > o.since + ${MIN_OUTAGE_S} * interval '1 second'
      and o.failed_at > now() - ${RECENT_FAILURE_S} * interval '1 second')
    or exists (
      select from call c
      cross join lateral (
        select from jobs j where j.name = c.job and j.finished_at is null and j.failing_since is not null
          and ${isOfMode(sql, sql`j.tenant_id`, livemode)} limit 1
      ) j
      where c.provider = o.provider and c.operation = coalesce(o.operation, c.operation))
    or exists (
      select from (
        select j.name from jobs j
        where j.finished_at is null and j.unknown_since is not null and j.unknown_since >= o.since
          and ${isOfMode(sql, sql`j.tenant_id`, livemode)}
        limit ${MAX_UNKNOWN_SCANNED}
      ) j
      join call c on c.job = j.name
      where c.provider = o.provider and c.operation = coalesce(o.operation, c.operation)))`
}

// The outages that workers report: failed calls, and providers that do not answer.
import { z } from 'zod'
import { PROVIDER_FACTS } from '#core/config/providers.ts'
import type { Sql } from '#core/db.ts'
import type { Outcome } from '#core/outcome.ts'
import { CALLS } from '#jobs/index.ts'

/** The outcomes of a failed call, and `late`: the call is still open after too long. */
export const CALL_FAILURES = ['retry', 'ambiguous', 'misconfigured', 'late'] as const satisfies readonly (
  | Outcome<unknown>['kind']
  | 'late'
)[]
export type CallFailure = (typeof CALL_FAILURES)[number]

export type FailedCalls = { provider: string; at: string; outcome: CallFailure; count: number }
/** `lasts_ms`: for how long the worker has had no answer. */
export type WorkerOutage = { provider: string; outcome: CallFailure; lasts_ms: number }

/** A worker that has not confirmed its outage for this long has ended, or hangs. */
const CONFIRMATION_TIMEOUT_S = 30
/** Shorter outages are not reported. */
const MIN_OUTAGE_S = 10
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
  await sql`
    with counted as (
      insert into provider_failures as f (provider, at, outcome, count)
      select * from jsonb_to_recordset(${sql.json(failed)})
        as c(provider text, at timestamptz, outcome text, count integer)
      order by 1, 2, 3
      on conflict (provider, at, outcome) do update set count = f.count + excluded.count
    ), ended as (
      delete from provider_outages o
      where o.worker = ${worker} and o.provider <> all(${outages.map(({ provider }) => provider)}::text[])
    )
    insert into provider_outages (provider, worker, since, outcome, seen_at)
    select provider, ${worker}, now() - lasts_ms * interval '1 millisecond', outcome, now()
    from jsonb_to_recordset(${sql.json(outages)}) as o(provider text, outcome text, lasts_ms float8)
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
}

/** The failed calls to each provider in the last 15 minutes, by outcome. */
export async function findFailedCalls(sql: Sql): Promise<Map<string, { outcome: string; count: number }[]>> {
  const rows = await sql<{ provider: string; outcome: string; count: number }[]>`
    select provider, outcome, sum(count)::bigint as count from provider_failures
    where at > now() - ${WINDOW_MIN} * interval '1 minute'
    group by provider, outcome order by provider, count desc, outcome`
  return Map.groupBy(rows, ({ provider }) => provider)
}

/** The problem of a provider with an outage. */
export const outageProblem = z.enum(['credentials', 'no_answer']).meta({
  description: '`credentials`: it refuses our credentials. `no_answer`: no call gets a usable answer.',
  example: 'no_answer',
})
type OutageProblem = z.output<typeof outageProblem>

/** The problem that an outcome indicates. */
export function problemOf(outcome: CallFailure): OutageProblem {
  return outcome === 'misconfigured' ? 'credentials' : 'no_answer'
}

/** An outage of a provider. `check`: the variables whose values an operator should check. */
export type Outage = {
  provider: string
  title: string
  problem: OutageProblem
  since: string
  check: string[]
}

/**
 * The providers that currently do not answer. Calls of one worker with the outcome `retry` or `ambiguous` are an outage
 * only if a job of the provider is retrying, or has become unknown since these calls began to fail. Otherwise other
 * workers may have had answers.
 */
export async function findOutages(sql: Sql): Promise<Outage[]> {
  const calls = CALLS.map(({ provider, job }) => ({ provider, job }))
  const rows = await sql<{ provider: string; outcome: CallFailure; since: string }[]>`
    select o.provider, (array_agg(o.outcome order by o.seen_at desc))[1] as outcome, min(o.since) as since
    from provider_outages o
    where o.seen_at > now() - ${CONFIRMATION_TIMEOUT_S} * interval '1 second'
      and o.since < now() - ${MIN_OUTAGE_S} * interval '1 second'
      and (o.outcome in ('misconfigured', 'late') or exists (
        select from jsonb_to_recordset(${sql.json(calls)}) as c(provider text, job text)
        cross join lateral (
          select from jobs j where j.name = c.job and j.finished_at is null and j.failing_since is not null limit 1
        ) j
        where c.provider = o.provider)
      or exists (
        select from (
          select j.name from jobs j
          where j.finished_at is null and j.unknown_since is not null and j.unknown_since >= o.since
          limit ${MAX_UNKNOWN_SCANNED}
        ) j
        join jsonb_to_recordset(${sql.json(calls)}) as c(provider text, job text) on c.job = j.name
        where c.provider = o.provider))
    group by o.provider order by o.provider`
  return rows.flatMap(({ provider, outcome, since }) => {
    const facts = PROVIDER_FACTS[provider]
    if (facts === undefined) return []
    return [
      {
        provider,
        title: facts.title,
        problem: problemOf(outcome),
        since,
        check: [...variablesToCheck(provider, outcome)],
      },
    ]
  })
}

/** The variables to check after an outcome of a provider's calls. */
export function variablesToCheck(provider: string, outcome: CallFailure): readonly string[] {
  return (
    PROVIDER_FACTS[provider]?.check[problemOf(outcome) === 'credentials' ? 'credentials' : 'address'] ?? []
  )
}

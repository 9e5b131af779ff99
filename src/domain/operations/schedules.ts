// Recurring work, as operators see it.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'

/** Descriptions for people. Work of a newer version has none. */
const DESCRIPTIONS: Record<string, string> = {
  audit: 'Checks the books, jobs and events that changed since the last run.',
  reconciling: 'Looks up rows without progress at their providers, and updates the drifts of unknown jobs.',
  'roll-ups': 'Counts jobs and payments per minute and per hour, for figures and charts.',
  'data of test mode': 'Drops what tenants in test mode created more than 90 days ago.',
  'moving finished jobs': 'Moves finished jobs into the history.',
  'moving notifications': 'Moves finished notifications into the history.',
  'received SMS':
    'After a switch of the database, reads the SMS that the provider received since then, with their opt-outs.',
  'SMS lookups': 'Looks up SMS at the provider if their status callback did not arrive.',
}
const LISTS: Record<string, string> = {
  'events of ': "Reads the provider's list to find events that never arrived as notifications.",
  'objects of ':
    "Reads the provider's lists to find objects that no event reported. The result counts the objects of each list: `missing` had no row here, `differs` had another state, `foreign` are not ours.",
}

/**
 * A kind of recurring work. `state`: `running`; `ended`: the last run succeeded; `failed`: the last run failed,
 * `failure` is the reason; `lost`: its worker died during the run, and another one continues; `new`: it has not run
 * yet. `failing_since`: since when all runs have failed; `failed_runs`: how many. `worker`: the worker of the current
 * or last run. `duration_ms` and `result` are those of the last successful run. `next_run_at` is null during a run.
 */
export const scheduleSchema = z.object({
  name: z.string(),
  about: z.string().nullable(),
  state: z.enum(['new', 'running', 'ended', 'failed', 'lost']),
  worker: z.string().nullable(),
  started_at: timestamp.nullable(),
  ended_at: timestamp.nullable(),
  duration_ms: z.number().nullable(),
  next_run_at: timestamp.nullable(),
  result: z.unknown(),
  failure: z.string().nullable(),
  failing_since: timestamp.nullable(),
  failed_runs: z.int(),
})
export type Schedule = z.output<typeof scheduleSchema>

/** All recurring work with a recorded run, by name. */
export async function findSchedules(sql: Sql): Promise<Schedule[]> {
  const rows = await sql<Omit<Schedule, 'about'>[]>`
    select name,
      case when lease_until > now() then 'running' when lease_until is not null then 'lost'
        when failing_since is not null then 'failed' when ended_at is null then 'new' else 'ended' end as state,
      failure, failing_since, failed_runs,
      worker, started_at, ended_at, duration_ms, case when lease_until is null then due_at end as next_run_at,
      -- The result of the audit also contains the rows with problems, which only the audit's report shows.
      case when jsonb_typeof(result) = 'object' then result - 'rows' else result end as result
    from recurring_work order by name`
  return rows.map((row) => ({
    ...row,
    about:
      DESCRIPTIONS[row.name] ??
      Object.entries(LISTS).find(([prefix]) => row.name.startsWith(prefix))?.[1] ??
      null,
  }))
}

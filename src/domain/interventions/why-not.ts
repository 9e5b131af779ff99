// Explains in one sentence why a job's state does not allow an act.
import type { Sql, Tx } from '#core/db.ts'
import { isDiscardedDelivery, type JOB_ACTIONS, isScheduled, type Act } from './act.ts'
import { matchesConditions } from './matching.ts'

export type ActName = keyof typeof JOB_ACTIONS | 'resolve'

/**
 * `is_scheduled`: scheduled, before its first attempt. `ended_delivery`: a discarded attempt of a delivery. `in_history`: moved to the
 * history. `matches`: it matches the filter of the act.
 */
type JobFacts = Record<
  'has_call' | 'is_unknown' | 'parked' | 'is_scheduled' | 'ended_delivery' | 'in_history' | 'matches',
  boolean
> & {
  state: string
}

/** The job's state (null if the job does not exist) and the reason for the refusal. */
export async function refusalReason(
  sql: Sql | Tx,
  act: ActName,
  { job_id, only }: Pick<Act, 'job_id' | 'only'>,
): Promise<{ before: string | null; refused: string }> {
  const [job] = await sql<JobFacts[]>`
    select state, operation is not null as has_call, unknown_since is not null as is_unknown,
      run_at = 'infinity' as parked, ${isScheduled(sql)} as is_scheduled,
        ${isDiscardedDelivery(sql)} as ended_delivery, false as in_history,
      (true ${only === undefined ? sql`` : matchesConditions(sql, only)}) as matches
    from jobs j where id = ${job_id}
    union all
    select state, operation is not null, false, false, false, ${isDiscardedDelivery(sql)}, true, true from job_history j
    where id = ${job_id}`
  if (job === undefined) return { before: null, refused: 'There is no such job.' }
  return { before: job.state, refused: reasonOf(act, job) }
}

function reasonOf(act: ActName, job: JobFacts): string {
  if (job.state === 'running') return 'It is running: try again later.'
  if (act === 'retry' && job.ended_delivery) return 'Discarding it ended its delivery: replay the delivery.'
  if (act === 'retry' && job.state === 'discarded' && job.has_call)
    return 'It was discarded and has a call to a provider: repeat the original request instead.'
  if (job.in_history || !['ready', 'unknown'].includes(job.state))
    return `It has finished with the state ${job.state}.`
  if (!job.matches) return 'It no longer matches the filter.'
  if (act === 'resolve')
    return job.has_call && !job.is_unknown
      ? 'The outcome of its call is not unknown: retry it instead.'
      : 'It has no call to a provider that this version knows.'
  if (act === 'discard') return 'Its row waits for the call: resolve the call instead.'
  if (act === 'retry' && job.is_scheduled) return 'It is scheduled for later: Run now makes it due.'
  if (act === 'run_now' && job.parked) return 'It is parked: retry performs it again.'
  if (act === 'run_now' && job.state === 'unknown')
    return 'The effect of its call is unknown: retry looks it up now.'
  return act === 'run_now' ? 'It is already due.' : 'Its state has just changed: try again.'
}

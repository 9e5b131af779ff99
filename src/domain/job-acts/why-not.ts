// Explains in one sentence why a job's state does not allow an act.
import type { Sql, Tx } from '#core/db.ts'
import { isDiscardedDelivery, type JOB_ACTIONS, isScheduled, type Act } from './act.ts'
import { matchesConditions } from './matching.ts'

export type ActName = keyof typeof JOB_ACTIONS | 'resolve'

/**
 * `is_scheduled`: scheduled, before its first attempt. `ended_delivery`: a discarded attempt of a delivery.
 * `in_history`: moved to the history. `matches`: the job matches the filter of the act.
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
  if (job.state === 'running') return 'The job is running: try again later.'
  if (act === 'retry' && job.ended_delivery)
    return 'The delivery failed when its job was discarded: replay the delivery.'
  if (act === 'retry' && job.state === 'discarded' && job.has_call)
    return 'The job was discarded and has a call to a provider: repeat the original request instead.'
  if (job.in_history || !['ready', 'unknown'].includes(job.state))
    return `The job has finished with the state ${job.state}.`
  if (!job.matches) return 'The job no longer matches the filter.'
  if (act === 'resolve')
    return job.has_call && !job.is_unknown
      ? 'Only a call with an unknown effect can be resolved: retry the job instead.'
      : 'The job has no call to a provider that this version knows.'
  if (act === 'discard') return 'The resource waits for the call of the job: resolve the call instead.'
  if (act === 'retry' && job.is_scheduled) return 'The job is scheduled for later: Run now makes it due.'
  if (act === 'run_now' && job.parked) return 'The job is parked: retry the job instead.'
  if (act === 'run_now' && job.state === 'unknown')
    return 'The effect of the call is unknown: retry the job to look up the call now.'
  return act === 'run_now' ? 'The job is already due.' : 'The state of the job has just changed: try again.'
}

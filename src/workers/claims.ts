// Claims jobs for one worker, many in one statement.
import { createBatcher } from '#core/batch.ts'
import { claimJobs, type ClaimedJob } from '#domain/jobs/claim.ts'
import { CALLS, JOB_NAMES } from '#jobs/index.ts'
import type { WorkerContext } from './context.ts'
import { handlerOf } from './handlers/index.ts'
import type { Shares } from './shares.ts'

/**
 * `requested_at`: when the claiming statement began, which also queried the pauses; `claimed_at`: when it had ended.
 * Both on the clock of `performance.now()`.
 */
export type JobClaim = { job: ClaimedJob; requested_at: number; claimed_at: number }

/** Returns a function that claims a job. It resolves to undefined if the job cannot be claimed. */
export function createJobClaimer(
  { sql, database, credentials: configured }: WorkerContext,
  shares: Shares,
  worker: string,
): (job: { id: string; queue: string }) => Promise<JobClaim | undefined> {
  /** The fingerprints of the present credentials, by job name. */
  function findCredentials(): Record<string, string> {
    const of_provider = Object.fromEntries(
      Object.entries(configured).map(([provider, { fingerprint }]) => [provider, fingerprint]),
    )
    return Object.fromEntries(
      CALLS.flatMap(({ job, provider }) => {
        const fingerprint = of_provider[provider]
        return fingerprint === undefined ? [] : [[job, fingerprint]]
      }),
    )
  }
  return createBatcher<{ id: string; queue: string }, JobClaim | undefined>('claim', async (wanted) => {
    if (!database.isCurrent()) return wanted.map(() => undefined)
    const requested_at = performance.now()
    const ids = wanted.map(({ id }) => id)
    const credentials = findCredentials()
    const jobs = await shares.claimWithin(wanted, (quotas) =>
      claimJobs(sql, ids, { worker, names: JOB_NAMES, shares: quotas, credentials }),
    )
    const claimed_at = performance.now()
    const claimed = new Map(
      jobs.map((job) => [job.id, { job: applyCallRule(job), requested_at, claimed_at }]),
    )
    return ids.map((id) => claimed.get(id))
  })
}

/**
 * Decides whether the call may be sent again. If a call without an idempotency key (`lookup`) may have reached the
 * provider, it is looked up and never sent again. A call that is harmless to repeat (`repeat`) is always sent.
 */
export function applyCallRule(job: ClaimedJob): ClaimedJob {
  const { call } = job
  const rule = handlerOf(job.name).definition.call?.on_ambiguous
  if (call === null || rule === 'resend_same_key') return job
  const lookup_only = rule === 'lookup' && (call.lookup_only || call.in_doubt)
  return { ...job, call: { ...call, lookup_only } }
}

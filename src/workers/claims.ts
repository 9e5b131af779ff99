// Claims jobs for one worker, many in one statement.
import { batcher } from '#core/batch.ts'
import { claimJobs, type ClaimedJob } from '#domain/jobs/claim.ts'
import { CALLS, JOB_NAMES } from '#jobs/index.ts'
import type { WorkerContext } from './context.ts'
import { handlerOf } from './handlers/index.ts'
import type { Shares } from './shares.ts'

/** `asked_at`: when the database was asked whether the queue is paused, on the clock of `performance.now()`. */
export type Claimed = { job: ClaimedJob; asked_at: number }

/** Returns a function that claims a job; undefined if it cannot be claimed. */
export function createClaims(
  { sql, credentials: used }: WorkerContext,
  shares: Shares,
  worker: string,
): (job: { id: string; queue: string }) => Promise<Claimed | undefined> {
  const credentials = Object.fromEntries(
    CALLS.flatMap(({ job, provider }) => {
      const ours = used[provider]
      return ours === undefined ? [] : [[job, ours.fingerprint]]
    }),
  )
  return batcher<{ id: string; queue: string }, Claimed | undefined>('claim', async (asked) => {
    const asked_at = performance.now()
    const ids = asked.map(({ id }) => id)
    const jobs = await shares.claiming(asked, (left) =>
      claimJobs(sql, ids, { worker, names: JOB_NAMES, shares: left, credentials }),
    )
    const claimed = new Map(jobs.map((job) => [job.id, { job: withCallRule(job), asked_at }]))
    return ids.map((id) => claimed.get(id))
  })
}

/** Where no key protects from a second effect, a call in doubt is never sent again; where none matters, it always is. */
export function withCallRule(job: ClaimedJob): ClaimedJob {
  const { call } = job
  const rule = handlerOf(job.name).definition.call?.on_ambiguous
  if (call === null || rule === 'resend_same_key') return job
  const look_only = rule === 'look' && (call.look_only || call.in_doubt)
  return { ...job, call: { ...call, look_only } }
}

// The progress of an act on jobs.
import { Link } from '@tanstack/react-router'
import { useEffect } from 'react'
import { AuditLink, type ActResponse } from '../kit/ActResult.tsx'
import { Skeleton } from '../kit/Skeleton.tsx'
import { Status } from '../kit/Status.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { JOB_ACTS } from './job-acts.ts'
import type { JobActItemRow, JobActRow } from './shapes.ts'

/** Reads an act on jobs, and polls it until it is finished. */
export function useJobAct(id: string) {
  const first = useAnswer<JobActRow>(`/ops/acts/${id}`)
  const finished = first.data?.finished_at !== undefined && first.data.finished_at !== null
  const query = useAnswer<JobActRow>(`/ops/acts/${id}`, undefined, finished ? {} : { interval_ms: 1_000 })
  useEffect(() => {
    if (finished) void invalidate('/ops/jobs')
  }, [finished])
  return query
}

/** The progress of an act that was just requested, with links to its results and its audit entry. */
export function RequestedJobAct({ of: { data, audit_seq } }: { of: ActResponse<JobActRow> }) {
  return (
    <>
      <JobActProgress id={data.id} />
      <span className="inline">
        <Link to={`/ops/acts/${data.id}`}>Result of each job</Link>{' '}
        <AuditLink of="installation" seq={audit_seq} />
      </span>
    </>
  )
}

export function JobActProgress({ id }: { id: string }) {
  const { data: act } = useJobAct(id)
  if (act === undefined) return <Skeleton width={200} />
  if (act.job_id !== null && act.state === 'done') return <SingleJobResult act={act} />
  const { found, done, refused, state, error } = act
  const waiting = Math.max(0, found - done - refused)
  const share = (count: number) => `${found === 0 ? 0 : (count / found) * 100}%`
  return (
    <div>
      <div className="inline" role="status">
        <Status status={state} />
        <span className="figures">
          {done.toLocaleString()} done, {refused.toLocaleString()} refused
          {act.finished_at === null && `, ${waiting.toLocaleString()} waiting`}
        </span>
      </div>
      <div
        className="progress"
        role="progressbar"
        aria-label="Jobs of this act"
        aria-valuemin={0}
        aria-valuemax={found}
        aria-valuenow={done + refused}
      >
        <span className="is-done" style={{ width: share(done) }} />
        <span className="is-refused" style={{ width: share(refused) }} />
      </div>
      {error !== null && <p className="tone-bad">{error}</p>}
    </div>
  )
}

/** The outcome of an act on one job, as text instead of counts. */
function SingleJobResult({ act: { id, act } }: { act: JobActRow }) {
  const { data: items } = useAnswer<JobActItemRow[]>(`/ops/acts/${id}/items`)
  const [item] = items ?? []
  if (item === undefined) return <Skeleton width={200} />
  const { done } = JOB_ACTS[act]
  const { refused, lookup_only } = item
  return (
    <div role="status">
      {refused === null ? (
        <Status status="done" label={lookup_only ? `${done}: the call is only looked up, not sent` : done} />
      ) : (
        <Status status="refused" label={`Not ${lowerFirst(done)}: ${lowerFirst(refused)}`} />
      )}
    </div>
  )
}

const lowerFirst = (text: string) => text.charAt(0).toLowerCase() + text.slice(1)

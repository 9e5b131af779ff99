// How far an act about jobs is.
import { useEffect } from 'react'
import { Bone } from '../kit/Bone.tsx'
import { Status } from '../kit/Status.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import type { JobActRow } from './shapes.ts'

/** Reads the act until it is over. */
export function useJobAct(id: string) {
  const first = useAnswer<JobActRow>(`/ops/acts/${id}`)
  const over = first.data?.finished_at !== undefined && first.data.finished_at !== null
  const query = useAnswer<JobActRow>(`/ops/acts/${id}`, undefined, over ? {} : { every_ms: 1_000 })
  useEffect(() => {
    if (over) void invalidate('/ops/jobs')
  }, [over])
  return query
}

export function JobActProgress({ id }: { id: string }) {
  const { data: act } = useJobAct(id)
  if (act === undefined) return <Bone width={200} />
  const { found, done, refused, state, error } = act
  const waiting = Math.max(0, found - done - refused)
  const part = (count: number) => `${found === 0 ? 0 : (count / found) * 100}%`
  return (
    <div>
      <div className="line" role="status">
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
        <span className="is-done" style={{ width: part(done) }} />
        <span className="is-refused" style={{ width: part(refused) }} />
      </div>
      {error !== null && <p className="tone-bad">{error}</p>}
    </div>
  )
}

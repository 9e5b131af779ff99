// The latest acts on jobs, each with its operator, reason and state.
import { Link } from '@tanstack/react-router'
import { Instant } from '../kit/Instant.tsx'
import { Status } from '../kit/Status.tsx'
import { useAnswer } from '../queries.ts'
import { JOB_ACTS } from './job-acts.ts'
import type { JobActRow } from './shapes.ts'
import { counted } from '../kit/counts.ts'

const LATEST_COUNT = 5

export function LatestActs() {
  const { data = [] } = useAnswer<JobActRow[]>('/ops/acts', undefined, { interval_ms: 10_000 })
  if (data.length === 0) return null
  return (
    <section className="section">
      <h2>Recent acts</h2>
      <ul className="act-list">
        {data.slice(0, LATEST_COUNT).map((act) => (
          <li key={act.id} className="inline">
            <Status status={act.state} />
            <Link to={`/ops/acts/${act.id}`}>
              {JOB_ACTS[act.act].title} {act.job_id === null ? counted(act.found, 'job') : 'one job'}
            </Link>
            <span className="dim">
              {act.actor}, <Instant at={act.created_at} />: {act.reason}
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}

// Jobs of all tenants: the list, and acts about all that the filters find.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { CREATED_COLUMN } from '../../kit/columns.tsx'
import { useFirstPayment } from '../../kit/curl.ts'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Filters, type FilterField } from '../../kit/Filters.tsx'
import { shortId } from '../../kit/Id.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { PageHeader } from '../../kit/PageHeader.tsx'
import { EmptyState } from '../../kit/states.tsx'
import { Status } from '../../kit/Status.tsx'
import { inWords } from '../../kit/statuses.ts'
import { JOB_ACT_KINDS, JOB_ACTS, whyNever } from '../../operations/job-acts.ts'
import { JobActDialog, type JobActTarget } from '../../operations/JobActDialog.tsx'
import { useJobsList } from '../../operations/jobs-list.ts'
import { QUEUE_NAMES, type JobActRow, type JobRow } from '../../operations/shapes.ts'
import { useAnswer } from '../../queries.ts'
import { usePaletteActs } from '../../shell/acts.ts'

const STATES = ['all', 'parked', 'ready', 'running', 'unknown', 'succeeded', 'failed', 'discarded']
const FIELDS: FilterField[] = [
  { kind: 'select', name: 'queue', label: 'Queue', options: QUEUE_NAMES },
  {
    kind: 'select',
    name: 'state',
    label: 'State',
    unset: 'Open',
    options: STATES.map((value) => ({ value, label: inWords(value) })),
  },
  { kind: 'text', name: 'name', label: 'Name', placeholder: 'payment.capture' },
  { kind: 'text', name: 'tenant', label: 'Tenant', placeholder: 'Slug or id' },
  { kind: 'text', name: 'search', label: 'Search', placeholder: 'Id, key, reference or error' },
]

const COLUMNS: TableColumn<JobRow>[] = [
  {
    title: 'Job',
    cell: ({ id, name }) => (
      <>
        <strong>{name}</strong> <span className="dim mono">{shortId(id)}</span>
      </>
    ),
  },
  {
    title: 'State',
    cell: (job) => (
      <>
        <JobState job={job} />
        {job.error !== null && (
          <small className="dim job-error" title={job.error}>
            {job.error}
          </small>
        )}
      </>
    ),
  },
  { title: 'Queue', cell: ({ queue }) => queue },
  { title: 'Tenant', cell: ({ tenant, tenant_id }) => tenant ?? shortId(tenant_id), clip: true },
  { title: 'Attempt', align: 'end', cell: ({ attempt }) => attempt },
  { title: 'Next run', cell: (job) => <NextRun job={job} /> },
  CREATED_COLUMN,
  { title: 'Finished', cell: ({ finished_at }) => <Instant at={finished_at} /> },
]

export function JobsPage() {
  const list = useJobsList()
  const [target, setTarget] = useState<JobActTarget>()
  const { filters } = list
  const never = whyNever(filters)
  const filters_text = JSON.stringify(filters)
  usePaletteActs(
    useMemo(
      () =>
        (never === undefined ? JOB_ACT_KINDS : []).map((act) => ({
          title: JOB_ACTS[act].of_all,
          run: () => setTarget({ act, filters: JSON.parse(filters_text) }),
        })),
      [filters_text, never],
    ),
  )
  const curl = useFirstPayment()
  const none = list.rows?.length === 0
  return (
    <>
      <PageHeader title="Jobs" description="All jobs of all tenants: open ones first, then finished ones." />
      <Filters fields={FIELDS} />
      <div className="bulk" role="group" aria-label="All matching jobs">
        <span className="dim">{never ?? 'For all matching jobs:'}</span>
        {JOB_ACT_KINDS.map((act) => {
          const Icon = JOB_ACTS[act].icon
          return (
            <Button
              key={act}
              leftSection={<Icon size={14} />}
              disabled={none || never !== undefined}
              onClick={() => setTarget({ act, filters })}
            >
              {JOB_ACTS[act].title}
            </Button>
          )
        })}
      </div>
      <DataTable
        label="Jobs"
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        to={({ id }) => `/ops/jobs/${id}`}
        empty={
          <EmptyState title="No open jobs" curl={curl}>
            Nothing is waiting. To see finished jobs, set State to All.
          </EmptyState>
        }
      />
      <RecentActs />
      <JobActDialog target={target} close={() => setTarget(undefined)} />
    </>
  )
}

function NextRun({ job: { finished_at, paused, run_at } }: { job: JobRow }) {
  if (finished_at !== null) return '–'
  return paused ? 'When resumed' : <Instant at={run_at} />
}

/** The state of a job, with what its name does not say. */
export function JobState({ job, pill = false }: { job: JobRow; pill?: boolean }) {
  if (job.parked && job.finished_at === null) return <Status status="parked" pill={pill} />
  if (job.paused) return <Status status="paused" pill={pill} />
  // What becomes of the delivery is not known in a list.
  if (job.state === 'failed' && job.name.startsWith('webhook_endpoint.'))
    return <Status status="retry" pill={pill} word="Attempt failed" />
  if (job.state === 'ready' && job.attempt > 0)
    return <Status status="retrying" pill={pill} word="Ready to retry" />
  return <Status status={job.state} pill={pill} />
}

function RecentActs() {
  const { data = [] } = useAnswer<JobActRow[]>('/ops/acts', undefined, { every_ms: 10_000 })
  if (data.length === 0) return null
  return (
    <section className="section">
      <h2>Recent acts</h2>
      <ul className="act-list">
        {data.slice(0, 5).map((act) => (
          <li key={act.id} className="line">
            <Status status={act.state} />
            <Link to={`/ops/acts/${act.id}`}>
              {JOB_ACTS[act.act].title}{' '}
              {act.job_id === null ? `${act.found.toLocaleString()} jobs` : 'one job'}
            </Link>
            <span className="dim">
              {act.who}, <Instant at={act.created_at} />: {act.reason}
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}

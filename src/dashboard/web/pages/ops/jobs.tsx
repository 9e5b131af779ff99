// Jobs of all tenants: the list, and acts about all that the filters find.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { CREATED_COLUMN } from '../../kit/columns.tsx'
import { useFirstPayment } from '../../kit/curl.ts'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Filters, type FilterField } from '../../kit/Filters.tsx'
import { shortId } from '../../kit/Id.tsx'
import { formatDuration, Instant, useNow } from '../../kit/Instant.tsx'
import { PageHeader } from '../../kit/PageHeader.tsx'
import { EmptyState } from '../../kit/states.tsx'
import { Status } from '../../kit/Status.tsx'
import { inWords } from '../../kit/statuses.ts'
import { nounWords } from '../../nouns.ts'
import { actsOfMany, JOB_ACTS, whyNever } from '../../operations/job-acts.ts'
import { JobActDialog, type JobActTarget } from '../../operations/JobActDialog.tsx'
import { useJobsList } from '../../operations/jobs-list.ts'
import { LatestActs } from '../../operations/LatestActs.tsx'
import { JOB_STATES, QUEUE_NAMES, type JobRow } from '../../operations/shapes.ts'
import { usePaletteActs } from '../../shell/acts.ts'

const FIELDS: FilterField[] = [
  { kind: 'select', name: 'queue', label: 'Queue', options: QUEUE_NAMES },
  {
    kind: 'select',
    name: 'state',
    label: 'State',
    unset: 'Open',
    options: JOB_STATES.map((value) => ({ value, label: inWords(value) })),
  },
  { kind: 'text', name: 'name', label: 'Name', placeholder: 'payment.capture' },
  { kind: 'text', name: 'tenant', label: 'Tenant', placeholder: 'Slug or id' },
  { kind: 'text', name: 'subject_id', label: 'About', placeholder: 'Id of a payment' },
  { kind: 'text', name: 'search', label: 'Search', placeholder: 'Id, key, reference or error' },
]

const COLUMNS: TableColumn<JobRow>[] = [
  {
    title: 'Job',
    cell: ({ id, name, queue }) => (
      <>
        <strong>{name}</strong>
        <small className="dim against">
          {queue} <span className="mono">{shortId(id)}</span>
        </small>
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
  { title: 'About', cell: (job) => <About job={job} /> },
  { title: 'Tenant', cell: ({ tenant, tenant_id }) => tenant ?? shortId(tenant_id), clip: true },
  {
    title: 'Attempt',
    align: 'end',
    cell: (job) => (
      <>
        {job.attempt}
        <small className="dim against">
          <RunTime job={job} />
        </small>
      </>
    ),
  },
  { title: 'Next run or end', cell: (job) => <NextRunOrEnd job={job} /> },
  CREATED_COLUMN,
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
        (never === undefined ? actsOfMany(JSON.parse(filters_text)) : []).map((act) => ({
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
        {actsOfMany(filters).map((act) => {
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
        acting={({ acting }) => (acting === null ? undefined : JOB_ACTS[acting].going)}
        empty={
          <EmptyState title="No open jobs" curl={curl}>
            Nothing is waiting. To see finished jobs, set State to All.
          </EmptyState>
        }
      />
      <LatestActs />
      <JobActDialog target={target} close={() => setTarget(undefined)} />
    </>
  )
}

/** The row that it is filed under: to all of its jobs. */
function About({ job: { subject, subject_id, tenant, tenant_id } }: { job: JobRow }) {
  if (subject_id === null) return '–'
  return (
    <Link
      to="/ops/jobs"
      search={{ subject_id, tenant: tenant ?? tenant_id, state: 'all' }}
      title={`All jobs of ${subject_id}`}
    >
      {subject === null ? 'Row' : nounWords(subject)}
      <small className="mono against">{shortId(subject_id)}</small>
    </Link>
  )
}

/** How long its last attempt took, or has run so far. */
function RunTime({ job: { state, started_at, finished_at } }: { job: JobRow }) {
  const now = useNow()
  const end = finished_at === null ? (state === 'running' ? now : null) : Date.parse(finished_at)
  return started_at === null || end === null ? '–' : formatDuration(Math.max(0, end - Date.parse(started_at)))
}

function NextRunOrEnd({ job: { finished_at, paused, run_at } }: { job: JobRow }) {
  if (finished_at !== null) return <Instant at={finished_at} />
  return paused ? 'When resumed' : <Instant at={run_at} />
}

/** The state of a job, with what its name does not say. */
export function JobState({ job, pill = false }: { job: JobRow; pill?: boolean }) {
  if (job.parked && job.finished_at === null) return <Status status="parked" pill={pill} />
  // That its effect is not known matters more.
  if (job.paused && job.unknown_since === null) return <Status status="paused" pill={pill} />
  // What becomes of the delivery is not known in a list.
  if (job.state === 'failed' && job.name.startsWith('webhook_endpoint.'))
    return <Status status="retry" pill={pill} word="Attempt failed" />
  if (job.state === 'ready' && job.failing_since !== null) return <Status status="retrying" pill={pill} />
  if (job.state === 'ready' && job.attempt > 0)
    return <Status status="retrying" pill={pill} word="Ready to retry" />
  return <Status status={job.state} pill={pill} />
}

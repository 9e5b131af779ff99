// Jobs of all tenants: the list, and bulk acts on all jobs that match the filters.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { CREATED_COLUMN } from '../../kit/columns.tsx'
import { firstPaymentCurl } from '../../kit/curl.ts'
import type { TableColumn } from '../../kit/DataTable.tsx'
import { defineList } from '../../kit/define-list.ts'
import { shortId } from '../../kit/Id.tsx'
import { formatDuration, Instant, useNow } from '../../kit/Instant.tsx'
import { ListPage } from '../../kit/ListPage.tsx'
import { Status } from '../../kit/Status.tsx'
import { resourceLabel } from '../../resources.ts'
import { bulkActs, JOB_ACTS, unsupportedFilter } from '../../operations/job-acts.ts'
import { JobActDialog, type JobActTarget } from '../../operations/JobActDialog.tsx'
import { useJobsList } from '../../operations/jobs-list.ts'
import { LatestActs } from '../../operations/LatestActs.tsx'
import type { JobRow } from '../../operations/shapes.ts'
import { usePaletteActs } from '../../shell/acts.ts'

const COLUMNS: TableColumn<JobRow>[] = [
  {
    title: 'Job',
    cell: ({ id, name, queue }) => (
      <>
        <strong>{name}</strong>
        <small className="dim comparison">
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
        <small className="dim comparison">
          <RunTime job={job} />
        </small>
      </>
    ),
  },
  { title: 'Next run or end', cell: (job) => <NextRunOrEnd job={job} /> },
  CREATED_COLUMN,
]

const JOBS = defineList({
  path: '/ops/jobs',
  label: 'Jobs',
  filters: [
    { kind: 'choice', name: 'queue', label: 'Queue' },
    { kind: 'choice', name: 'state', label: 'State', default_label: 'Open' },
    { kind: 'text', name: 'name', label: 'Name', placeholder: 'payment.capture' },
    { kind: 'text', name: 'tenant', label: 'Tenant', placeholder: 'Slug or id' },
    { kind: 'text', name: 'resource_id', label: 'About', placeholder: 'Id of a payment' },
    { kind: 'text', name: 'search', label: 'Search', placeholder: 'Id, key, reference or error' },
  ],
  columns: COLUMNS,
  key: 'id',
  to: ({ id }) => `/ops/jobs/${id}`,
  acting: ({ acting }) => (acting === null ? undefined : JOB_ACTS[acting].in_progress),
  empty: {
    title: 'No open jobs',
    text: 'No job is waiting. To see finished jobs, set State to All.',
    curl: firstPaymentCurl(),
  },
})

export function JobsPage() {
  const list = useJobsList(JOBS)
  const [target, setTarget] = useState<JobActTarget>()
  return (
    <ListPage
      of={JOBS}
      list={list}
      title="Jobs"
      description="All jobs of all tenants: open ones first, then finished ones."
      above_rows={<BulkActs filters={list.filters} none={list.rows?.length === 0} begin={setTarget} />}
    >
      <LatestActs />
      <JobActDialog target={target} close={() => setTarget(undefined)} />
    </ListPage>
  )
}

/** Acts on all jobs that match the filters. `none`: no job matches. */
function BulkActs({
  filters,
  none,
  begin,
}: {
  filters: Record<string, string>
  none: boolean
  begin: (target: JobActTarget) => void
}) {
  const unsupported = unsupportedFilter(filters)
  const filters_text = JSON.stringify(filters)
  usePaletteActs(
    useMemo(
      () =>
        (unsupported === undefined ? bulkActs(JSON.parse(filters_text)) : []).map((act) => ({
          title: JOB_ACTS[act].title_for_all,
          run: () => begin({ act, filters: JSON.parse(filters_text) }),
        })),
      [filters_text, unsupported, begin],
    ),
  )
  return (
    <div className="bulk-actions" role="group" aria-label="All matching jobs">
      <span className="dim">{unsupported ?? 'For all matching jobs:'}</span>
      {bulkActs(filters).map((act) => {
        const Icon = JOB_ACTS[act].icon
        return (
          <Button
            key={act}
            leftSection={<Icon size={14} />}
            disabled={none || unsupported !== undefined}
            onClick={() => begin({ act, filters })}
          >
            {JOB_ACTS[act].title}
          </Button>
        )
      })}
    </div>
  )
}

/** Links to all jobs of the job's resource. */
function About({ job: { resource, resource_id, tenant, tenant_id } }: { job: JobRow }) {
  if (resource_id === null) return '–'
  return (
    <Link
      to="/ops/jobs"
      search={{ resource_id, tenant: tenant ?? tenant_id, state: 'all' }}
      title={`All jobs of ${resource_id}`}
    >
      {resource === null ? 'Resource' : resourceLabel(resource)}
      <small className="mono comparison">{shortId(resource_id)}</small>
    </Link>
  )
}

/** Duration of the last attempt, or of the running one so far. */
function RunTime({ job: { state, started_at, finished_at } }: { job: JobRow }) {
  const now = useNow()
  const end = finished_at === null ? (state === 'running' ? now : null) : Date.parse(finished_at)
  return started_at === null || end === null ? '–' : formatDuration(Math.max(0, end - Date.parse(started_at)))
}

function NextRunOrEnd({ job: { finished_at, paused, run_at } }: { job: JobRow }) {
  if (finished_at !== null) return <Instant at={finished_at} />
  return paused ? 'When resumed' : <Instant at={run_at} />
}

/** The state of a job, refined to parked, paused or retrying. */
export function JobState({ job, pill = false }: { job: JobRow; pill?: boolean }) {
  if (job.parked && job.finished_at === null) return <Status status="parked" pill={pill} />
  // An unknown effect is more important than a pause.
  if (job.paused && job.unknown_since === null) return <Status status="paused" pill={pill} />
  // The list does not say whether the delivery is retried.
  if (job.state === 'failed' && job.name.startsWith('webhook_endpoint.'))
    return <Status status="retry" pill={pill} label="Attempt failed" />
  if (job.state === 'ready' && job.failing_since !== null) return <Status status="retrying" pill={pill} />
  if (job.state === 'ready' && job.attempt > 0)
    return <Status status="retrying" pill={pill} label="Ready to retry" />
  return <Status status={job.state} pill={pill} />
}

// Schedules: recurring work, with its last and next run.
import type { TableColumn } from '../../kit/DataTable.tsx'
import { defineList } from '../../kit/define-list.ts'
import { formatDuration, Instant } from '../../kit/Instant.tsx'
import { singlePageList } from '../../kit/list.ts'
import { ListPage } from '../../kit/ListPage.tsx'
import { Status } from '../../kit/Status.tsx'
import type { ScheduleRow } from '../../operations/shapes.ts'
import { useAnswer } from '../../queries.ts'

const STATE_LABELS = {
  new: 'Not run yet',
  running: 'Running',
  ended: 'Finished',
  failed: 'Failed',
  lost: 'Worker died',
}
const STATE_STATUSES = { new: 'scheduled', running: 'running', ended: 'done', failed: 'failed', lost: 'lost' }

const COLUMNS: TableColumn<ScheduleRow>[] = [
  {
    title: 'Name',
    cell: ({ name, about }) => (
      <div className="name-cell">
        <strong>{name}</strong>
        <small className="dim">{about}</small>
      </div>
    ),
  },
  {
    title: 'State',
    cell: ({ state }) => <Status status={STATE_STATUSES[state]} label={STATE_LABELS[state]} />,
  },
  {
    title: 'Last run',
    cell: ({ started_at, duration_ms }) => (
      <>
        <Instant at={started_at} none="never" />
        {duration_ms !== null && <small className="dim comparison">took {formatDuration(duration_ms)}</small>}
      </>
    ),
  },
  {
    title: 'Next run',
    cell: ({ next_run_at, state }) =>
      next_run_at === null ? (
        <span className="dim">{state === 'lost' ? 'soon' : 'after this run'}</span>
      ) : (
        <Instant at={next_run_at} />
      ),
  },
  { title: 'Worker', cell: ({ worker }) => <span className="mono">{worker ?? '–'}</span>, clip: true },
  {
    title: 'Result',
    clip: true,
    cell: (row) =>
      row.failure === null ? (
        <code title={JSON.stringify(row.result, null, 2)}>{formatResult(row.result)}</code>
      ) : (
        <span title={row.failure}>
          {row.failure}
          <small className="dim comparison">
            {row.failed_runs === 1 ? 'failed' : `failed ${row.failed_runs} times`} since{' '}
            <Instant at={row.failing_since} />
          </small>
        </span>
      ),
  },
]

const SCHEDULES = defineList({
  path: '/ops/schedules',
  label: 'Schedules',
  columns: COLUMNS,
  key: 'name',
  paged: false,
  empty: { title: 'No runs yet', text: 'Schedules run as soon as a worker starts.' },
})

export function SchedulesPage() {
  const query = useAnswer<ScheduleRow[]>('/ops/schedules', undefined, { interval_ms: 5_000 })
  return (
    <ListPage
      of={SCHEDULES}
      list={singlePageList(query, query.data)}
      title="Schedules"
      description="Recurring work. Each kind runs on one worker at a time."
    />
  )
}

function formatResult(result: unknown): string {
  if (result === null || result === undefined) return '–'
  if (typeof result !== 'object') return JSON.stringify(result)
  const scalars = Object.entries(result).filter(([, value]) => typeof value !== 'object')
  return scalars.length === 0 ? '–' : scalars.map(([name, value]) => `${name} ${String(value)}`).join(', ')
}

// The jobs of a queue by name.
import { Link } from '@tanstack/react-router'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { singlePageList } from '../kit/list.ts'
import { EmptyState } from '../kit/states.tsx'
import { useAnswer } from '../queries.ts'
import type { JobNameRow, JobNamesAnswer } from './shapes.ts'
import { formatMs } from './texts.ts'

export function JobNames({ queue, window }: { queue: string; window: string }) {
  const query = useAnswer<JobNamesAnswer>(`/ops/queues/${queue}/names`, { window }, { interval_ms: 30_000 })
  const open = (title: string, state: string, of: (row: JobNameRow) => number): TableColumn<JobNameRow> => ({
    title,
    align: 'end',
    cell: (row) =>
      of(row) === 0 ? (
        <span className="dim">0</span>
      ) : (
        <Link to="/ops/jobs" search={{ queue, name: row.name, state }}>
          {of(row).toLocaleString()}
        </Link>
      ),
  })
  const columns: TableColumn<JobNameRow>[] = [
    { title: 'Name', cell: ({ name }) => <span className="mono">{name}</span> },
    open('Due', 'ready', ({ due }) => due),
    open('Running', 'running', ({ running }) => running),
    open('Unknown', 'unknown', ({ unknown }) => unknown),
    open('Parked', 'parked', ({ parked }) => parked),
    { title: 'Out', align: 'end', cell: ({ out }) => out.toLocaleString() },
    { title: 'Failed', align: 'end', cell: ({ failed, discarded }) => (failed + discarded).toLocaleString() },
    { title: 'Retries', align: 'end', cell: ({ retries }) => retries.toLocaleString() },
    { title: 'Wait p95', align: 'end', cell: ({ wait }) => formatMs(wait.p95_ms) },
    { title: 'Run p95', align: 'end', cell: ({ run }) => formatMs(run.p95_ms) },
  ]
  return (
    <DataTable
      label="Jobs by name"
      list={singlePageList(query, query.data?.names, query.data?.as_of)}
      columns={columns}
      rowKey={({ name }) => name}
      to={({ name }) => `/ops/jobs?queue=${queue}&name=${name}&state=all`}
      paged={false}
      empty={<EmptyState title="No jobs in this period" />}
    />
  )
}

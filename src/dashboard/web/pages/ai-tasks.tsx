// AI tasks: the list.
import type { AiTask } from '#sdk/index.ts'
import { ID_COLUMN, CREATED_COLUMN } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { useCurl } from '../kit/curl.ts'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { formatDuration } from '../kit/Instant.tsx'
import { useList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { inWords } from '../kit/statuses.ts'

const FIELDS: FilterField[] = [
  { kind: 'select', name: 'kind', label: 'Kind', options: ['generate', 'classify', 'extract'] },
  {
    kind: 'select',
    name: 'status',
    label: 'Status',
    options: ['queued', 'running', 'succeeded', 'failed', 'canceled'],
  },
]

const COLUMNS: TableColumn<AiTask>[] = [
  { title: 'Kind', cell: ({ kind }) => inWords(kind), csv: ({ kind }) => kind },
  { title: 'Status', cell: ({ status }) => <Status status={status} />, csv: ({ status }) => status },
  {
    title: 'Model',
    cell: ({ model }) => <span className="mono">{model ?? '–'}</span>,
    clip: true,
    csv: ({ model }) => model,
  },
  {
    title: 'Tokens in and out',
    align: 'end',
    cell: ({ usage }) =>
      usage === null
        ? '–'
        : `${usage.input_tokens.toLocaleString()} / ${usage.output_tokens.toLocaleString()}`,
    csv: ({ usage }) => usage && usage.input_tokens + usage.output_tokens,
  },
  {
    title: 'Duration',
    align: 'end',
    cell: ({ started_at, finished_at }) =>
      started_at !== null && finished_at !== null
        ? formatDuration(Date.parse(finished_at) - Date.parse(started_at))
        : '–',
  },
  {
    title: 'Failure',
    cell: ({ failure }) => failure?.message ?? <span className="dim">–</span>,
    clip: true,
    csv: ({ failure }) => failure?.code,
  },
  ID_COLUMN,
  CREATED_COLUMN,
]

export function AiTasksPage() {
  const list = useList<AiTask>('/v1/ai/tasks', ['kind', 'status'], { every_ms: 10_000 })
  const curl = useCurl('/v1/ai/tasks', {
    idempotency_key: 'ticket-1',
    kind: 'classify',
    input: { text: 'My card was charged twice.', labels: ['delivery', 'charged'] },
  })
  return (
    <>
      <PageHeader title="AI tasks" description="Requests to a language model, and its answers." />
      <Filters fields={FIELDS} end={<CsvExport list={list} columns={COLUMNS} name="ai-tasks.csv" />} />
      <DataTable
        label="AI tasks"
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        to={({ id }) => `/ai-tasks/${id}`}
        empty={
          <EmptyState title="No AI tasks yet" curl={curl}>
            Create a task from your program, or with this command.
          </EmptyState>
        }
      />
    </>
  )
}

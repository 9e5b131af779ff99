// AI tasks: the list.
import type { AiTask } from '#sdk/index.ts'
import { ID_COLUMN, CREATED_COLUMN } from '../kit/columns.tsx'
import { curlOf } from '../kit/curl.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { formatDuration } from '../kit/Instant.tsx'
import { ListPage } from '../kit/ListPage.tsx'
import { Status } from '../kit/Status.tsx'
import { humanize } from '../kit/statuses.ts'

const COLUMNS: TableColumn<AiTask>[] = [
  { title: 'Kind', cell: ({ kind }) => humanize(kind), csv: ({ kind }) => kind },
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

const AI_TASKS = defineList({
  path: '/v1/ai/tasks',
  label: 'AI tasks',
  filters: [
    { kind: 'choice', name: 'kind', label: 'Kind' },
    { kind: 'choice', name: 'status', label: 'Status' },
  ],
  columns: COLUMNS,
  file: 'ai-tasks.csv',
  key: 'id',
  to: ({ id }) => `/ai-tasks/${id}`,
  interval_ms: 10_000,
  empty: {
    title: 'No AI tasks yet',
    text: 'Create a task from your program, or with this command.',
    curl: curlOf('/v1/ai/tasks', {
      idempotency_key: 'ticket-1',
      kind: 'classify',
      input: { text: 'My card was charged twice.', labels: ['delivery', 'charged'] },
    }),
  },
})

export function AiTasksPage() {
  return (
    <ListPage of={AI_TASKS} title="AI tasks" description="Requests to a language model, and its output." />
  )
}

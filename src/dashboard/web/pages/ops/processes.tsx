// Processes: their state, version and start time.
import type { ReactNode } from 'react'
import type { Answers } from '../../generated/answers.ts'
import type { TableColumn } from '../../kit/DataTable.tsx'
import { defineList } from '../../kit/define-list.ts'
import { Instant } from '../../kit/Instant.tsx'
import { singlePageList } from '../../kit/list.ts'
import { ListPage } from '../../kit/ListPage.tsx'
import { Status, toneClass } from '../../kit/Status.tsx'
import { useAnswer } from '../../queries.ts'
import { counted } from '../../kit/counts.ts'

type ProcessRow = Answers['GET /ops/processes'][number]

const STATES: Record<ProcessRow['state'], ReactNode> = {
  up: <Status status="up" />,
  late: <Status status="warning" label="Heartbeat late" />,
  gone: <Status status="lost" label="No heartbeat" pill />,
}

const columnsOf = (common: string | undefined): TableColumn<ProcessRow>[] => [
  { title: 'Process', cell: ({ name }) => <strong>{name}</strong> },
  {
    title: 'State',
    cell: ({ state }) => STATES[state],
  },
  {
    title: 'Version',
    cell: ({ version, state }) => (
      <span className={state !== 'gone' && version !== common ? toneClass('warn', 'mono') : 'mono'}>
        {version}
        {state !== 'gone' && version !== common && ' (differs)'}
      </span>
    ),
  },
  { title: 'Host', cell: ({ host, pid }) => <span className="mono">{`${host} ${pid}`}</span> },
  { title: 'Queues', cell: ({ queues }) => (queues === null ? '–' : queues.join(', ')), clip: true },
  { title: 'Started', cell: ({ started_at }) => <Instant at={started_at} /> },
  { title: 'Last seen', cell: ({ seen_at }) => <Instant at={seen_at} /> },
]

const PROCESSES = defineList({
  path: '/ops/processes',
  label: 'Processes',
  columns: [],
  key: 'id',
  paged: false,
  empty: { title: 'No process seen in the last day' },
})

export function ProcessesPage() {
  const query = useAnswer<ProcessRow[]>('/ops/processes', undefined, { interval_ms: 5_000 })
  const rows = query.data ?? []
  const running = rows.filter(({ state }) => state !== 'gone').map(({ version }) => version)
  const versions = [...new Set(running)]
  const gone = rows.filter(({ state }) => state === 'gone').length
  return (
    <ListPage
      of={{ ...PROCESSES, columns: columnsOf(mostCommon(running)) }}
      list={singlePageList(query, query.data)}
      title="Processes"
      description="Processes that sent a heartbeat in the last day."
      above_rows={
        <>
          {versions.length > 1 && (
            <p className={toneClass('warn', 'dialog-result')} role="alert">
              {versions.length} versions are running: {versions.join(', ')}. This is expected during a
              deployment.
            </p>
          )}
          {gone > 0 && (
            <p className={toneClass('bad', 'dialog-result')} role="alert">
              {counted(gone, 'process', 'processes')} stopped without shutting down. Other workers take over
              the jobs when the leases expire.
            </p>
          )}
        </>
      }
    />
  )
}

function mostCommon(versions: string[]): string | undefined {
  const counts = Map.groupBy(versions, (version) => version)
  return [...counts].toSorted(([, a], [, b]) => b.length - a.length)[0]?.[0]
}

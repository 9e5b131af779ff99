// Processes: which run, since when, and in which version.
import type { Answers } from '../../generated/answers.ts'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { wholeList } from '../../kit/list.ts'
import { PageHeader } from '../../kit/PageHeader.tsx'
import { EmptyState } from '../../kit/states.tsx'
import { Status, toneClass } from '../../kit/Status.tsx'
import { useAnswer } from '../../queries.ts'

type ProcessRow = Answers['GET /ops/processes'][number]

export function ProcessesPage() {
  const query = useAnswer<ProcessRow[]>('/ops/processes', undefined, { every_ms: 5_000 })
  const rows = query.data ?? []
  const versions = [...new Set(rows.filter(({ is_gone }) => !is_gone).map(({ version }) => version))]
  const gone = rows.filter(({ is_gone }) => is_gone).length
  const common = mostCommon(rows.filter(({ is_gone }) => !is_gone).map(({ version }) => version))
  const columns: TableColumn<ProcessRow>[] = [
    { title: 'Process', cell: ({ name }) => <strong>{name}</strong> },
    {
      title: 'State',
      cell: ({ is_gone }) => (is_gone ? <Status status="lost" word="Gone" pill /> : <Status status="up" />),
    },
    {
      title: 'Version',
      cell: ({ version, is_gone }) => (
        <span className={!is_gone && version !== common ? toneClass('warn', 'mono') : 'mono'}>
          {version}
          {!is_gone && version !== common && ' (differs)'}
        </span>
      ),
    },
    { title: 'Host', cell: ({ host, pid }) => <span className="mono">{`${host} ${pid}`}</span> },
    { title: 'Queues', cell: ({ queues }) => (queues === null ? '–' : queues.join(', ')), clip: true },
    { title: 'Started', cell: ({ started_at }) => <Instant at={started_at} /> },
    { title: 'Last seen', cell: ({ seen_at }) => <Instant at={seen_at} /> },
  ]
  return (
    <>
      <PageHeader title="Processes" description="Processes that sent a heartbeat in the last day." />
      {versions.length > 1 && (
        <p className={toneClass('warn', 'dialog-result')} role="alert">
          {versions.length} versions are running: {versions.join(', ')}. This is expected during a deployment.
        </p>
      )}
      {gone > 0 && (
        <p className={toneClass('bad', 'dialog-result')} role="alert">
          {gone === 1 ? '1 process is' : `${gone} processes are`} gone without shutting down. Other workers
          take over the jobs when the leases end.
        </p>
      )}
      <DataTable
        label="Processes"
        list={wholeList(query, query.data)}
        columns={columns}
        rowKey={({ id }) => id}
        paged={false}
        empty={<EmptyState title="No process seen in the last day" />}
      />
    </>
  )
}

function mostCommon(versions: string[]): string | undefined {
  const counts = Map.groupBy(versions, (version) => version)
  return [...counts].toSorted(([, a], [, b]) => b.length - a.length)[0]?.[0]
}

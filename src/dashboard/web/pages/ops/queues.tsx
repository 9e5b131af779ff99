// Queues: one row each, with due jobs, rates and wait times.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { ArrowDownRight, ArrowUpRight, CirclePause, CirclePlay } from 'lucide-react'
import { useState } from 'react'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { singlePageList } from '../../kit/list.ts'
import { PageHeader } from '../../kit/PageHeader.tsx'
import { Sparkline } from '../../kit/Sparkline.tsx'
import { EmptyState } from '../../kit/states.tsx'
import { Status, toneClass } from '../../kit/Status.tsx'
import { CountingNote } from '../../operations/Counting.tsx'
import { LiveMark } from '../../operations/LiveMark.tsx'
import { PauseDialog, type PauseTarget } from '../../operations/PauseDialog.tsx'
import { PauseList } from '../../operations/PauseList.tsx'
import type { PauseRow, QueueRow, QueuesAnswer } from '../../operations/shapes.ts'
import { formatMs, formatPerSecond, formatSeconds } from '../../operations/texts.ts'
import { useAnswer } from '../../queries.ts'
import { counted } from '../../kit/counts.ts'

/** A queue is late if its oldest due job has waited longer than this. */
const LATE_AFTER_S = 10

const COLUMNS: TableColumn<QueueRow>[] = [
  {
    title: 'Queue',
    cell: ({ queue, outages }) => (
      <>
        <strong>{queue}</strong>
        {outages.map((text) => (
          <small key={text} className={toneClass('bad', 'comparison')}>
            {text}
          </small>
        ))}
      </>
    ),
  },
  { title: 'Oldest due', cell: (row) => <OldestDue row={row} /> },
  { title: 'Due', align: 'end', cell: (row) => <Due row={row} /> },
  { title: 'Retrying', align: 'end', cell: (row) => <Retrying row={row} /> },
  { title: 'Running', align: 'end', cell: ({ running }) => running.toLocaleString() },
  { title: 'In /s', align: 'end', cell: ({ in_per_s_1m }) => formatPerSecond(in_per_s_1m) },
  { title: 'Out /s', align: 'end', cell: ({ out_per_s_1m }) => formatPerSecond(out_per_s_1m) },
  { title: 'Wait p50', align: 'end', cell: ({ wait }) => <Wait wait={wait} of="p50_ms" /> },
  { title: 'Wait p95', align: 'end', cell: ({ wait }) => <Wait wait={wait} of="p95_ms" /> },
  { title: 'Failed, 1 h', align: 'end', cell: (row) => <FailedLink row={row} /> },
  {
    title: 'Finished',
    cell: ({ queue, out_by_minute }) => (
      <div className="spark-cell">
        <Sparkline values={out_by_minute} height={24} label={`${queue}: jobs finished, last hour`} />
      </div>
    ),
  },
]

export function QueuesPage() {
  const query = useAnswer<QueuesAnswer>('/ops/queues', undefined, { interval_ms: 10_000 })
  const { data: pauses = [] } = useAnswer<PauseRow[]>('/ops/pauses', undefined, { interval_ms: 5_000 })
  const [target, setTarget] = useState<PauseTarget>()
  const list = singlePageList(query, query.data?.queues, query.data?.as_of)
  const worst = oldestOf(query.data?.queues ?? [])
  const retrying = (query.data?.queues ?? []).reduce((sum, row) => sum + row.retrying, 0)
  const is_current = query.data?.counting === 'current'
  return (
    <>
      <PageHeader
        title="Queues"
        description={
          <>
            <CountingNote of={query.data} />{' '}
            {worst !== undefined && `Oldest due: ${formatSeconds(worst.oldest_due_s)} in ${worst.queue}.`}
            {worst === undefined && is_current && retrying === 0 && 'Nothing is due.'}
            {retrying > 0 && ` ${counted(retrying, 'job is', 'jobs are')} retried.`}
          </>
        }
        actions={<LiveMark />}
      />
      <DataTable
        label="Queues"
        list={list}
        columns={[
          ...COLUMNS,
          {
            title: '',
            align: 'end',
            cell: (row) => <PauseButton row={row} pauses={pauses} pause={setTarget} />,
          },
        ]}
        rowKey={({ queue }) => queue}
        to={({ queue }) => `/ops/queues/${queue}`}
        paged={false}
        compared={({ due, retrying: failing, running, outages, paused, paused_tenants }) => [
          due,
          failing,
          outages.join(),
          running,
          paused,
          paused_tenants,
        ]}
        empty={<EmptyState title="No queues" />}
      />
      <p className="dim related-links">
        <Link to="/ops/processes">Processes</Link> <Link to="/ops/providers">Providers</Link>{' '}
        <Link to="/ops/tenants">Tenants by share</Link>{' '}
        <a href="/ops/bull-board" target="_blank" rel="noreferrer">
          Wake-ups in BullMQ
        </a>
      </p>
      <section className="section">
        <h2>Pauses</h2>
        <PauseList pauses={pauses} />
      </section>
      <PauseDialog target={target} close={() => setTarget(undefined)} />
    </>
  )
}

function PauseButton({
  row: { queue, paused, due },
  pauses,
  pause,
}: {
  row: QueueRow
  pauses: PauseRow[]
  pause: (target: PauseTarget) => void
}) {
  const is_paused = pauses.some((pause) => pause.queue === queue && pause.tenant_id === null)
  const act = is_paused || paused ? 'Resume' : 'Pause'
  const Icon = act === 'Pause' ? CirclePause : CirclePlay
  return (
    <Button
      size="compact-sm"
      leftSection={<Icon size={14} />}
      {...(act === 'Resume' && { variant: 'filled' })}
      onClick={() => pause({ act, queue, due })}
    >
      {act}
    </Button>
  )
}

function OldestDue({ row: { oldest_due_s, paused, paused_tenants } }: { row: QueueRow }) {
  return (
    <span className="inline">
      <b className={oldest_due_s >= LATE_AFTER_S ? toneClass('bad', 'figures') : 'figures'}>
        {formatSeconds(oldest_due_s)}
      </b>
      {paused && <Status status="paused" pill />}
      {!paused && paused_tenants > 0 && (
        <Status status="paused" pill label={`Paused for ${counted(paused_tenants, 'tenant')}`} />
      )}
    </span>
  )
}

/** The number of due jobs, and of scheduled and parked jobs. */
function Due({ row: { due, later, parked } }: { row: QueueRow }) {
  const others = [
    ...(later > 0 ? [`${later.toLocaleString()} later`] : []),
    ...(parked > 0 ? [`${parked.toLocaleString()} parked`] : []),
  ]
  return (
    <span className="figures">
      {due.toLocaleString()}
      <small className="dim comparison">{others.join(', ')}</small>
    </span>
  )
}

/** The number of retrying jobs, and for how long the oldest has been failing. */
function Retrying({ row: { queue, retrying, oldest_retrying_s } }: { row: QueueRow }) {
  if (retrying === 0) return <span className="dim">0</span>
  return (
    <Link to="/ops/jobs" search={{ queue, state: 'retrying' }} className={toneClass('warn', 'figures')}>
      {retrying.toLocaleString()}
      <small className="dim comparison">for {formatSeconds(oldest_retrying_s)}</small>
    </Link>
  )
}

function FailedLink({ row: { queue, failed_1h } }: { row: QueueRow }) {
  if (failed_1h === 0) return <span className="dim">0</span>
  return (
    <Link to="/ops/jobs" search={{ queue, state: 'failed' }}>
      {failed_1h.toLocaleString()}
    </Link>
  )
}

/**
 * The wait in the last five minutes and in the last hour. An arrow marks an increase by half or more, or a decrease by
 * a third or more.
 */
function Wait({ wait: { last_5m, last_1h }, of }: { wait: QueueRow['wait']; of: 'p50_ms' | 'p95_ms' }) {
  const [now, hour] = [last_5m[of], last_1h[of]]
  const ratio = now === null || hour === null || hour < 1 ? 1 : now / hour
  const against = `last hour ${formatMs(hour)}`
  return (
    <span className="figures" title={`Last 5 minutes; ${against}`}>
      {formatMs(now)}
      {ratio >= 1.5 && now !== null && now >= 100 && (
        <ArrowUpRight size={12} className="tone-bad" aria-label={`more than the ${against}`} />
      )}
      {ratio <= 0.67 && (
        <ArrowDownRight size={12} className="tone-good" aria-label={`less than the ${against}`} />
      )}
      <small className="dim comparison">{hour !== null && `1 h: ${formatMs(hour)}`}</small>
    </span>
  )
}

function oldestOf(queues: QueueRow[]): QueueRow | undefined {
  const [oldest] = queues.toSorted((a, b) => b.oldest_due_s - a.oldest_due_s)
  return oldest !== undefined && oldest.oldest_due_s > 0 ? oldest : undefined
}

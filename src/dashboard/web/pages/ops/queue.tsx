// One queue: figures over time, jobs by name, tenants by share, and active pauses.
import { Button, SegmentedControl } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useAddressSearch, usePathParam } from '../../address.ts'
import { ErrorPage } from '../../kit/ErrorPage.tsx'
import { Figure } from '../../kit/Figure.tsx'
import { formatDuration } from '../../kit/Instant.tsx'
import { LineChart } from '../../kit/LineChart.tsx'
import { NotFound } from '../../kit/NotFound.tsx'
import { PageHeader } from '../../kit/PageHeader.tsx'
import { ErrorState } from '../../kit/states.tsx'
import { Status } from '../../kit/Status.tsx'
import { CountingNote } from '../../operations/Counting.tsx'
import { JobNames } from '../../operations/JobNames.tsx'
import { LiveMark } from '../../operations/LiveMark.tsx'
import { PauseDialog, TenantField, type PauseTarget } from '../../operations/PauseDialog.tsx'
import { PauseList } from '../../operations/PauseList.tsx'
import { RANGE_OPTIONS, RANGES, useSeries } from '../../operations/series.ts'
import {
  QUEUE_NAMES,
  type PauseRow,
  type PercentileRow,
  type QueueRow,
  type QueuesAnswer,
  type SeriesAnswer,
  type TenantRow,
} from '../../operations/shapes.ts'
import { TenantShares } from '../../operations/TenantShares.tsx'
import { formatRate, formatSeconds } from '../../operations/texts.ts'
import { useAnswer } from '../../queries.ts'

const PARENT_PAGE = { to: '/ops/queues', title: 'Queues' }

export function QueuePage() {
  const queue = usePathParam('queue')
  if (QUEUE_NAMES.includes(queue)) return <QueueDetails queue={queue} />
  return (
    <NotFound title="Queue not found" parent={PARENT_PAGE}>
      {`There is no queue ${queue}.`}
    </NotFound>
  )
}

function QueueDetails({ queue }: { queue: string }) {
  const [search, change] = useAddressSearch()
  const range = RANGES.find(({ value }) => value === search.range) ?? RANGES[0]!
  const queues = useAnswer<QueuesAnswer>('/ops/queues', undefined, { interval_ms: 10_000 })
  const { data: pauses = [] } = useAnswer<PauseRow[]>('/ops/pauses', undefined, { interval_ms: 5_000 })
  const series = useSeries(queue, range)
  const [target, setTarget] = useState<PauseTarget>()
  const row = queues.data?.queues.find((each) => each.queue === queue)
  if (queues.error !== null && queues.data === undefined)
    return <ErrorPage title={queue} parent={PARENT_PAGE} error={queues.error} retry={queues.refetch} />
  const pauses_here = pauses.filter((pause) => pause.queue === queue || pause.queue === null)
  const act = pauses_here.some((pause) => pause.tenant_id === null) ? 'Resume' : 'Pause'
  return (
    <>
      <PageHeader
        title={`${queue} · Queue`}
        heading={
          <span className="inline">
            {queue} {row?.paused === true && <Status status="paused" pill />}
          </span>
        }
        parent={PARENT_PAGE}
        read={queues}
        as_of={queues.data?.as_of ? Date.parse(queues.data.as_of) : undefined}
        description={<CountingNote of={queues.data} />}
        actions={
          <>
            <LiveMark />
            <Button
              onClick={() => setTarget({ act, queue, ...(row && { due: row.due }) })}
              {...(act === 'Resume' && { variant: 'filled' })}
            >
              {act}
            </Button>
          </>
        }
      />
      <QueueFigures queue={queue} row={row} points={series.data?.points} range={range.label} />
      <JobLinks queue={queue} row={row} />
      <section className="section">
        <div className="section-head">
          <h2>Over time</h2>
          <SegmentedControl
            aria-label="Range"
            size="xs"
            data={RANGE_OPTIONS}
            value={range.value}
            onChange={(value) => change({ range: value })}
          />
        </div>
        {series.error !== null && series.data === undefined ? (
          <ErrorState error={series.error} retry={series.refetch} />
        ) : (
          <Charts series={series.data} />
        )}
      </section>
      <section className="section">
        <h2>Jobs by name</h2>
        <JobNames queue={queue} window={range.value} />
      </section>
      <section className="section">
        <h2>Tenants by share</h2>
        <TenantShares queue={queue} window={range.value} />
      </section>
      <Pauses queue={queue} pauses={pauses_here} pause={setTarget} />
      <PauseDialog target={target} close={() => setTarget(undefined)} />
    </>
  )
}

/** The headline figures. `points`: their history over `range`. */
function QueueFigures({
  queue,
  row,
  points,
  range,
}: {
  queue: string
  row: QueueRow | undefined
  points: SeriesAnswer['points'] | undefined
  range: string
}) {
  const last_hour = row?.out_by_minute
  return (
    <div className="figures-row">
      <Figure
        name="Oldest due"
        value={row && formatSeconds(row.oldest_due_s)}
        history={nullsAsZero(points?.map(({ oldest_due_s }) => oldest_due_s))}
        period={`last ${range}`}
      />
      <Figure
        name="Due"
        value={row && row.due.toLocaleString()}
        history={nullsAsZero(points?.map(({ due }) => due))}
        period={row ? `${row.running} running, ${row.later.toLocaleString()} scheduled` : '…'}
      />
      <Figure
        name="Out"
        value={row && formatRate(row.out_per_s_1m)}
        {...(last_hour && { history: last_hour })}
        period={row ? `in ${formatRate(row.in_per_s_1m)}; line: last hour` : '…'}
      />
      <Figure
        name="Failed"
        value={
          row && (
            <Link to="/ops/jobs" search={{ queue, state: 'failed' }}>
              {row.failed_1h.toLocaleString()}
            </Link>
          )
        }
        history={nullsAsZero(points?.map(({ failed }) => failed))}
        period="last hour"
      />
    </div>
  )
}

/** Links to the queue's jobs: all, retrying, unknown and parked. */
function JobLinks({ queue, row }: { queue: string; row: QueueRow | undefined }) {
  return (
    <p className="related-links">
      <Link to="/ops/jobs" search={{ queue }}>
        Jobs of this queue
      </Link>
      {(row?.retrying ?? 0) > 0 && (
        <Link to="/ops/jobs" search={{ queue, state: 'retrying' }}>
          {row?.retrying} retrying, for up to {formatSeconds(row?.oldest_retrying_s ?? 0)}
        </Link>
      )}
      {(row?.unknown ?? 0) > 0 && (
        <Link to="/ops/jobs" search={{ queue, state: 'unknown' }}>
          {row?.unknown} with unknown effect
        </Link>
      )}
      {(row?.parked ?? 0) > 0 && (
        <Link to="/ops/jobs" search={{ queue, state: 'parked' }}>
          {row?.parked} parked
        </Link>
      )}
    </p>
  )
}

/** The active pauses of the queue, and the form that pauses a tenant. */
function Pauses({
  queue,
  pauses,
  pause,
}: {
  queue: string
  pauses: PauseRow[]
  pause: (target: PauseTarget) => void
}) {
  const [tenant, setTenant] = useState<TenantRow>()
  return (
    <section className="section">
      <h2>Pauses</h2>
      <PauseList pauses={pauses} />
      <form
        className="filters pause-tenant"
        onSubmit={(event) => {
          event.preventDefault()
          if (tenant) pause({ act: 'Pause', queue, tenant })
        }}
      >
        <TenantField chosen={tenant} choose={setTenant} />
        <Button type="submit" disabled={tenant === undefined}>
          Pause tenant
        </Button>
      </form>
    </section>
  )
}

function Charts({ series }: { series: SeriesAnswer | undefined }) {
  const points = series?.points ?? []
  const at = series && points.map((point) => point.at)
  const percentiles = (of: 'wait' | 'run') =>
    (['p50_ms', 'p95_ms', 'p99_ms'] satisfies (keyof PercentileRow)[]).map((name) => ({
      name: name.slice(0, 3),
      values: points.map((point) => point[of][name]),
    }))
  return (
    <div className="charts">
      <LineChart
        title="Jobs in, out and failed"
        at={at}
        summed
        series={[
          { name: 'In', values: points.map((point) => point.in) },
          { name: 'Out', values: points.map(({ out }) => out) },
          { name: 'Failed', values: points.map(({ failed }) => failed) },
        ]}
      />
      <LineChart title="Due" at={at} series={[{ name: 'Due', values: points.map(({ due }) => due) }]} />
      <LineChart title="Wait" at={at} series={percentiles('wait')} format={formatDuration} />
      <LineChart title="Run" at={at} series={percentiles('run')} format={formatDuration} />
      <LineChart
        title="Oldest due"
        at={at}
        series={[{ name: 'Oldest', values: points.map(({ oldest_due_s }) => oldest_due_s) }]}
        format={formatSeconds}
      />
    </div>
  )
}

function nullsAsZero(values: (number | null)[] | undefined): number[] {
  return (values ?? []).map((value) => value ?? 0)
}

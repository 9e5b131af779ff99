// Providers: the outcomes of calls in the last 15 minutes, and open calls with unknown effect.
import { Link } from '@tanstack/react-router'
import type { Answers } from '../../generated/answers.ts'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { singlePageList } from '../../kit/list.ts'
import { Instant } from '../../kit/Instant.tsx'
import { PageHeader } from '../../kit/PageHeader.tsx'
import { EmptyState } from '../../kit/states.tsx'
import { Status, toneClass } from '../../kit/Status.tsx'
import { CountingNote } from '../../operations/Counting.tsx'
import { formatMs, formatSeconds, OUTAGE_LABELS } from '../../operations/texts.ts'
import { useAnswer } from '../../queries.ts'

type ProvidersResponse = Answers['GET /ops/providers']
type ProviderRow = ProvidersResponse['providers'][number]

const count = (
  title: string,
  of: (row: ProviderRow) => number,
  tone?: 'bad' | 'unknown',
): TableColumn<ProviderRow> => ({
  title,
  align: 'end',
  cell: (row) => (
    <span className={of(row) > 0 && tone ? toneClass(tone) : of(row) === 0 ? 'dim' : undefined}>
      {of(row).toLocaleString()}
    </span>
  ),
})

const columnsOf = (is_current: boolean): TableColumn<ProviderRow>[] => [
  { title: 'Provider', cell: ({ provider }) => <strong>{provider}</strong> },
  { title: 'State', cell: (row) => <ProviderState row={row} is_current={is_current} /> },
  {
    title: 'Finished',
    align: 'end',
    cell: ({ calls, declined }) => (
      <span className={calls === 0 ? 'dim' : 'figures'}>
        {calls.toLocaleString()}
        {declined > 0 && <small className="dim comparison">{declined.toLocaleString()} declined</small>}
      </span>
    ),
  },
  { title: 'Failed', align: 'end', cell: (row) => <FailedCalls row={row} /> },
  { title: 'Retrying', align: 'end', cell: (row) => <Retrying row={row} /> },
  count('Retries', ({ retries }) => retries),
  {
    title: 'Duration p50',
    align: 'end',
    cell: ({ took }) => (
      <span className="figures">
        {formatMs(took.p50_ms)}
        {took.p95_ms !== null && <small className="dim comparison">p95: {formatMs(took.p95_ms)}</small>}
      </span>
    ),
  },
  count('Refused', ({ refused }) => refused, 'bad'),
  count('In doubt', ({ in_doubt }) => in_doubt, 'unknown'),
  {
    title: 'Unknown',
    align: 'end',
    cell: ({ unknown }) =>
      unknown === 0 ? (
        <span className="dim">0</span>
      ) : (
        <Link to="/ops/drifts" search={{ tab: 'unknown' }}>
          {unknown.toLocaleString()}
        </Link>
      ),
  },
]

export function ProvidersPage() {
  const query = useAnswer<ProvidersResponse>('/ops/providers', undefined, { interval_ms: 10_000 })
  return (
    <>
      <PageHeader
        title="Providers"
        description={
          <>
            <CountingNote of={query.data} /> Jobs that finished and attempts that failed in the last 15
            minutes, and jobs that are open now.
          </>
        }
      />
      <DataTable
        label="Providers"
        list={singlePageList(query, query.data?.providers, query.data?.as_of)}
        columns={columnsOf(query.data?.counting === 'current')}
        rowKey={({ provider }) => provider}
        paged={false}
        empty={<EmptyState title="This version calls no provider" />}
      />
    </>
  )
}

/** The number of failed calls, and of each kind of failure. */
function FailedCalls({ row: { failed, failures } }: { row: ProviderRow }) {
  if (failed === 0) return <span className="dim">0</span>
  return (
    <span className={toneClass('bad', 'figures')}>
      {failed.toLocaleString()}
      {failures.map(({ outcome, count: of }) => (
        <small key={outcome} className="dim comparison">
          {of.toLocaleString()} {FAILURE_LABELS[outcome]}
        </small>
      ))}
    </span>
  )
}

const FAILURE_LABELS: Record<ProviderRow['failures'][number]['outcome'], string> = {
  retry: 'without effect',
  ambiguous: 'in doubt',
  misconfigured: 'refused credentials',
}

function Retrying({ row: { retrying, oldest_retrying_s } }: { row: ProviderRow }) {
  if (retrying === 0) return <span className="dim">0</span>
  return (
    <Link to="/ops/jobs" search={{ state: 'retrying' }} className="figures">
      {retrying.toLocaleString()}
      <small className="dim comparison">for {formatSeconds(oldest_retrying_s)}</small>
    </Link>
  )
}

function ProviderState({
  row: { calls, outage, retrying, refused, unknown, in_doubt },
  is_current,
}: {
  row: ProviderRow
  is_current: boolean
}) {
  if (outage !== null)
    return (
      <>
        <Status status="refused" label={OUTAGE_LABELS[outage.problem]} />
        {outage.operations.length > 0 && <small className="dim comparison">{outage.text}</small>}
        <small className="dim comparison">
          since <Instant at={outage.since} />
        </small>
        <small className="dim comparison">check {outage.check.join(', ')}</small>
      </>
    )
  if (retrying > 0) return <Status status="retrying" label="Calls are retried" />
  if (refused > 0) return <Status status="refused" label="Refuses calls" />
  if (unknown + in_doubt > 0) return <Status status="unknown" label="Unknown effects" />
  if (!is_current) return <Status status="none" label="Not counted" />
  if (calls === 0) return <Status status="none" label="No recent calls" />
  return <Status status="healthy" />
}

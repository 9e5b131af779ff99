// Accepted requests that the database has lost and that no provider lists.
import type { Answers } from '../../generated/answers.ts'
import { counted } from '../../kit/counts.ts'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { singlePageList } from '../../kit/list.ts'
import { useAnswer } from '../../queries.ts'

type LostRequestsAnswer = Answers['GET /ops/recovery/lost-requests']
type LostRequestRow = LostRequestsAnswer['latest'][number]

const COLUMNS: TableColumn<LostRequestRow>[] = [
  { title: 'Request', cell: ({ path }) => <span className="mono">{path}</span> },
  { title: 'Tenant', cell: ({ tenant }) => tenant, clip: true },
  { title: 'Key', cell: ({ idempotency_key }) => idempotency_key ?? '–', clip: true },
  { title: 'Accepted', cell: ({ accepted_at }) => <Instant at={accepted_at} /> },
]

export function LostRequests() {
  const query = useAnswer<LostRequestsAnswer>('/ops/recovery/lost-requests', undefined, {
    interval_ms: 10_000,
  })
  const { count, latest } = query.data ?? {}
  return (
    <section className="section">
      <h2>Requests that were lost</h2>
      <p className="dim recovery-note">
        Accepted requests that the database has lost and that no provider lists
        {count === undefined || count === 0 ? ': none known.' : `: ${counted(count, 'request')}.`} Each tenant
        gets them as events <code>request.lost</code>, and repeats them with their keys.
      </p>
      {latest?.length !== 0 && (
        <DataTable
          label="Lost requests"
          list={singlePageList(query, latest)}
          columns={COLUMNS}
          rowKey={({ id }) => id}
          paged={false}
          empty={null}
        />
      )}
    </section>
  )
}

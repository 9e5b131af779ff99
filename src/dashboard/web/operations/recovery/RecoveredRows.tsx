// The rows that were made again since the last switch of the database.
import type { Answers } from '../../generated/answers.ts'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { shortId } from '../../kit/Id.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { singlePageList } from '../../kit/list.ts'
import { useAnswer } from '../../queries.ts'
import { resourceCount, resourceLabel } from '../../resources.ts'

type RecoveredAnswer = Answers['GET /ops/recovery/recovered']
type RecoveredRow = RecoveredAnswer['latest'][number]

const COLUMNS: TableColumn<RecoveredRow>[] = [
  {
    title: 'Resource',
    cell: ({ resource, resource_id }) => (
      <>
        <strong>{resourceLabel(resource)}</strong> <span className="dim mono">{shortId(resource_id)}</span>
      </>
    ),
  },
  { title: 'Tenant', cell: ({ tenant }) => tenant, clip: true },
  { title: 'Made again', cell: ({ recovered_at }) => <Instant at={recovered_at} /> },
]

export function RecoveredRows() {
  // The query visits each tenant.
  const query = useAnswer<RecoveredAnswer>('/ops/recovery/recovered', undefined, { interval_ms: 60_000 })
  const { counts = [], latest } = query.data ?? {}
  return (
    <section className="section">
      <h2>What was recovered</h2>
      <p className="dim recovery-note">
        Rows that were lost and made again from the objects of the providers
        {counts.length === 0
          ? ': none so far.'
          : `: ${LIST.format(counts.map(({ resource, rows }) => resourceCount(rows, resource)))}.`}
      </p>
      {latest?.length !== 0 && (
        <DataTable
          label="Rows that were made again"
          list={singlePageList(query, latest)}
          columns={COLUMNS}
          rowKey={({ resource_id, recovered_at }) => `${resource_id} ${recovered_at}`}
          to={({ subject_id, tenant }) => `/ops/jobs?state=all&resource_id=${subject_id}&tenant=${tenant}`}
          paged={false}
          empty={null}
        />
      )}
    </section>
  )
}

const LIST = new Intl.ListFormat('en')

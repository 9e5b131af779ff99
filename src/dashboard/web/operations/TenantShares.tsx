// Tenants by their share of the run time of one queue, or of all queues.
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { formatDuration } from '../kit/Instant.tsx'
import { singlePageList } from '../kit/list.ts'
import { EmptyState } from '../kit/states.tsx'
import { useAnswer } from '../queries.ts'
import type { ShareRow, SharesAnswer } from './shapes.ts'

const COLUMNS: TableColumn<ShareRow>[] = [
  { title: 'Tenant', cell: ({ slug, tenant_id }) => slug ?? tenant_id ?? 'All others' },
  {
    title: 'Share',
    cell: ({ share }) => (
      <span className="share">
        <span className="share-bar" aria-hidden>
          <span style={{ width: `${share * 100}%` }} />
        </span>
        <span className="figures">{PERCENT.format(share)}</span>
      </span>
    ),
  },
  { title: 'Finished', align: 'end', cell: ({ finished }) => finished.toLocaleString() },
  { title: 'Run time', align: 'end', cell: ({ run_ms }) => formatDuration(run_ms) },
]

/** A table of tenants by share. `queue` undefined: all queues. */
export function TenantShares({ queue, window }: { queue?: string; window: string }) {
  const query = useAnswer<SharesAnswer>('/ops/shares', { queue, window }, { interval_ms: 30_000 })
  return (
    <DataTable
      label="Tenants by share"
      list={singlePageList(query, query.data?.tenants, query.data?.as_of)}
      columns={COLUMNS}
      rowKey={({ tenant_id }) => tenant_id ?? 'others'}
      to={({ slug }) =>
        `/ops/jobs?state=all${queue === undefined ? '' : `&queue=${queue}`}${slug === null ? '' : `&tenant=${slug}`}`
      }
      paged={false}
      empty={<EmptyState title="Nothing finished in this period" />}
    />
  )
}

const PERCENT = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 })

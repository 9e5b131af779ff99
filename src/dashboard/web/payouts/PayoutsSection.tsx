// The newest payouts of a recipient, on its page.
import { Link } from '@tanstack/react-router'
import type { Payout } from '#sdk/index.ts'
import { AMOUNT_COLUMN } from '../kit/columns.tsx'
import { DataTable } from '../kit/DataTable.tsx'
import { useList } from '../kit/list.ts'
import { EmptyState } from '../kit/states.tsx'
import { useAreaState } from '../session.tsx'
import { OTHERS } from './columns.tsx'

const COLUMNS = [AMOUNT_COLUMN, ...OTHERS]

export function PayoutsSection({ recipient_id }: { recipient_id: string }) {
  const deployed = useAreaState('payouts') === 'deployed'
  const list = useList<Payout>('/v1/payouts', [], {
    fixed: { recipient_id },
    limit: 10,
    every_ms: 10_000,
    enabled: deployed,
  })
  if (!deployed) return null
  return (
    <section className="section">
      <div className="line">
        <h2>Payouts</h2>
        <Link to="/payouts" search={{ recipient_id }} className="section-more">
          All payouts
        </Link>
      </div>
      <DataTable
        label="Payouts"
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        to={({ id }) => `/payouts/${id}`}
        empty={<EmptyState title="No payouts yet">Nothing has been paid out to this recipient.</EmptyState>}
      />
    </section>
  )
}

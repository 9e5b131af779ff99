// The newest payouts of a recipient.
import { Link } from '@tanstack/react-router'
import { AMOUNT_COLUMN } from '../kit/columns.tsx'
import { defineList } from '../kit/define-list.ts'
import { useList } from '../kit/list.ts'
import { ListView } from '../kit/ListPage.tsx'
import { useAreaState } from '../session.tsx'
import { PAYOUT_COLUMNS } from './columns.tsx'

const NEWEST = defineList({
  path: '/v1/payouts',
  label: 'Payouts',
  columns: [AMOUNT_COLUMN, ...PAYOUT_COLUMNS],
  key: 'id',
  to: ({ id }) => `/payouts/${id}`,
  limit: 10,
  interval_ms: 10_000,
  empty: { title: 'No payouts yet', text: 'Nothing has been paid out to this recipient.' },
})

export function PayoutsSection({ recipient_id }: { recipient_id: string }) {
  const deployed = useAreaState('payouts') === 'deployed'
  const list = useList(NEWEST, { fixed: { recipient_id }, enabled: deployed })
  if (!deployed) return null
  return (
    <section className="section">
      <div className="inline">
        <h2>Payouts</h2>
        <Link to="/payouts" search={{ recipient_id }} className="section-action">
          All payouts
        </Link>
      </div>
      <ListView of={NEWEST} list={list} />
    </section>
  )
}

// Payouts: the list, and the button that creates a payout.
import { Button } from '@mantine/core'
import { Plus } from 'lucide-react'
import { useMemo, useState } from 'react'
import { AMOUNT_COLUMN, CURRENCY_COLUMN } from '../kit/columns.tsx'
import { curlOf } from '../kit/curl.ts'
import { defineList } from '../kit/define-list.ts'
import { ListPage } from '../kit/ListPage.tsx'
import { PAYOUT_COLUMNS, RECIPIENT_COLUMN } from '../payouts/columns.tsx'
import { NewPayout } from '../payouts/NewPayout.tsx'
import { useMay } from '../session.tsx'
import { usePaletteActs } from '../shell/acts.ts'
import { useCurrencyFilter, type CurrencyFilter } from '../wallet/balances.ts'

const payoutsBy = (currency: CurrencyFilter) =>
  defineList({
    path: '/v1/payouts',
    label: 'Payouts',
    filters: [
      { kind: 'choice', name: 'status', label: 'Status' },
      currency,
      { kind: 'text', name: 'recipient_id', label: 'Recipient id' },
      { kind: 'days', from: 'created_from', to: 'created_to', label: 'Created' },
    ],
    columns: [AMOUNT_COLUMN, RECIPIENT_COLUMN, ...PAYOUT_COLUMNS],
    file: 'payouts.csv',
    file_columns: [AMOUNT_COLUMN, CURRENCY_COLUMN, RECIPIENT_COLUMN, ...PAYOUT_COLUMNS],
    key: 'id',
    to: ({ id }) => `/payouts/${id}`,
    interval_ms: 10_000,
    empty: {
      title: 'No payouts yet',
      text: 'You need a recipient and money in your balance. Then create a payout from your program, or with this command.',
      curl: curlOf('/v1/payouts', {
        idempotency_key: 'payout-1',
        amount_minor: 1000,
        currency: 'usd',
        recipient_id: '<id of a recipient>',
      }),
    },
  })

export function PayoutsPage() {
  const may_create = useMay('createPayout')
  const [open, setOpen] = useState(false)
  usePaletteActs(
    useMemo(() => (may_create ? [{ title: 'New payout', run: () => setOpen(true) }] : []), [may_create]),
  )
  return (
    <ListPage
      of={payoutsBy(useCurrencyFilter())}
      title="Payouts"
      description="Money that leaves your balance for a recipient."
      actions={
        may_create && (
          <Button variant="filled" leftSection={<Plus size={14} />} onClick={() => setOpen(true)}>
            New payout
          </Button>
        )
      }
    >
      <NewPayout opened={open} onClose={() => setOpen(false)} />
    </ListPage>
  )
}

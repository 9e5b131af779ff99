// Payouts: the list, and the button that makes one.
import { Button } from '@mantine/core'
import { Plus } from 'lucide-react'
import { useMemo, useState } from 'react'
import type { Payout } from '#sdk/index.ts'
import { useAddressSearch } from '../address.ts'
import { AMOUNT_COLUMN, CURRENCY_COLUMN } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { useCurl } from '../kit/curl.ts'
import { DataTable } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { useList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { OTHERS, PAYOUT_STATUSES, RECIPIENT } from '../payouts/columns.tsx'
import { NewPayout } from '../payouts/NewPayout.tsx'
import { useMay } from '../session.tsx'
import { usePaletteActs } from '../shell/acts.ts'
import { useCurrencyFilter } from '../wallet/balances.ts'

const SHOWN = [AMOUNT_COLUMN, RECIPIENT, ...OTHERS]
const EXPORTED = [AMOUNT_COLUMN, CURRENCY_COLUMN, RECIPIENT, ...OTHERS]
const FILTERS = ['status', 'currency', 'recipient_id', 'created_from', 'created_to']

export function PayoutsPage() {
  const list = useList<Payout>('/v1/payouts', FILTERS, { every_ms: 10_000 })
  const [search] = useAddressSearch()
  const may_create = useMay('createPayout')
  const [open, setOpen] = useState(false)
  usePaletteActs(
    useMemo(() => (may_create ? [{ title: 'New payout', run: () => setOpen(true) }] : []), [may_create]),
  )
  const fields: FilterField[] = [
    { kind: 'select', name: 'status', label: 'Status', options: PAYOUT_STATUSES },
    useCurrencyFilter(search['currency']),
    { kind: 'text', name: 'recipient_id', label: 'Recipient id' },
    { kind: 'days', from: 'created_from', to: 'created_to', label: 'Created' },
  ]
  const curl = useCurl('/v1/payouts', {
    idempotency_key: 'payout-1',
    amount_minor: 1000,
    currency: 'usd',
    recipient_id: '<id of a recipient>',
  })
  return (
    <>
      <PageHeader
        title="Payouts"
        description="Money that leaves your balance for a recipient."
        actions={
          may_create && (
            <Button variant="filled" leftSection={<Plus size={14} />} onClick={() => setOpen(true)}>
              New payout
            </Button>
          )
        }
      />
      <Filters fields={fields} end={<CsvExport list={list} columns={EXPORTED} name="payouts.csv" />} />
      <DataTable
        label="Payouts"
        list={list}
        columns={SHOWN}
        rowKey={({ id }) => id}
        to={({ id }) => `/payouts/${id}`}
        empty={
          <EmptyState title="No payouts yet" curl={curl}>
            You need a recipient and money in your balance. Then create a payout from your program, or with
            this command.
          </EmptyState>
        }
      />
      <NewPayout opened={open} onClose={() => setOpen(false)} />
    </>
  )
}

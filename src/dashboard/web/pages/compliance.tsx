// Compliance: the list of verifications, and the button that starts one.
import { Button } from '@mantine/core'
import { Plus } from 'lucide-react'
import { useMemo, useState } from 'react'
import type { Verification } from '#sdk/index.ts'
import { ID_COLUMN, momentColumn } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { useCurl } from '../kit/curl.ts'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { useList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { inWords, statusFacts } from '../kit/statuses.ts'
import { PartyName } from '../parties/PartyName.tsx'
import { useMay } from '../session.tsx'
import { usePaletteActs } from '../shell/acts.ts'
import { StartVerification } from '../verifications/StartVerification.tsx'
import { decidedBy } from '../verifications/words.ts'

const STATUSES = ['pending', 'requires_input', 'processing', 'approved', 'rejected'].map((value) => ({
  value,
  label: statusFacts(value, 'kyc').word,
}))

const FIELDS: FilterField[] = [
  {
    kind: 'select',
    name: 'open',
    label: 'Decision',
    options: [{ value: 'true', label: 'Awaiting decision' }],
  },
  { kind: 'select', name: 'status', label: 'Status', options: STATUSES },
  {
    kind: 'select',
    name: 'subject_type',
    label: 'Subject type',
    options: ['customer', 'recipient', 'merchant'],
  },
  { kind: 'text', name: 'subject_id', label: 'Subject id' },
  { kind: 'days', from: 'created_from', to: 'created_to', label: 'Started' },
]

const COLUMNS: TableColumn<Verification>[] = [
  {
    title: 'Subject',
    cell: ({ subject_type, subject_id }) => <PartyName type={subject_type} id={subject_id} />,
    clip: true,
    csv: ({ subject_id }) => subject_id,
  },
  {
    title: 'Type',
    cell: ({ subject_type }) => inWords(subject_type),
    csv: ({ subject_type }) => subject_type,
  },
  {
    title: 'Status',
    cell: ({ status }) => <Status status={status} noun="kyc" />,
    csv: ({ status }) => status,
  },
  {
    title: 'Failure',
    cell: ({ failure }) => failure?.message ?? '–',
    clip: true,
    csv: ({ failure }) => failure?.code,
  },
  { title: 'Decided', cell: (row) => decidedBy(row) ?? '–', csv: ({ decided_by }) => decided_by },
  ID_COLUMN,
  momentColumn('Started', ({ created_at }) => created_at),
]

const NAMES = ['open', 'status', 'subject_type', 'subject_id', 'created_from', 'created_to']

export function CompliancePage() {
  const list = useList<Verification>('/v1/compliance/kyc', NAMES, { every_ms: 10_000 })
  const may_start = useMay('createKyc')
  const [open, setOpen] = useState(false)
  usePaletteActs(
    useMemo(
      () => (may_start ? [{ title: 'Start verification', run: () => setOpen(true) }] : []),
      [may_start],
    ),
  )
  const curl = useCurl('/v1/compliance/kyc', {
    idempotency_key: 'kyc-1',
    subject_type: 'customer',
    subject_id: '<id of a customer>',
  })
  return (
    <>
      <PageHeader
        title="Compliance"
        description="Checks that customers, recipients and merchants are who they say they are."
        actions={
          may_start && (
            <Button variant="filled" leftSection={<Plus size={14} />} onClick={() => setOpen(true)}>
              Start verification
            </Button>
          )
        }
      />
      <Filters fields={FIELDS} end={<CsvExport list={list} columns={COLUMNS} name="verifications.csv" />} />
      <DataTable
        label="Verifications"
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        to={({ id }) => `/compliance/${id}`}
        empty={
          <EmptyState title="No verifications yet" curl={curl}>
            Start a verification on the page of a customer, a recipient or a merchant, from your program, or
            with this command.
          </EmptyState>
        }
      />
      <StartVerification opened={open} onClose={() => setOpen(false)} />
    </>
  )
}

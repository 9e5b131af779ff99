// Compliance: the list of verifications, and the button that starts a verification.
import { Button } from '@mantine/core'
import { Plus } from 'lucide-react'
import { useMemo, useState } from 'react'
import type { Verification } from '#sdk/index.ts'
import { ID_COLUMN, timeColumn } from '../kit/columns.tsx'
import { curlOf } from '../kit/curl.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { ListPage } from '../kit/ListPage.tsx'
import { Status } from '../kit/Status.tsx'
import { humanize } from '../kit/statuses.ts'
import { PartyName } from '../parties/PartyName.tsx'
import { useMay } from '../session.tsx'
import { usePaletteActs } from '../shell/acts.ts'
import { StartVerification } from '../verifications/StartVerification.tsx'
import { decisionText } from '../verifications/texts.ts'

const COLUMNS: TableColumn<Verification>[] = [
  {
    title: 'Subject',
    cell: ({ subject_type, subject_id }) => <PartyName type={subject_type} id={subject_id} />,
    clip: true,
    csv: ({ subject_id }) => subject_id,
  },
  {
    title: 'Type',
    cell: ({ subject_type }) => humanize(subject_type),
    csv: ({ subject_type }) => subject_type,
  },
  {
    title: 'Status',
    cell: ({ status }) => <Status status={status} resource="kyc" />,
    csv: ({ status }) => status,
  },
  {
    title: 'Failure',
    cell: ({ failure }) => failure?.message ?? '–',
    clip: true,
    csv: ({ failure }) => failure?.code,
  },
  { title: 'Decided', cell: decisionText, csv: ({ decided_by }) => decided_by },
  ID_COLUMN,
  timeColumn('Started', ({ created_at }) => created_at),
]

const VERIFICATIONS = defineList({
  path: '/v1/compliance/kyc',
  label: 'Verifications',
  filters: [
    { kind: 'flag', name: 'open', label: 'Decision', set: 'Awaiting decision' },
    { kind: 'choice', name: 'status', label: 'Status' },
    { kind: 'choice', name: 'subject_type', label: 'Subject type' },
    { kind: 'text', name: 'subject_id', label: 'Subject id' },
    { kind: 'days', from: 'created_from', to: 'created_to', label: 'Started' },
  ],
  columns: COLUMNS,
  file: 'verifications.csv',
  key: 'id',
  to: ({ id }) => `/compliance/${id}`,
  interval_ms: 10_000,
  empty: {
    title: 'No verifications yet',
    text: 'Start a verification on the page of a customer, a recipient or a merchant, from your program, or with this command.',
    curl: curlOf('/v1/compliance/kyc', {
      idempotency_key: 'kyc-1',
      subject_type: 'customer',
      subject_id: '<id of a customer>',
    }),
  },
})

export function CompliancePage() {
  const may_start = useMay('createKyc')
  const [open, setOpen] = useState(false)
  usePaletteActs(
    useMemo(
      () => (may_start ? [{ title: 'Start verification', run: () => setOpen(true) }] : []),
      [may_start],
    ),
  )
  return (
    <ListPage
      of={VERIFICATIONS}
      title="Compliance"
      description="Checks that customers, recipients and merchants are who they say they are."
      actions={
        may_start && (
          <Button variant="filled" leftSection={<Plus size={14} />} onClick={() => setOpen(true)}>
            Start verification
          </Button>
        )
      }
    >
      <StartVerification opened={open} onClose={() => setOpen(false)} />
    </ListPage>
  )
}

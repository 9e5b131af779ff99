// Sandbox, Verifications: what the verified person does.
import { useState } from 'react'
import type { Verification } from '#sdk/index.ts'
import { useDialogs } from '../dialogs.ts'
import { ID_COLUMN, timeColumn } from '../kit/columns.tsx'
import { defineList } from '../kit/define-list.ts'
import { ListPage } from '../kit/ListPage.tsx'
import { Status } from '../kit/Status.tsx'
import { PartyName } from '../parties/PartyName.tsx'
import { isCompletable } from '../sandbox/acts.ts'
import { CompleteVerificationDialog } from '../sandbox/dialogs.tsx'
import { ProcessorNote } from '../sandbox/ProcessorNote.tsx'
import { SandboxButton } from '../sandbox/SandboxButton.tsx'
import { SANDBOX_TEXT, SandboxTabs } from '../sandbox/SandboxTabs.tsx'

const VERIFICATIONS = defineList({
  path: '/v1/compliance/kyc',
  label: 'Verifications in the sandbox',
  filters: [{ kind: 'choice', name: 'status', label: 'Status' }],
  columns: [
    {
      title: 'Subject',
      cell: ({ subject_type, subject_id }) => <PartyName type={subject_type} id={subject_id} />,
      clip: true,
    },
    { title: 'Status', cell: ({ status }) => <Status status={status} resource="kyc" /> },
    { title: 'Failure', cell: ({ failure }) => failure?.message ?? '–', clip: true },
    ID_COLUMN,
    timeColumn('Started', ({ created_at }: Verification) => created_at),
  ],
  key: 'id',
  to: ({ id }) => `/compliance/${id}`,
  interval_ms: 5_000,
  empty: {
    title: 'No verifications yet',
    text: 'Start a verification in Compliance, or with a key of test mode. One that waits for its person has a button here.',
  },
})

export function SandboxVerificationsPage() {
  const { opening, begin, props } = useDialogs<'complete'>()
  const [verification, setVerification] = useState<Verification>()
  return (
    <ListPage
      of={VERIFICATIONS}
      title="Verifications · Sandbox"
      description={SANDBOX_TEXT}
      above_rows={<ProcessorNote />}
      row_acts={(row) => (
        <SandboxButton
          label="Complete verification"
          allowed={isCompletable(row)}
          size="compact-xs"
          begin={() => {
            setVerification(row)
            begin('complete')
          }}
        />
      )}
      frame={(list) => <SandboxTabs active="/sandbox/verifications">{list}</SandboxTabs>}
    >
      {verification && (
        <div key={opening}>
          <CompleteVerificationDialog verification={verification} {...props('complete')} />
        </div>
      )}
    </ListPage>
  )
}

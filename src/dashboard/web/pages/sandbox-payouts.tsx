// Sandbox, Payouts: what the recipient's bank does with a payout.
import { useState } from 'react'
import type { Payout } from '#sdk/index.ts'
import { useDialogs } from '../dialogs.ts'
import { AMOUNT_COLUMN } from '../kit/columns.tsx'
import { defineList } from '../kit/define-list.ts'
import { ListPage } from '../kit/ListPage.tsx'
import { PAYOUT_COLUMNS, RECIPIENT_COLUMN } from '../payouts/columns.tsx'
import { isFailable } from '../sandbox/acts.ts'
import { FailPayoutInSandboxDialog } from '../sandbox/dialogs.tsx'
import { ProcessorNote } from '../sandbox/ProcessorNote.tsx'
import { SandboxButton } from '../sandbox/SandboxButton.tsx'
import { SANDBOX_TEXT, SandboxTabs } from '../sandbox/SandboxTabs.tsx'

const PAYOUTS = defineList({
  path: '/v1/payouts',
  label: 'Payouts in the sandbox',
  filters: [{ kind: 'choice', name: 'status', label: 'Status' }],
  columns: [AMOUNT_COLUMN, RECIPIENT_COLUMN, ...PAYOUT_COLUMNS],
  key: 'id',
  to: ({ id }) => `/payouts/${id}`,
  interval_ms: 5_000,
  empty: {
    title: 'No payouts yet',
    text: 'Top up the balance of test mode, then create a payout. A payout that is under way has a button here.',
  },
})

export function SandboxPayoutsPage() {
  const { opening, begin, props } = useDialogs<'fail'>()
  const [payout, setPayout] = useState<Payout>()
  return (
    <ListPage
      of={PAYOUTS}
      title="Payouts · Sandbox"
      description={SANDBOX_TEXT}
      above_rows={<ProcessorNote />}
      row_acts={(row) => (
        <SandboxButton
          label="Fail payout"
          allowed={isFailable(row)}
          size="compact-xs"
          begin={() => {
            setPayout(row)
            begin('fail')
          }}
        />
      )}
      frame={(list) => <SandboxTabs active="/sandbox/payouts">{list}</SandboxTabs>}
    >
      {payout && (
        <div key={opening}>
          <FailPayoutInSandboxDialog payout={payout} {...props('fail')} />
        </div>
      )}
    </ListPage>
  )
}

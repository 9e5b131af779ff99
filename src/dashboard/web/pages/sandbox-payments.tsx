// Sandbox, Payments: what the buyer and the buyer's bank do with a payment.
import { useState } from 'react'
import type { Payment } from '#sdk/index.ts'
import { useDialogs } from '../dialogs.ts'
import { CREATED_COLUMN, ID_COLUMN } from '../kit/columns.tsx'
import { firstPaymentCurl } from '../kit/curl.ts'
import { defineList } from '../kit/define-list.ts'
import { ListPage } from '../kit/ListPage.tsx'
import { Status } from '../kit/Status.tsx'
import { PAYMENT_AMOUNT_COLUMN } from '../payments/columns.tsx'
import type { PaymentSandboxAct } from '../sandbox/acts.ts'
import { SandboxPaymentButtons, SandboxPaymentDialogs } from '../sandbox/PaymentActs.tsx'
import { ProcessorNote } from '../sandbox/ProcessorNote.tsx'
import { SANDBOX_TEXT, SandboxTabs } from '../sandbox/SandboxTabs.tsx'

const PAYMENTS = defineList({
  path: '/v1/payments',
  label: 'Payments in the sandbox',
  filters: [{ kind: 'choice', name: 'status', label: 'Status' }],
  columns: [
    PAYMENT_AMOUNT_COLUMN,
    { title: 'Status', cell: ({ status }) => <Status status={status} /> },
    {
      title: 'Dispute',
      cell: ({ dispute }) =>
        dispute === null ? <span className="dim">–</span> : <Status status={dispute.status} />,
    },
    { title: 'Description', cell: ({ description }) => description ?? '–', clip: true },
    ID_COLUMN,
    CREATED_COLUMN,
  ],
  key: 'id',
  to: ({ id }) => `/payments/${id}`,
  interval_ms: 5_000,
  empty: {
    title: 'No payments yet',
    text: 'Create a payment with a key of test mode: from your program, or with this command. A payment that waits for its buyer has a button here.',
    curl: firstPaymentCurl(),
  },
})

export function SandboxPaymentsPage() {
  const { opening, begin, props } = useDialogs<PaymentSandboxAct>()
  const [payment, setPayment] = useState<Payment>()
  return (
    <ListPage
      of={PAYMENTS}
      title="Payments · Sandbox"
      description={SANDBOX_TEXT}
      above_rows={<ProcessorNote />}
      row_acts={(row) => (
        <span className="row-buttons">
          <SandboxPaymentButtons
            payment={row}
            size="compact-xs"
            begin={(act) => {
              setPayment(row)
              begin(act)
            }}
          />
        </span>
      )}
      frame={(list) => <SandboxTabs active="/sandbox/payments">{list}</SandboxTabs>}
    >
      {payment && (
        <div key={opening}>
          <SandboxPaymentDialogs payment={payment} props={props} />
        </div>
      )}
    </ListPage>
  )
}

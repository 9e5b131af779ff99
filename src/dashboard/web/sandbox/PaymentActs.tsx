// The buttons of the sandbox for one payment, and their dialogs.
import { Button } from '@mantine/core'
import type { Payment } from '#sdk/index.ts'
import { AuthenticateDialog, DisputeDialog } from './dialogs.tsx'
import { sandboxActsOf, useMayActAtProcessor, type PaymentSandboxAct } from './acts.ts'

const LABELS = { authenticate: 'Pay', dispute: 'Dispute' }

/** Renders nothing in live mode. */
export function SandboxPaymentButtons({
  payment,
  begin,
  size = 'xs',
}: {
  payment: Payment
  begin: (act: PaymentSandboxAct) => void
  size?: 'xs' | 'compact-xs'
}) {
  const may_act = useMayActAtProcessor()
  if (!may_act) return null
  return sandboxActsOf(payment).map((act) => (
    <Button key={act} size={size} onClick={() => begin(act)}>
      {LABELS[act]}
    </Button>
  ))
}

/** `props` are the properties of a dialog, from `useDialogs`. */
export function SandboxPaymentDialogs({
  payment,
  props,
}: {
  payment: Payment
  props: (act: PaymentSandboxAct) => { opened: boolean; onClose: () => void }
}) {
  return (
    <>
      <AuthenticateDialog payment={payment} {...props('authenticate')} />
      <DisputeDialog payment={payment} {...props('dispute')} />
    </>
  )
}

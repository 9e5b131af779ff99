// The buttons of the sandbox for one payment, and their dialogs.
import type { Payment } from '#sdk/index.ts'
import { AuthenticateDialog, DisputeDialog } from './dialogs.tsx'
import { sandboxActsOf, type PaymentSandboxAct } from './acts.ts'
import { SandboxButton } from './SandboxButton.tsx'

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
  return sandboxActsOf(payment).map((act) => (
    <SandboxButton key={act} label={LABELS[act]} allowed begin={() => begin(act)} size={size} />
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

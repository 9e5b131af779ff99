// What the user may do with a payment, payout or verification in the sandbox.
import type { Payment, Payout, Verification } from '#sdk/index.ts'
import { MODE } from '../mode.ts'
import { refundableMinor } from '../payments/texts.ts'
import { useMay, useSession } from '../session.tsx'

/** Whether the sandbox is the processor of this page. */
export function useIsInSandbox(): boolean {
  const { has_sandbox_processor } = useSession()
  return MODE === 'test' && has_sandbox_processor
}

/**
 * Whether the user may act as a buyer, a bank or a verified person: not if the processor of test mode is an account of
 * its own.
 */
export function useMayActAtProcessor(): boolean {
  const in_sandbox = useIsInSandbox()
  const may_use = useMay('sandbox.use')
  return in_sandbox && may_use
}

export type PaymentSandboxAct = 'authenticate' | 'dispute'

/** The acts that the status of a payment allows. The bank disputes what was captured and not refunded. */
export function sandboxActsOf(payment: Payment): PaymentSandboxAct[] {
  const { status, dispute } = payment
  if (status === 'requires_action') return ['authenticate']
  return status === 'captured' && dispute === null && refundableMinor(payment) > 0 ? ['dispute'] : []
}

/** Whether the recipient's bank can still refuse or return a payout. */
export function isFailable({ status }: Payout): boolean {
  return status === 'processing' || status === 'paid'
}

/** Whether the person, or the provider's check of what the person submitted, can end the verification. */
export function isCompletable({ status, outdated }: Verification): boolean {
  return (status === 'requires_input' || status === 'processing') && !outdated
}

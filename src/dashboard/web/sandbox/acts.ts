// What the user may do with a payment, payout or verification in the sandbox.
import type { Payment, Payout, Verification } from '#sdk/index.ts'
import { MODE } from '../mode.ts'
import { useMay, useSession } from '../session.tsx'

/**
 * Whether the user may act as a buyer, a bank or a verified person: not if the processor of test mode is an account of
 * its own.
 */
export function useMayActAtProcessor(): boolean {
  const { has_sandbox_processor } = useSession()
  const may_use = useMay('sandbox.use')
  return MODE === 'test' && has_sandbox_processor && may_use
}

export type PaymentSandboxAct = 'authenticate' | 'dispute'

/** The acts that the status of a payment allows. */
export function sandboxActsOf({ status, dispute }: Payment): PaymentSandboxAct[] {
  if (status === 'requires_action') return ['authenticate']
  return status === 'captured' && dispute === null ? ['dispute'] : []
}

/** Whether the recipient's bank can still refuse or return a payout. */
export function isFailable({ status }: Payout): boolean {
  return status === 'processing' || status === 'paid'
}

/** Whether the person, or the provider's check of what the person submitted, can end the verification. */
export function isCompletable({ status, outdated }: Verification): boolean {
  return (status === 'requires_input' || status === 'processing') && !outdated
}

// Faults of the Stripe emulator: choices of the page, and errors of scripts.
import { parameterRefused } from '#providers/sandbox/stripe/errors.ts'
import { stripeId } from '#providers/sandbox/stripe/ids.ts'
import { scriptFault, type Fault, type Faults } from '../shared/faults.ts'

/** The requests to which the page can limit a fault: maps each label to the `match` of the fault's script. */
export const STRIPE_FAULT_TARGETS: Record<string, { method?: string; path?: string }> = {
  'any request': {},
  authorization: { method: 'POST', path: '/payment_intents$' },
  capture: { method: 'POST', path: '/capture$' },
  cancellation: { method: 'POST', path: '/cancel$' },
  refund: { method: 'POST', path: '/refunds$' },
  payout: { method: 'POST', path: '/payouts$' },
  transfer: { method: 'POST', path: '/transfers$' },
  'top-up': { method: 'POST', path: '/topups$' },
  verification: { method: 'POST', path: '/verification_sessions$' },
  'any look-up': { method: 'GET' },
}

/** Adds a scripted fault. */
export function addFault(faults: Faults, script: unknown): Fault {
  return scriptFault(faults, script, { id: stripeId('flt_', 12), refuse: parameterRefused })
}

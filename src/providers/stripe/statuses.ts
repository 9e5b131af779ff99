// Maps Stripe's statuses to Sluice's.
import type { IdentitySession } from '../identity.ts'
import type { ProcessorDispute } from '../disputes.ts'
import type { ProcessorPayment, ProcessorRefund } from '../payments.ts'
import type { ProcessorPayout } from '../payouts.ts'
import type { ProcessorTopUp } from '../top-ups.ts'

export const PAYMENT_STATUS = new Map<string, ProcessorPayment['status']>([
  ['requires_payment_method', 'requires_action'],
  ['requires_confirmation', 'requires_action'],
  ['requires_action', 'requires_action'],
  ['processing', 'processing'],
  ['requires_capture', 'authorized'],
  ['succeeded', 'captured'],
  ['canceled', 'canceled'],
])

export const REFUND_STATUS = new Map<string | null, ProcessorRefund['status']>([
  ['pending', 'pending'],
  ['requires_action', 'pending'],
  ['succeeded', 'succeeded'],
  ['failed', 'failed'],
  ['canceled', 'failed'],
])

/** For payouts only, because transfers have no status. */
export const PAYOUT_STATUS = new Map<string, ProcessorPayout['status']>([
  ['pending', 'processing'],
  ['in_transit', 'processing'],
  ['paid', 'paid'],
  ['failed', 'failed'],
  ['canceled', 'canceled'],
])

export const TOP_UP_STATUS = new Map<string, ProcessorTopUp['status']>([
  ['pending', 'pending'],
  ['succeeded', 'succeeded'],
  ['failed', 'failed'],
  ['canceled', 'canceled'],
  ['reversed', 'reversed'],
])

export const SESSION_STATUS = new Map<string, IdentitySession['status']>([
  ['requires_input', 'requires_input'],
  ['processing', 'processing'],
  ['verified', 'verified'],
  ['canceled', 'canceled'],
])

/** The status of a dispute. `closed`: the processor has closed the dispute. A lost dispute may still become won. */
export const DISPUTE_STATUS = new Map<string, Pick<ProcessorDispute, 'status' | 'closed'>>([
  ['needs_response', { status: 'needs_response', closed: false }],
  ['under_review', { status: 'under_review', closed: false }],
  ['appeal_needs_response', { status: 'needs_response', closed: false }],
  ['appeal_under_review', { status: 'under_review', closed: false }],
  ['won', { status: 'won', closed: true }],
  ['lost', { status: 'lost', closed: true }],
  ['warning_needs_response', { status: 'warning', closed: false }],
  ['warning_under_review', { status: 'warning', closed: false }],
  ['warning_closed', { status: 'warning', closed: true }],
  ['prevented', { status: 'warning', closed: true }],
])

// Stripe's statuses in our words.
import type { ProcessorPayment, ProcessorRefund } from '../payments.ts'
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

export const TOP_UP_STATUS = new Map<string, ProcessorTopUp['status']>([
  ['pending', 'pending'],
  ['succeeded', 'succeeded'],
  ['failed', 'failed'],
  ['canceled', 'canceled'],
  ['reversed', 'reversed'],
])

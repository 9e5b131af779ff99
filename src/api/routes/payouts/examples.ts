// Example payouts: only the fields in which they differ from the examples of the schema.
import { EXAMPLE_ID } from '../../route.ts'

const LATER = '2026-11-20T10:17:02.654321Z'
const OPEN = { paid_at: null, failed_at: null, canceled_at: null, fail_requested_at: null }

export const PENDING_PAYOUT = {
  ...OPEN,
  status: 'pending',
  processor_reference: null,
  arrival_date: null,
  processing_at: null,
}
export const PROCESSING_PAYOUT = OPEN
export const CANCELED_PAYOUT = { ...OPEN, status: 'canceled', canceled_at: LATER, updated_at: LATER }
const MANUAL_FAILURE = {
  code: 'failed_manually',
  message: 'The bank reports that the payout never arrived.',
  manual: true,
}
export const FAILED_MANUALLY = {
  ...OPEN,
  status: 'failed',
  failed_at: LATER,
  updated_at: LATER,
  failure: MANUAL_FAILURE,
}
export const FAIL_REQUESTED = {
  ...PROCESSING_PAYOUT,
  fail_requested_at: LATER,
  updated_at: LATER,
  failure: MANUAL_FAILURE,
}

export const PAYOUT_REQUESTS = {
  payout: {
    summary: 'To a recipient',
    value: {
      idempotency_key: 'payout-2026-11-20',
      amount_minor: 1000,
      currency: 'usd',
      recipient_id: EXAMPLE_ID,
      description: 'November',
    },
  },
}

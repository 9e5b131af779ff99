// The status of the latest verification of a customer, merchant or recipient.
import { z } from 'zod'
import { VERIFICATION_STATUSES } from './verification.ts'

/** The column `kyc_status`, in answers and events. */
export const latestVerificationStatus = z.enum(['none', ...VERIFICATION_STATUSES]).meta({
  id: 'KycStatus',
  description: 'The status of the latest verification; `none` if there has been none.',
  example: 'none',
})

// What the latest verification of a customer, merchant or recipient has come to.
import { z } from 'zod'
import { KYC_STATUSES } from './verifications/verification.ts'

/** The column `kyc_status`, in answers and events. */
export const kycStatus = z.enum(['none', ...KYC_STATUSES]).meta({
  id: 'KycStatus',
  description: 'How the latest verification stands; `none` while there was none.',
  example: 'none',
})

// What the latest verification of a customer, merchant or recipient has come to.
import { z } from 'zod'

/** The column `kyc_status`, in answers and events. */
export const kycStatus = z
  .enum(['none', 'pending', 'requires_input', 'processing', 'approved', 'rejected'])
  .meta({
    id: 'KycStatus',
    description: 'How the latest verification stands; `none` while there was none.',
    example: 'none',
  })

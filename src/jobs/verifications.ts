// The jobs of verifications.
import { z } from 'zod'
import { IDENTITY } from '#core/config/providers.ts'
import { defineJob } from './job.ts'

const identityCall = {
  provider: IDENTITY.provider,
  on_ambiguous: 'resend_same_key',
  deadline_ms: 15_000,
} as const

const verification = z.object({ kyc_id: z.uuid() })

export const createVerification = defineJob({
  name: 'kyc.create',
  queue: 'compliance',
  payload: verification,
  call: {
    ...identityCall,
    operation: 'verify',
    held_with: 'creations',
    status: 'pending',
    makes: { id: IDENTITY.reference, example: IDENTITY.examples.session },
    request: z.strictObject({
      return_url: z.string().nullable(),
      metadata: z.record(z.string(), z.string()),
    }),
  },
})

/** Requests another link to a session. The call changes nothing at the provider, so it needs no idempotency key. */
export const linkVerification = defineJob({
  name: 'kyc.link',
  queue: 'compliance',
  payload: verification,
  call: null,
})

/** Cancels the session of a verification that was decided manually. */
export const cancelVerification = defineJob({
  name: 'kyc.cancel',
  queue: 'compliance',
  payload: verification,
  call: {
    ...identityCall,
    operation: 'cancel_verification',
    held_with: null,
    status: null,
    makes: null,
    request: z.strictObject({ reference: z.string() }),
  },
})

/** Cancels a duplicate session at the provider. The verification and its own session do not change. */
export const cancelDuplicateVerification = defineJob({
  name: 'kyc.cancel_duplicate',
  queue: 'compliance',
  payload: verification,
  call: {
    ...identityCall,
    operation: 'cancel_duplicate_verification',
    held_with: null,
    status: null,
    makes: null,
    request: z.strictObject({ reference: z.string() }),
  },
})

export const verificationJobs = {
  createVerification,
  linkVerification,
  cancelVerification,
  cancelDuplicateVerification,
}

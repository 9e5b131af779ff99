// The verification: its schema in rows, answers and events.
import { z } from 'zod'
import { IDENTITY } from '#core/config/providers.ts'
import { timestamp } from '#core/time.ts'
import { idFields, keyField, lastFields } from '../fields.ts'

/** Who can be verified. */
export const verificationSubjectType = z.enum(['customer', 'merchant', 'recipient']).meta({
  id: 'KycSubjectType',
  description: 'What is verified.',
  example: 'recipient',
})
export type VerificationSubjectType = z.output<typeof verificationSubjectType>

const OPEN = ['pending', 'requires_input', 'processing'] as const
export const VERIFICATION_STATUSES = [...OPEN, 'approved', 'rejected'] as const

/** The status of a verification, as a field and as a filter. */
export const verificationStatus = z.enum(VERIFICATION_STATUSES).meta({
  id: 'VerificationStatus',
  description:
    '`pending`: the provider has not begun. `requires_input`: it waits for the person, at first or once more; `failure` says why. `processing`: it looks at what the person showed. `approved`, `rejected`: decided. Until then the verification is open.',
  example: 'requires_input',
})
export type VerificationStatus = z.output<typeof verificationStatus>

/** Whether it is undecided. In these statuses the column `open` of its row is true. */
export function isOpen(status: VerificationStatus): boolean {
  return OPEN.some((each) => each === status)
}

export const verificationDecision = z.enum(['approved', 'rejected']).meta({
  id: 'KycDecision',
  description: 'What was decided.',
  example: 'approved',
})

/** A verification in events: nobody gets in by one. */
export const verificationEventSchema = z
  .object({
    ...idFields('verification', '0198f6f5-1c3e-7000-8000-123456789abc'),
    idempotency_key: keyField('kyc-recipient-17'),
    status: verificationStatus,
    subject_type: verificationSubjectType,
    subject_id: z.uuid().meta({
      description: 'The customer, merchant or recipient.',
      example: '0198f6f0-7ec1-7000-8000-123456789abc',
    }),
    return_url: z.string().nullable().meta({
      description: 'Where the person is sent after the page of the provider.',
      example: 'https://shop.example/verified',
    }),
    provider: z.string().meta({ description: 'Who verifies.', example: IDENTITY.provider }),
    provider_reference: z.string().nullable().meta({
      description: 'The session at the provider; null until it has begun.',
      example: IDENTITY.examples.session,
    }),
    failure: z
      .object({
        code: z.string().meta({
          description:
            "Of one that requires input, the provider's word for what was wrong. `kyc_refused`, `processor_error`: the provider did not take it. Of one whose session ended without a decision: `canceled`, at the provider; `abandoned`, nobody went on with it for too long; `subject_gone`, the customer was deleted, or the merchant or recipient archived.",
          example: 'document_expired',
        }),
        message: z
          .string()
          .meta({ description: 'The same for people.', example: 'The document is expired.' }),
      })
      .meta({ id: 'KycFailure', description: 'What was wrong.' })
      .nullable()
      .meta({ description: 'What was wrong the last time; null where nothing was.', example: null }),
    decision: verificationDecision.nullable().meta({
      description: 'What was decided; null while nothing is, and where the provider did not take it.',
      example: null,
    }),
    decision_reason: z
      .string()
      .nullable()
      .meta({ description: 'Why it was decided so by hand.', example: null }),
    decided_by: z
      .enum(['provider', 'manual'])
      .nullable()
      .meta({ description: '`manual`: it was decided by hand, which is final.', example: null }),
    decided_by_key_id: z
      .uuid()
      .nullable()
      .meta({ description: 'The id of the API key with which it was decided by hand.', example: null }),
    decided_at: timestamp.nullable().meta({ description: 'When it was decided.', example: null }),
    ...lastFields('verifications'),
  })
  .meta({ id: 'VerificationEventData', description: 'The verification as it then stood.' })

/** A verification as it is read from its row. */
export type Verification = z.output<typeof verificationEventSchema>

/** A verification in answers. */
export const verificationSchema = verificationEventSchema
  .extend({
    url: z.string().nullable().meta({
      description:
        "The provider's page for this person. It is shown once: in the first answer to the create that can carry it, or in the answer to `link`. It is null everywhere else, and good for one visit within 48 hours.",
      example: IDENTITY.examples.url,
    }),
  })
  .meta({ id: 'Verification', description: 'Whether somebody is who they say they are.' })

/** The events of verifications, by the word after `kyc.`, each with its meaning. */
export const VERIFICATION_EVENTS = {
  created: 'A verification was asked for.',
  requires_input: 'It waits for the person, at first or once more.',
  processing: 'The provider looks at what the person showed.',
  approved: 'It was approved, by the provider or by hand.',
  rejected: 'It was rejected, by the provider or by hand, or the provider did not take it.',
} as const

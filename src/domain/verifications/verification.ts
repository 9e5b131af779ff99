// The verification: its schema in rows, answers and events.
import { z } from 'zod'
import { IDENTITY } from '#core/config/providers.ts'
import { timestamp } from '#core/time.ts'
import { idFields, keyField, trailingFields } from '../fields.ts'

/** The resources that can be verified. */
export const verificationSubjectType = z.enum(['customer', 'merchant', 'recipient']).meta({
  id: 'KycSubjectType',
  description: 'What is verified.',
  example: 'recipient',
})
export type VerificationSubjectType = z.output<typeof verificationSubjectType>

const OPEN_VERIFICATION_STATUSES = ['pending', 'requires_input', 'processing'] as const
export const VERIFICATION_STATUSES = [...OPEN_VERIFICATION_STATUSES, 'approved', 'rejected'] as const

/** The status of a verification, as a field and as a filter. */
export const verificationStatus = z.enum(VERIFICATION_STATUSES).meta({
  id: 'VerificationStatus',
  description:
    '`pending`: the provider has not started. `requires_input`: it waits for the person, for the first time or again; `failure` says why. `processing`: the provider is checking what the person submitted. `approved`, `rejected`: decided. Until it is decided, the verification is open.',
  example: 'requires_input',
})
export type VerificationStatus = z.output<typeof verificationStatus>

/** Whether a verification in this status is undecided. The column `open` is true in these statuses. */
export function isOpenVerification(status: VerificationStatus): boolean {
  return OPEN_VERIFICATION_STATUSES.some((each) => each === status)
}

export const verificationDecision = z.enum(['approved', 'rejected']).meta({
  id: 'KycDecision',
  description: 'The decision.',
  example: 'approved',
})

/** A verification in events: without the link to the provider's page. */
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
      description: "The URL to which the person is sent after the provider's page.",
      example: 'https://shop.example/verified',
    }),
    provider: z.string().meta({ description: 'The provider that verifies.', example: IDENTITY.provider }),
    provider_reference: z.string().nullable().meta({
      description: 'The session at the provider; null until it has started.',
      example: IDENTITY.examples.session,
    }),
    failure: z
      .object({
        code: z.string().meta({
          description:
            "While input is required: the provider's own code for what was wrong. `kyc_refused`, `processor_error`: the provider did not accept it. If the session ended without a decision: `canceled`: it was canceled at the provider; `abandoned`: nobody continued it for too long; `subject_gone`: the customer was deleted, or the merchant or recipient archived; `outdated`: after a loss of data, the party was created with other content than the verification was requested for, or has a later verification.",
          example: 'document_expired',
        }),
        message: z
          .string()
          .meta({ description: 'A description for people.', example: 'The document is expired.' }),
      })
      .meta({ id: 'KycFailure', description: 'What was wrong.' })
      .nullable()
      .meta({ description: 'What was wrong the last time; null if nothing was.', example: null }),
    decision: verificationDecision.nullable().meta({
      description:
        'The decision; null until there is one, and if the provider did not accept the verification.',
      example: null,
    }),
    decision_reason: z
      .string()
      .nullable()
      .meta({ description: 'The reason given for a manual decision.', example: null }),
    decided_by: z
      .enum(['provider', 'manual'])
      .nullable()
      .meta({ description: '`manual`: it was decided manually, which is final.', example: null }),
    decided_by_key_id: z
      .uuid()
      .nullable()
      .meta({ description: 'The id of the API key that made the manual decision.', example: null }),
    decided_at: timestamp.nullable().meta({ description: 'When it was decided.', example: null }),
    ...trailingFields('verifications'),
  })
  .meta({ id: 'VerificationEventData', description: 'The verification as it was then.' })

/** A verification without the link. */
export const verificationRowSchema = verificationEventSchema.extend({
  outdated: z.boolean().meta({
    description:
      'Whether the verification no longer counts, whatever its status: after a loss of data, the customer, merchant or recipient was created with other content than the verification was requested for, or has a later verification.',
    example: false,
  }),
})
export type Verification = z.output<typeof verificationRowSchema>

/** A verification in answers. */
export const verificationSchema = verificationRowSchema
  .extend({
    url: z.string().nullable().meta({
      description:
        "The provider's page for this person. It is shown once: in the first answer to the create that can have it, or in the answer to `link`. It is null everywhere else, and works for one visit within 48 hours.",
      example: IDENTITY.examples.url,
    }),
  })
  .meta({ id: 'Verification', description: 'A verification: whether somebody is who they say they are.' })

/** The events of verifications: the name after `kyc.`, and the description. */
export const VERIFICATION_EVENTS = {
  created: 'A verification was created.',
  recovered: 'A verification was lost here and made again from the record of the provider.',
  requires_input: 'It waits for the person, for the first time or again.',
  processing: 'The provider is checking what the person submitted.',
  approved: 'It was approved, by the provider or manually.',
  rejected: 'It was rejected, by the provider or manually, or the provider did not accept it.',
} as const

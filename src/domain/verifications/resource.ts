// The definition of the resource `kyc`, and its comparison with the provider's session.
import { z } from 'zod'
import { IDENTITY } from '#core/config/providers.ts'
import { checksOfVerifiedParties, checksOfVerifications } from '../audit/verifications.ts'
import { AMOUNT_SIDE, type Difference, type Side } from '../reconciliation/side.ts'
import { wasJustMadeAgain, type Resource } from '../resource.ts'
import { VERIFICATION_EVENTS, verificationEventSchema } from './verification.ts'

const verificationSide = z.object({
  status: AMOUNT_SIDE.status,
  provider_reference: z.string().nullable().meta({
    description: 'The id of the session at the provider; for verifications only.',
    example: IDENTITY.examples.session,
  }),
  decided_by: z.string().nullable().meta({
    description: '`provider` or `manual`, once it is decided here; for verifications only.',
    example: 'provider',
  }),
  outdated: z.boolean().nullable().meta({
    description:
      'Whether it does not count, because its party has other content than it was requested for, or a later verification; for verifications only.',
    example: false,
  }),
})

/** A manual decision agrees with every status of the session. */
const AGREEING_STATUSES = {
  requires_input: ['requires_input', 'approved', 'rejected'],
  processing: ['processing', 'approved', 'rejected'],
  verified: ['approved', 'rejected'],
  canceled: ['rejected', 'approved'],
  // The provider erased the session; its earlier decision is not known any more.
  redacted: ['approved', 'rejected'],
}

export const verificationResource = {
  table: 'verifications',
  view: verificationEventSchema,
  erased: { metadata: {}, return_url: null, decision_reason: null },
  events: VERIFICATION_EVENTS,
  under_way: {
    open: (sql) => sql`p.open`,
    awaits_provider: wasJustMadeAgain,
    // In these statuses the person or the provider acts, which can take long.
    statuses: ['requires_input', 'processing'],
  },
  at_provider: {
    scope: 'compliance:read',
    provider: 'provider',
    reference: 'provider_reference',
    side: verificationSide,
    difference: differenceOfVerifications,
    agreeing_statuses: AGREEING_STATUSES,
  },
  checks: checksOfVerifications,
  checks_by_tenant: checksOfVerifiedParties,
} as const satisfies Resource

const DECISIONS: Readonly<Record<string, string>> = { verified: 'approved', canceled: 'rejected' }

/**
 * The difference between our decision and the decision of the provider. Manual decisions and outdated verifications
 * are not compared. Every other
 * decision must be that of the provider, even a rejection that was settled because the provider refused the call.
 */
function differenceOfVerifications(ours: Side, theirs: Side): Difference | null {
  const decided = ours.status === 'approved' || ours.status === 'rejected'
  if (!decided || ours['decided_by'] === 'manual' || ours['outdated'] === true) return null
  if (theirs.status === 'redacted') return null
  if (DECISIONS[theirs.status] === ours.status) return null
  return {
    detail: `the verification is ${ours.status} here and ${theirs.status} at the provider`,
    transient: false,
  }
}

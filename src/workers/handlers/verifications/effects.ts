// What a provider's report of a session means for its verification, and the steps that settle it.
import type { Side } from '#domain/reconciliation/side.ts'
import {
  settleVerifications,
  type VerificationSettlement,
  type VerificationTold,
} from '#domain/verifications/settle.ts'
import type { IdentitySession } from '#providers/identity.ts'
import { settling, type Told } from '../../settle.ts'
import { sided, type ComparedNoun } from '../notifications/drifts.ts'

export const comparedVerification: ComparedNoun = {
  noun: 'kyc',
  ask: async ({ identity }, reference) => sided(await identity.findSession(reference), sideOfSession),
}

export const settlingVerification = settling<Told<VerificationSettlement>>(
  'settle_kyc',
  settleVerifications,
  ({ told }) => told.kyc_id,
)

/** What the provider says of a session, in our words. `as_of`: the database's time before the provider was asked. */
export function verificationTold(
  ids: { tenant_id: string; kyc_id: string },
  { status, reference, failure }: IdentitySession,
  as_of: string | null,
): VerificationTold {
  return { ...ids, said: status, as_of, provider_reference: reference, failure, link: null }
}

/** The provider's session as one side of a comparison. */
export function sideOfSession({ status, redacted, reference }: IdentitySession): Side {
  const stands = redacted && status === 'canceled' ? 'redacted' : status
  return { status: stands, provider_reference: reference, decided_by: null }
}

// Translates a provider's report of a session, and settles its verification.
import type { Side } from '#domain/reconciliation/side.ts'
import {
  settleVerifications,
  type VerificationSettlement,
  type VerificationUpdate,
} from '#domain/verifications/settle.ts'
import type { IdentitySession } from '#providers/identity.ts'
import { createSettlingStep, type SettlementDetails } from '../../settle.ts'
import { toSide, type ComparedResource } from '../notifications/drifts.ts'

export const comparedVerification: ComparedResource = {
  resource: 'kyc',
  query: async ({ identity }, reference) => toSide(await identity.findSession(reference), sideOfSession),
}

export const settlingVerification = createSettlingStep<SettlementDetails<VerificationSettlement>>(
  'settle_kyc',
  settleVerifications,
  ({ update }) => update.kyc_id,
)

/** The provider's session as an update. `as_of`: the database's time before the query. */
export function verificationUpdate(
  ids: { tenant_id: string; kyc_id: string },
  { status, reference, failure, metadata }: IdentitySession,
  as_of: string | null,
): VerificationUpdate {
  // A redaction also erases the metadata.
  const marks =
    metadata['sluice_kyc_id'] === undefined ? null : { subject_fingerprint: subjectFingerprintIn(metadata) }
  return { ...ids, reported: status, as_of, provider_reference: reference, failure, marks, link: null }
}

/** The fingerprint of the content for which a session was opened; null if the session has none. */
export function subjectFingerprintIn(metadata: IdentitySession['metadata']): string | null {
  return metadata['sluice_subject_fingerprint'] ?? null
}

/** The provider's session as one side of a comparison. */
export function sideOfSession({ status, redacted, reference }: IdentitySession): Side {
  const reported = redacted && status === 'canceled' ? 'redacted' : status
  return { status: reported, provider_reference: reference, decided_by: null, outdated: null }
}

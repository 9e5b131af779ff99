// Reads verifications in batches. Only one answer contains the link that a job has requested.
import { SealError } from '#core/secrets.ts'
import { findVerifications } from '#domain/verifications/find.ts'
import { consumeVerificationLink } from '#domain/verifications/links.ts'
import { verificationLinkContext } from '#domain/verifications/sealed.ts'
import type { Verification } from '#domain/verifications/verification.ts'
import { batchedFind, type ResourceReader } from '../../accept.ts'
import type { ApiContext } from '../../context.ts'

/** A verification, and the id of the job whose link its answer may contain. */
type VerificationWithJob = Verification & { job_id: string | null }
type VerificationView = Verification & { url: string | null }

export type VerificationReader = ResourceReader<VerificationWithJob> & {
  /** Adds the link of the job unless an earlier answer contained it. */
  withLink: (verification: VerificationWithJob) => Promise<VerificationView>
}

export function createVerificationReader({ sql, vault, log }: ApiContext): VerificationReader {
  const find = batchedFind('find_kyc', (requested) => findVerifications(sql, requested), 'kyc_not_found')
  return {
    async find(requested) {
      const found = await find(requested)
      return { ...found, resource: { ...found.resource, job_id: requested.job_id } }
    },
    async withLink({ job_id, ...verification }) {
      const { tenant_id, id: kyc_id, status } = verification
      if (job_id === null || status !== 'requires_input') return withoutLink(verification)
      const sealed = await consumeVerificationLink(sql, { tenant_id, kyc_id, job_id })
      if (sealed === undefined) return withoutLink(verification)
      try {
        return {
          ...verification,
          url: vault.open(sealed, verificationLinkContext(tenant_id, kyc_id, job_id)),
        }
      } catch (error) {
        // An answer without the link is enough: the caller can request another link.
        if (!(error instanceof SealError)) throw error
        log.error(
          { err: error, kyc_id },
          'the link of a verification cannot be decrypted: null is returned. Check ENCRYPTION_KEY',
        )
        return withoutLink(verification)
      }
    },
    pathOf: ({ id }) => `/v1/compliance/kyc/${id}`,
    idsOf: ({ id }) => ({ kyc_id: id }),
  }
}

/** The verification without a link, as most answers show it. */
export function withoutLink(verification: Verification): VerificationView {
  return { ...verification, url: null }
}

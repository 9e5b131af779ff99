// The place to which a link of a verification is sealed: sealing and opening must name the same place.
import type { SealingContext } from '#core/secrets.ts'

/** The place of the link that a job brought. */
export function verificationLinkContext(tenant_id: string, kyc_id: string, job_id: string): SealingContext {
  return { tenant_id, table: 'verifications', row: kyc_id, column: `links.${job_id}` }
}

// The sealing context of a verification's link. Sealing and opening need the same context.
import type { SealingContext } from '#core/secrets.ts'

/** The context of the link that this job requested. */
export function verificationLinkContext(tenant_id: string, kyc_id: string, job_id: string): SealingContext {
  return { tenant_id, table: 'verifications', row: kyc_id, column: `links.${job_id}` }
}

// The place to which the source of a top-up is sealed: sealing and opening must name the same place.
import type { SealingContext } from '#core/secrets.ts'

/** The place of the token in the request of a job. */
export function topUpSourceContext(tenant_id: string, job_id: string): SealingContext {
  return { tenant_id, table: 'jobs', row: job_id, column: 'request.sealed.source' }
}

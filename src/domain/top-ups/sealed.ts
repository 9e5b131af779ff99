// The sealing context of a top-up's source. Sealing and opening need the same context.
import type { SealingContext } from '#core/secrets.ts'

/** The context of the source token in the request of the top-up's job. */
export function topUpSourceContext(tenant_id: string, job_id: string): SealingContext {
  return { tenant_id, table: 'jobs', row: job_id, column: 'request.sealed.source' }
}

// The sealing context of an AI task's input. Sealing and opening need the same context.
import type { SealingContext } from '#core/secrets.ts'

/** The context of the input in the request of the task's job. */
export function aiTaskInputContext(tenant_id: string, job_id: string): SealingContext {
  return { tenant_id, table: 'jobs', row: job_id, column: 'request.sealed.input' }
}

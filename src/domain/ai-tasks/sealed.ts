// The place to which the input of an AI task is sealed: sealing and opening must name the same place.
import type { SealingContext } from '#core/secrets.ts'

/** The place of the input in the request of the task's job. */
export function aiTaskInputContext(tenant_id: string, job_id: string): SealingContext {
  return { tenant_id, table: 'jobs', row: job_id, column: 'request.sealed.input' }
}

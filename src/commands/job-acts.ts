// What an operator does about a job by command, with its entry in the audit log.
import type { Sql, Tx } from '#core/db.ts'
import type { Act, ActResult } from '#domain/interventions/act.ts'
import { findTenantOfJob } from '#domain/interventions/find.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { commandActor } from '#domain/people/operator-here.ts'

/** `settled`: how what it is about stands already. */
export type CommandResult = ActResult | { settled: string }

/** Does both in one step. Nothing is on record where the state of the job does not allow the act. */
export async function actWithAuditEntry(
  sql: Sql,
  name: string,
  request: Act,
  perform: (tx: Tx, request: Act) => Promise<CommandResult>,
): Promise<CommandResult> {
  const { job_id, who, reason } = request
  return await sql.begin(async (tx) => {
    const result = await perform(tx, request)
    if (result === undefined || 'settled' in result) return result
    const by = commandActor('npm run jobs', await findTenantOfJob(tx, job_id))
    const details = { reason, who, before: result.before, after: result.after }
    await appendAuditEntry(tx, by, { action: `jobs.${name}`, subject: 'job', subject_id: job_id, details })
    return result
  })
}

// Performs an operator's command on a job and records it in the audit log.
import type { Sql, Tx } from '#core/db.ts'
import type { Act, ActResult } from '#domain/job-acts/act.ts'
import { findTenantOfJob } from '#domain/job-acts/find.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { commandActor } from '#domain/people/operator-here.ts'

/** `settled`: the resource of the job is settled already; the text says how. */
export type CommandResult = ActResult | { settled: string }

/**
 * Performs the command and appends its audit log entry in one transaction. Appends no entry if the job's state does
 * not allow the command.
 */
export async function actWithAuditEntry(
  sql: Sql,
  name: string,
  request: Act,
  perform: (tx: Tx, request: Act) => Promise<CommandResult>,
): Promise<CommandResult> {
  const { job_id, actor, reason } = request
  return await sql.begin(async (tx) => {
    const result = await perform(tx, request)
    if (result === undefined || 'settled' in result) return result
    const by = commandActor('npm run jobs', await findTenantOfJob(tx, job_id))
    const details = { reason, actor, before: result.before, after: result.after }
    await appendAuditEntry(tx, by, { action: `jobs.${name}`, subject: 'job', subject_id: job_id, details })
    return result
  })
}

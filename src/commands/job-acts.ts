// What an operator does about a job by command, with its entry in the audit log.
import type { Sql, Tx } from '#core/db.ts'
import type { Act, ActResult } from '#domain/interventions/act.ts'
import { findTenantOfJob } from '#domain/interventions/find.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { operatorHere } from '#domain/people/operator-here.ts'

/** `settled`: how what it is about stands already. */
export type Done = ActResult | { settled: string }

/** Does both in one step. Nothing is on record where the state of the job does not allow the act. */
export async function onRecord(
  sql: Sql,
  name: string,
  asked: Act,
  perform: (tx: Tx, asked: Act) => Promise<Done>,
): Promise<Done> {
  const { job_id, who, reason } = asked
  return await sql.begin(async (tx) => {
    const done = await perform(tx, asked)
    if (done === undefined || 'settled' in done) return done
    const by = operatorHere('npm run jobs', await findTenantOfJob(tx, job_id))
    const details = { reason, who, before: done.before, after: done.after }
    await appendAuditEntry(tx, by, { action: `jobs.${name}`, subject: 'job', subject_id: job_id, details })
    return done
  })
}

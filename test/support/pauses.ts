// Pauses and resumes queues with a test actor and a fixed reason.
import type { Sql, Tx } from '#core/db.ts'
import * as domain from '#domain/jobs/pauses.ts'
import { testActor } from './environment.ts'

type Paused = { queue?: string; tenant_id?: string }

export async function pauseJobs(sql: Sql | Tx, what: Paused & { reason?: string }): Promise<void> {
  await domain.pauseJobs(sql, { reason: 'a test', ...what }, testActor(what.tenant_id ?? null))
}

export async function resumeJobs(sql: Sql | Tx, what: Paused): Promise<void> {
  await domain.resumeJobs(sql, what, testActor(what.tenant_id ?? null))
}

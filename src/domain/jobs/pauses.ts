// Pauses: of a queue, of a tenant, or of a tenant in a queue.
import type { Sql } from '#core/db.ts'

/**
 * Pauses a queue, a tenant, or a tenant in a queue: its jobs are not claimed, and after a second none of its provider
 * calls starts.
 */
export async function pauseJobs(
  sql: Sql,
  what: { queue?: string; tenant_id?: string; reason?: string },
): Promise<void> {
  await sql`
    insert into pauses (queue, tenant_id, reason)
    values (${what.queue ?? null}, ${what.tenant_id ?? null}, ${what.reason ?? null})
    on conflict do nothing`
}

/** Lifts a pause. */
export async function resumeJobs(sql: Sql, what: { queue?: string; tenant_id?: string }): Promise<void> {
  await sql`
    delete from pauses
    where queue is not distinct from ${what.queue ?? null} and tenant_id is not distinct from ${what.tenant_id ?? null}`
}

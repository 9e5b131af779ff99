// Pauses: of a queue, of a tenant, or of a tenant in a queue. Statements read `only pauses`: the rows of `twin_pauses`
// are pauses of all tenants in test mode, for workers of the release before test mode alone.
import { z } from 'zod'
import type { Sql, Tx } from '#core/db.ts'
import { timestamp } from '#core/time.ts'
import { tenantNameColumn } from '../tenant-names.ts'
import { actorName, appending, type Actor, type AuditAct } from '../people/audit-log.ts'

/** The target of a pause: a queue, a tenant, or both. */
type PauseTarget = { queue?: string | undefined; tenant_id?: string | undefined }

/**
 * Pauses a queue, a tenant, or a tenant in a queue: its jobs are not claimed, and within a second no further
 * provider call starts. Returns the audit entry; undefined if it was already paused.
 */
export async function pauseJobs(
  sql: Sql | Tx,
  what: PauseTarget & { reason: string },
  by: Actor,
): Promise<number | undefined> {
  const [paused] = await sql<{ seq: number }[]>`
    with paused as (
      insert into pauses (queue, tenant_id, reason, actor)
      values (${what.queue ?? null}, ${what.tenant_id ?? null}, ${what.reason}, ${actorName(sql, by)})
      on conflict do nothing returning tenant_id
    )
    select ${appending(sql, by, entryOf('jobs.pause', what))} as seq from paused`
  return paused?.seq
}

/** Lifts a pause and returns the audit entry; undefined if there is none. */
export async function resumeJobs(sql: Sql | Tx, what: PauseTarget, by: Actor): Promise<number | undefined> {
  const [resumed] = await sql<{ seq: number }[]>`
    with resumed as (
      delete from only pauses
      where queue is not distinct from ${what.queue ?? null}
        and tenant_id is not distinct from ${what.tenant_id ?? null}
      returning tenant_id
    )
    select ${appending(sql, by, entryOf('jobs.resume', what))} as seq from resumed`
  return resumed?.seq
}

/** A pause of a queue, of a tenant or of both; the other field is null. `actor`: the operator; null if unknown. */
export const pauseSchema = z.object({
  queue: z.string().nullable(),
  tenant: z.string().nullable(),
  tenant_id: z.uuid().nullable(),
  reason: z.string().nullable(),
  actor: z.string().nullable(),
  since: timestamp,
})
export type Pause = z.output<typeof pauseSchema>

/** All pauses, oldest first. */
export async function findPauses(sql: Sql): Promise<Pause[]> {
  return await sql<Pause[]>`
    select p.queue, ${tenantNameColumn(sql)} as tenant, p.tenant_id, p.reason, p.actor, p.created_at as since
    from only pauses p left join tenants t on t.id = p.tenant_id order by p.created_at, p.queue, t.slug`
}

/** A pause as members of a tenant see it: without operator and reason, and without pauses of other tenants. */
export const pausedQueueSchema = z.object({
  queue: z.string().nullable().meta({ description: 'Null: all queues.' }),
  since: timestamp,
})
type PausedQueue = z.output<typeof pausedQueueSchema>

/** The queues that are paused for a tenant, by a pause of all tenants or of this tenant; each once. */
export async function findPausesOf(sql: Sql, tenant_id: string): Promise<PausedQueue[]> {
  return await sql<PausedQueue[]>`
    select queue, min(created_at) as since from only pauses where tenant_id is null or tenant_id = ${tenant_id}
    group by queue order by since, queue`
}

function entryOf(action: string, what: PauseTarget & { reason?: string }): AuditAct {
  const { queue, tenant_id, reason } = what
  const details = {
    ...(queue !== undefined && { queue }),
    ...(tenant_id !== undefined && { tenant_id }),
    ...(reason !== undefined && { reason }),
  }
  if (queue !== undefined) return { action, subject: 'queue', subject_id: queue, details }
  return { action, subject: 'tenant', ...(tenant_id !== undefined && { subject_id: tenant_id }), details }
}

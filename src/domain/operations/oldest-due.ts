// How long the oldest due job of each queue has waited, read from the jobs themselves: correct even while no worker
// updates the roll-ups.
import type { Sql } from '#core/db.ts'
import { visitTenants } from '../jobs/claimable.ts'
import { stageOfOpenJob } from '../jobs/states.ts'
import { isOfMode } from '../modes.ts'
import { claimableSince, isHeldOrSealed, isQueueHeld } from '../switches/holds.ts'

/**
 * The time in seconds for which the oldest due job of each queue has been claimable, without the tenants in test mode.
 * Queues without such a job are omitted; paused jobs count as claimable. The query steps from tenant to tenant in the
 * index of open jobs.
 */
export async function findOldestDueAges(sql: Sql, queues: readonly string[]): Promise<Map<string, number>> {
  const rows = await sql<{ queue: string; age_s: number }[]>`
    with recursive ${visitTenants(sql, queues, sql`where not ${isQueueHeld(sql, sql`q.queue`)}`)}
    select v.queue, greatest(floor(extract(epoch from now() - min(oldest.since))), 0)::integer as age_s
    from (select * from visit where ${isOfMode(sql, sql`visit.tenant_id`, true)} offset 0) v
    cross join lateral (
      select ${claimableSince(sql)} as since from jobs j
      where j.queue = v.queue and j.tenant_id = v.tenant_id and j.finished_at is null and j.run_at <= now()
        and ${stageOfOpenJob(sql)} = 'due' and not ${isHeldOrSealed(sql)}
      order by j.priority, j.run_at limit 1
    ) oldest
    group by v.queue`
  return new Map(rows.map(({ queue, age_s }) => [queue, age_s]))
}

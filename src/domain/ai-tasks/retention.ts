// The retention of AI task outputs, which may be personal.
import type { Sql } from '#core/db.ts'
import { erasingExcerpts } from '../deliveries/excerpts.ts'

/**
 * Erases the outputs of tasks that ended at least `days` days ago, and the excerpts of receivers' answers to events
 * with these outputs. Oldest first, at most `limit` tasks. Returns the count.
 */
export async function eraseOldOutputs(sql: Sql, days: number, limit: number): Promise<number> {
  const [row] = await sql<{ erased: number }[]>`
    with erased as (
      update ai_tasks t set output = null, output_erased = true, updated_at = clock_timestamp()
      from (
        select tenant_id, id from ai_tasks
        where output is not null and finished_at <= now() - ${days} * interval '1 day'
        order by finished_at limit ${limit} for update skip locked
      ) old
      where t.tenant_id = old.tenant_id and t.id = old.id
      returning t.tenant_id, t.id
    ), repeated as (${erasingExcerpts(sql, 'ai_task.succeeded', sql`erased`)})
    select count(*) as erased from erased`
  return row!.erased
}

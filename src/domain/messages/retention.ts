// The retention of message texts and of message counts.
import type { Sql } from '#core/db.ts'
import { erasingExcerpts } from '../deliveries/excerpts.ts'
import { isOpenMessage } from './resource.ts'

/**
 * The minimum time for which texts are retained after the last change of a message. Lookups of SMS compare texts, so it
 * is longer than `SEARCH_MARGIN` plus the time until the last lookup.
 */
const TEXT_COMPARISON_PERIOD = '2 days'

/**
 * Erases texts and attachments of messages that are at least `days` days old, settled or `unknown`, and unchanged for
 * two days, and the excerpts of receivers' answers that may repeat them. Oldest first, at most `limit` messages.
 * Returns the count.
 */
export async function eraseOldTexts(sql: Sql, days: number, limit: number): Promise<number> {
  const [row] = await sql<{ erased: number }[]>`
    with old as (
      select tenant_id, id from messages
      where content is not null and created_at <= now() - ${days} * interval '1 day'
        and (not ${isOpenMessage(sql, 'messages')} or status = 'unknown')
        and updated_at <= now() - ${TEXT_COMPARISON_PERIOD}::interval
      order by created_at limit ${limit} for update skip locked
    ), attachment as (
      delete from message_attachments a using old where a.tenant_id = old.tenant_id and a.message_id = old.id
    ), erased as (
      update messages m set content = null, redacted_at = clock_timestamp(), updated_at = clock_timestamp()
      from old where m.tenant_id = old.tenant_id and m.id = old.id
      returning m.tenant_id, m.id, m.status
    ), received as (
      select tenant_id, id from erased where status = 'received'
    ), repeated as (${erasingExcerpts(sql, 'message.received', sql`received`)})
    select count(*) as erased from erased`
  return row!.erased
}

/** Deletes expired counts of messages, at most `limit`. Returns the count. */
export async function deleteOldMessageCounts(sql: Sql, limit: number): Promise<number> {
  const rows = await sql`
    delete from message_limits l using (
      select tenant_id, scope from message_limits where window_start < now() - interval '2 hours'
      order by window_start limit ${limit}
    ) old
    where l.tenant_id = old.tenant_id and l.scope = old.scope and l.window_start < now() - interval '2 hours'`
  return rows.count
}

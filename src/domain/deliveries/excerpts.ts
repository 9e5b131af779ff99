// Erases excerpts of receivers' responses when the personal data that they may repeat is erased.
import type { Fragment, Sql } from '#core/db.ts'
import type { EventType } from '../events.ts'
import { hasDeliveryId } from './by-id.ts'

/**
 * A statement that erases the response excerpts for the events of type `type` about `rows`, a CTE with the columns
 * `tenant_id, id`.
 */
export function erasingExcerpts(sql: Sql, type: EventType, rows: Fragment): Fragment {
  return sql`
    update webhook_deliveries d set excerpts_erased = true, attempts_log = (
      select coalesce(jsonb_agg(attempt || '{"response_excerpt": null}' order by nth), '[]')
      from jsonb_array_elements(d.attempts_log) with ordinality as logged(attempt, nth))
    from (
      -- Looks up the events and deliveries of each row by index: without rows, nothing is read.
      select d.tenant_id, d.id from ${rows} r
      cross join lateral (
        select e.id from events e
        where e.tenant_id = r.tenant_id and e.subject_id = r.id and e.type = ${type} offset 0) e
      cross join lateral (
        select * from webhook_deliveries d
        where d.tenant_id = r.tenant_id and d.event_id = e.id and not d.excerpts_erased offset 0) d
    ) x
    where ${hasDeliveryId(sql, sql`x.tenant_id`, sql`x.id`)}`
}

// Emails whose first request a switch of the database has lost. They may have been sent, and cannot be looked up.
import type { Sql } from '#core/db.ts'
import { mayHaveLost } from '../switches/losses.ts'
import { lostEntry, LOST_REQUESTS } from './report.ts'

/** The scope of the keys of emails, also of those in a batch. */
const ROUTE = 'POST /v1/messages/email'
/** As in `record_switch`: processes may have sent through the previous server what fell due until then. */
const LAST_SEND_AFTER_SWITCH = '30 seconds'
/** The maximum wait for a comparison. It is reached only if the accepted requests cannot be read. */
const MAX_WAIT_FOR_COMPARISON = '1 hour'

/**
 * Whether the email repeats a request that a switch has lost. `not_compared`: the accepted requests before a switch
 * have not been compared with the database yet. An email that was not due before the switch was not sent.
 */
export async function findEmailLoss(
  sql: Sql,
  { tenant_id, message_id }: { tenant_id: string; message_id: string },
): Promise<'lost' | 'not_compared' | null> {
  // The clock of the new server may be behind that of the previous one.
  const last_sent_at = sql`greatest(s.switched_at, s.witnessed_at) + ${LAST_SEND_AFTER_SWITCH}::interval`
  const was_due = sql`coalesce(m.send_at <= ${last_sent_at}, true)`
  const entry = lostEntry(sql, sql`s.number`, sql`${ROUTE}::text`, sql`m.idempotency_key`)
  const [row] = await sql<{ is_lost: boolean; is_compared: boolean }[]>`
    select exists (
        select from database_switches s join lost_requests l
          on l.tenant_id = m.tenant_id and l.entry = ${entry}
        where ${was_due}) as is_lost,
      not exists (
        select from database_switches s
        where ${mayHaveLost(sql)} and s.newest_at < m.created_at and ${was_due}
          and s.recorded_at > now() - ${MAX_WAIT_FOR_COMPARISON}::interval
          and s.number > coalesce(
            (select (w.position ->> 'number')::bigint from recurring_work w where w.name = ${LOST_REQUESTS}), 0)
        ) as is_compared
    from messages m where m.tenant_id = ${tenant_id} and m.id = ${message_id}`
  if (row?.is_lost === true) return 'lost'
  return row?.is_compared === false ? 'not_compared' : null
}

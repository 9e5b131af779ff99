// Cancels messages before they are sent.
import type { Sql } from '#core/db.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { isKeyUsed, keyColumns, storingKeys, type IdempotentRequest } from '../idempotency.ts'
import { allMessageColumns } from './find.ts'
import type { MessageRow } from './message.ts'

/**
 * Cancels a scheduled or queued message, so its job sends nothing. Returns `key_used` when the key was used before;
 * undefined when the message is no longer scheduled or queued, or does not exist.
 */
export async function cancelMessage(
  sql: Sql,
  request: IdempotentRequest & { message_id: string; event_id: string },
): Promise<MessageRow | 'key_used' | undefined> {
  const keys = sql`
    select tenant_id, request_key as idempotency_key, route, fingerprint, id as resource_id, null::uuid as job_id
      from m`
  const new_events = sql`select m.*, ${'message.canceled' satisfies EventType} as event from m`
  const [row] = await sql<(MessageRow & { key_used: boolean })[]>`
    with requests as (
      select a.*, ${isKeyUsed(sql)} as key_used from jsonb_to_recordset(${sql.json([request])}) as a(
        ${keyColumns(sql)}, tenant_id uuid, message_id uuid, event_id uuid)
    ), m as (
      update messages m set status = 'canceled', updated_at = clock_timestamp()
      from requests a
      where not a.key_used and m.tenant_id = a.tenant_id and m.id = a.message_id and m.status in ('scheduled', 'queued')
      returning m.*, a.event_id, a.route, a.fingerprint, a.idempotency_key as request_key
    ),
    stored_keys as (${storingKeys(sql, 'message', keys)}),
    event as (${insertingEvents(sql, 'message', new_events)})
    select g.key_used, m.* from requests g left join (select ${allMessageColumns(sql)} from m) m on true`
  const { key_used, ...message } = row!
  if (key_used) return 'key_used'
  // If no message was canceled, the left join returns a row of nulls.
  return message.id === null ? undefined : message
}

// Cancels messages that have not left yet.
import type { Sql } from '#core/db.ts'
import { announce, type EventType } from '../events.ts'
import { isKnown, keyColumns, remember, type IdempotentRequest } from '../idempotency.ts'
import { wholeMessage } from './find.ts'
import type { MessageRow } from './message.ts'

/**
 * Cancels a message that is scheduled or queued; its job finds it so and sends nothing. `known` when the key was used
 * before; undefined when it is too late, or there is none.
 */
export async function cancelMessage(
  sql: Sql,
  request: IdempotentRequest & { tenant_id: string; message_id: string; event_id: string },
): Promise<MessageRow | 'known' | undefined> {
  const keys = sql`
    select tenant_id, asked_key as idempotency_key, route, fingerprint, id as resource_id, null::uuid as job_id from m`
  const announced = sql`select m.*, ${'message.canceled' satisfies EventType} as event from m`
  const [row] = await sql<(MessageRow & { known: boolean })[]>`
    with given as (
      select a.*, ${isKnown(sql)} as known from jsonb_to_recordset(${sql.json([request])}) as a(
        ${keyColumns(sql)}, tenant_id uuid, message_id uuid, event_id uuid)
    ), m as (
      update messages m set status = 'canceled', updated_at = clock_timestamp()
      from given a
      where not a.known and m.tenant_id = a.tenant_id and m.id = a.message_id and m.status in ('scheduled', 'queued')
      returning m.*, a.event_id, a.route, a.fingerprint, a.idempotency_key as asked_key
    ),
    remembered as (${remember(sql, 'message', keys)}),
    event as (${announce(sql, 'message', announced)})
    select g.known, m.* from given g left join (select ${wholeMessage(sql)} from m) m on true`
  const { known, ...message } = row!
  if (known) return 'known'
  // Nothing was joined where the guard refused.
  return message.id === null ? undefined : message
}

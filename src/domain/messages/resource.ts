// The definition of the resource `message`.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { checksOfMessages } from '../audit/messages.ts'
import type { Resource } from '../resource.ts'
import { messageCompletion, storedMessageSchema } from './event-data.ts'
import { MESSAGE_EVENTS } from './message.ts'

export const messageResource = {
  table: 'messages',
  view: storedMessageSchema,
  completion: messageCompletion,
  events: MESSAGE_EVENTS,
  checks: checksOfMessages,
  under_way: { open: (sql) => isOpenMessage(sql, 'p') },
} as const satisfies Resource

/** The condition on the alias `row` for messages with deferred recipients that wait for another attempt. */
export function awaitsRetry(sql: Sql | Tx, row: string): Fragment {
  return sql`${sql(row)}.recipients @> '[{"deferred": "waiting"}]'`
}

/** The condition on the alias `row` for open messages, the same as in their partial index. */
export function isOpenMessage(sql: Sql | Tx, row: string): Fragment {
  return sql`${sql(row)}.open`
}

// What the rest of the system needs to know of messages.
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

/** The condition for rows `row` with recipients for whom another attempt will be made. */
export function awaitsRetry(sql: Sql | Tx, row: string): Fragment {
  return sql`${sql(row)}.recipients @> '[{"deferred": "waiting"}]'`
}

/** The condition for rows `row` that are not settled; their index has the same. */
export function isOpenMessage(sql: Sql | Tx, row: string): Fragment {
  return sql`${sql(row)}.open`
}

// Reads messages: lists, single messages with their jobs, and messages by idempotency key.
import type { Channel } from '#core/addresses.ts'
import { columnList, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { findByKeys, type KeyedResource, type KeyOnRoute } from '../idempotency.ts'
import { findWithJobs, type RequestedRow, type ResourceWithJob } from '../jobs/find-with-jobs.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { isOpenMessageStatus, messageRowSchema, type MessageRow, type MessageStatus } from './message.ts'
import { isOpenMessage } from './resource.ts'

export type MessageFilters = ListPage & {
  channel?: Channel | undefined
  status?: MessageStatus | undefined
  /** Tokens (`messageTerm`) that each message must have. */
  terms: string[]
}

/** The messages of a tenant, newest first, without their content. */
export async function listMessages(
  sql: Sql,
  tenant_id: string,
  { channel, status, terms, ...page }: MessageFilters,
): Promise<MessageRow[]> {
  // Only filters with an index change the statement's text, because each connection must plan every distinct text.
  const open = status !== undefined && isOpenMessageStatus(status)
  const ended_badly = status !== undefined && !open && !SUCCESS_STATUSES.includes(status)
  return await sql<MessageRow[]>`
    select ${messageColumns(sql, ['envelope', 'recipients'])}, null as content from messages
    where tenant_id = ${tenant_id} and ${createdWithin(sql, page)}
      ${open ? sql`and ${isOpenMessage(sql, 'messages')}` : sql``}
      ${ended_badly ? sql`and ended_badly` : sql``}
      ${terms.length > 0 ? sql`and terms @> ${terms}::text[]` : sql``}
      and status = coalesce(${status ?? null}, status) and channel = coalesce(${channel ?? null}, channel)
    order by created_at desc limit ${page.limit}`
}

const SUCCESS_STATUSES: MessageStatus[] = ['sent', 'delivered', 'received']

/** Messages with the requested jobs, in the order of `requested`. */
export async function findMessages(
  sql: Sql,
  requested: RequestedRow[],
): Promise<(ResourceWithJob<MessageRow> | undefined)[]> {
  return await findWithJobs<MessageRow>(sql, 'message', allMessageColumns(sql), requested)
}

/** The message that was canceled with this idempotency key, or undefined. */
export async function findMessageByKey(
  sql: Sql,
  key: KeyOnRoute,
): Promise<KeyedResource<MessageRow> | undefined> {
  const [found] = await findByKeys<MessageRow>(sql, 'message', allMessageColumns(sql), [key])
  return found
}

/** All columns of a `MessageRow`. */
export function allMessageColumns(sql: Sql): Fragment {
  return messageColumns(sql, ['envelope', 'content', 'recipients'])
}

/** The unsealed columns, and the columns in `more`. */
export function messageColumns(sql: Sql | Tx, more: (keyof MessageRow)[]): Fragment {
  return columnList(sql, [...Object.keys(messageRowSchema.shape), ...more])
}

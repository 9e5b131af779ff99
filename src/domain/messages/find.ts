// Reads messages: lists, single ones with their jobs, and those that a key protects.
import type { Channel } from '#core/addresses.ts'
import { columnList, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { findProtected, type Protected, type SentKey } from '../idempotency.ts'
import { findWithJobs, type AskedFor, type Found } from '../jobs/found.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { isOpenStatus, messageRowSchema, type MessageRow, type MessageStatus } from './message.ts'
import { isOpenMessage } from './subject.ts'

export type MessageFilters = ListPage & {
  channel?: Channel | undefined
  status?: MessageStatus | undefined
  /** Tokens that each of them has. */
  terms: string[]
}

/** The messages of a tenant, newest first, without what they say. */
export async function listMessages(
  sql: Sql,
  tenant_id: string,
  { channel, status, terms, ...page }: MessageFilters,
): Promise<MessageRow[]> {
  // Only filters with an index of their own change the text of the statement.
  const open = status !== undefined && isOpenStatus(status)
  const ended_badly = status !== undefined && !open && !ENDED_WELL.includes(status)
  return await sql<MessageRow[]>`
    select ${messageColumns(sql, ['envelope', 'recipients'])}, null as content from messages
    where tenant_id = ${tenant_id} and ${createdWithin(sql, page)}
      ${open ? sql`and ${isOpenMessage(sql, 'messages')}` : sql``}
      ${ended_badly ? sql`and ended_badly` : sql``}
      ${terms.length > 0 ? sql`and terms @> ${terms}::text[]` : sql``}
      and status = coalesce(${status ?? null}, status) and channel = coalesce(${channel ?? null}, channel)
    order by created_at desc limit ${page.limit}`
}

const ENDED_WELL: MessageStatus[] = ['sent', 'delivered', 'received']

/** Messages with the jobs that were asked for, in the order of `asked`. */
export async function findMessages(sql: Sql, asked: AskedFor[]): Promise<(Found<MessageRow> | undefined)[]> {
  return await findWithJobs<MessageRow>(sql, 'message', wholeMessage(sql), asked)
}

/** The message that was canceled with this key, or undefined. */
export async function findProtectedMessage(
  sql: Sql,
  sent: SentKey,
): Promise<Protected<MessageRow> | undefined> {
  const [found] = await findProtected<MessageRow>(sql, 'message', wholeMessage(sql), [sent])
  return found
}

/** The columns of a row as it is read whole. */
export function wholeMessage(sql: Sql): Fragment {
  return messageColumns(sql, ['envelope', 'content', 'recipients'])
}

/** The columns in clear, and these. */
export function messageColumns(sql: Sql | Tx, more: (keyof MessageRow)[]): Fragment {
  return columnList(sql, [...Object.keys(messageRowSchema.shape), ...more])
}

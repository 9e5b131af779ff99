// The inbox of a tenant in test mode: the email and SMS that it has sent, and the SMS that answer them. Addresses and
// texts are sealed, as those of messages are.
import { z } from 'zod'
import { newId } from '#core/ids.ts'
import type { Channel } from '#core/addresses.ts'
import type { Sql, Tx } from '#core/db.ts'
import type { SealingContext, Vault } from '#core/secrets.ts'

/** The newest messages of an inbox that are kept, by their number and the bytes of their sealed contents. */
const MAX_MESSAGES = 1_000
const MAX_BYTES = 32 * 1024 * 1024
/** A longer text is cut: the inbox shows what was sent, and is no archive. */
const MAX_TEXT_LENGTH = 100_000
/** Control characters except tabs and line ends: JSON escapes most with six characters. The inbox shows U+FFFD. */
const CONTROL_CHARACTERS = /[^\P{Cc}\t\n\r]/gu
const REPLACEMENT = '\uFFFD'
/** The newest messages among which a search opens those to a recipient: their contents are sealed. */
const SEARCHED = { messages: 200, bytes: 4 * 1024 * 1024 }

const contentSchema = z.object({
  from: z.string(),
  to: z.array(z.string()),
  subject: z.string().nullable(),
  text: z.string().nullable(),
  html: z.string().nullable(),
  attachments: z.array(z.object({ filename: z.string(), content_type: z.string(), bytes: z.int() })),
})
type InboxContent = z.output<typeof contentSchema>

type InboxRow = {
  id: string
  channel: Channel
  direction: 'sent' | 'received'
  /** The id at the provider. */
  reference: string
  status: 'sent' | 'delivered' | 'undelivered' | 'failed' | 'received'
  keyword: 'opt_out' | 'opt_in' | 'help' | 'other' | null
}

export type InboxMessage = InboxRow & InboxContent & { created_at: string }

/** `person`, `sender`: of an SMS, the hashes of the other person's number, and of ours or of our messaging service. */
type NewInboxMessage = Omit<InboxRow, 'id'> & InboxContent & { person: string | null; sender: string | null }

/** Stores a message, and deletes the oldest ones beyond the limits. */
export async function storeInInbox(
  tx: Tx,
  vault: Vault,
  tenant_id: string,
  message: NewInboxMessage,
  { max_bytes = MAX_BYTES } = {},
): Promise<void> {
  const { channel, direction, reference, person, sender, status, keyword, ...content } = message
  const id = newId()
  const cut = (text: string | null) =>
    text && text.slice(0, MAX_TEXT_LENGTH).toWellFormed().replaceAll(CONTROL_CHARACTERS, REPLACEMENT)
  const kept: InboxContent = { ...content, text: cut(content.text), html: cut(content.html) }
  const sealed = vault.seal(JSON.stringify(kept), contentContext(tenant_id, id))
  await tx`
    with stored as (
      insert into sandbox_messages
        (tenant_id, id, channel, direction, reference, person, sender, keyword, status, content)
      values (${tenant_id}, ${id}, ${channel}, ${direction}, ${reference}, ${person}, ${sender}, ${keyword},
        ${status}, ${sealed})
    ), ranked as (
      select id, row_number() over newest_first as nth, sum(bytes) over newest_first as bytes
      from sandbox_messages where tenant_id = ${tenant_id}
      window newest_first as (order by created_at desc, id desc rows unbounded preceding)
    )
    delete from sandbox_messages m using ranked
    where m.tenant_id = ${tenant_id} and m.id = ranked.id
      and (ranked.nth >= ${MAX_MESSAGES} or ranked.bytes > ${max_bytes - Buffer.byteLength(sealed)})`
}

/** Messages of an inbox, newest first. */
export async function findInInbox(
  sql: Sql | Tx,
  vault: Vault,
  tenant_id: string,
  filters: {
    limit: number
    id?: string
    channel?: Channel
    /** An address or number of a recipient, as in the message. Only the newest messages of the inbox are searched. */
    to?: string
    reference?: string
    /** The hash of a number: only SMS to it or from it. */
    person?: string
    /** Only messages since then, in unix seconds. */
    since_s?: number
    /** Only messages that are older than this, by their `created_at`. */
    before?: string
  },
): Promise<InboxMessage[]> {
  const { limit, id, channel, to, reference, person, since_s, before } = filters
  const read = to === undefined ? { messages: limit, bytes: MAX_BYTES } : SEARCHED
  const rows = await sql<(InboxRow & { created_at: string; content: string })[]>`
    select id, channel, direction, reference, status, keyword, content, created_at from (
      select *, sum(bytes) over (order by created_at desc, id desc rows unbounded preceding) - bytes as newer_bytes
      from sandbox_messages where tenant_id = ${tenant_id}
        ${id === undefined ? sql`` : sql`and id = ${id}`}
        ${channel === undefined ? sql`` : sql`and channel = ${channel}`}
        ${reference === undefined ? sql`` : sql`and reference = ${reference}`}
        ${person === undefined ? sql`` : sql`and person = ${person}`}
        ${since_s === undefined ? sql`` : sql`and created_at >= to_timestamp(${since_s}::float8)`}
        ${before === undefined ? sql`` : sql`and created_at < ${before}`}
    ) matching
    where newer_bytes < ${read.bytes}
    order by created_at desc, id desc limit ${read.messages}`
  const messages = rows.map(({ content, ...row }) => ({
    ...row,
    ...contentSchema.parse(JSON.parse(vault.open(content, contentContext(tenant_id, row.id)))),
  }))
  return to === undefined ? messages : messages.filter((each) => each.to.includes(to)).slice(0, limit)
}

/** Whether the last keyword that a person has sent to this sender is an opt-out. Number and sender are hashes. */
export async function hasOptedOut(
  tx: Tx,
  tenant_id: string,
  { person, sender }: { person: string; sender: string },
): Promise<boolean> {
  const [last] = await tx<{ keyword: InboxRow['keyword'] }[]>`
    select keyword from sandbox_messages
    where tenant_id = ${tenant_id} and person = ${person} and sender = ${sender}
      and keyword in ('opt_out', 'opt_in')
    order by created_at desc, id desc limit 1`
  return last?.keyword === 'opt_out'
}

function contentContext(tenant_id: string, id: string): SealingContext {
  return { tenant_id, table: 'sandbox_messages', row: id, column: 'content' }
}

// The inbox of a tenant in test mode: the email and SMS that it has sent, and the SMS that answer them. Addresses and
// texts are sealed, as those of messages are.
import { z } from 'zod'
import { newId } from '#core/ids.ts'
import type { Channel } from '#core/addresses.ts'
import type { Sql, Tx } from '#core/db.ts'
import type { SealingContext, Vault } from '#core/secrets.ts'

/** The newest messages of an inbox that are kept. */
const MAX_MESSAGES = 1_000
/** A longer text is cut: the inbox shows what was sent, and is no archive. */
const MAX_TEXT_LENGTH = 100_000

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

/** Stores a message, and deletes the oldest ones beyond the limit. */
export async function storeInInbox(
  tx: Tx,
  vault: Vault,
  tenant_id: string,
  message: NewInboxMessage,
): Promise<void> {
  const { channel, direction, reference, person, sender, status, keyword, ...content } = message
  const id = newId()
  const cut = (text: string | null) => text && text.slice(0, MAX_TEXT_LENGTH).toWellFormed()
  const kept: InboxContent = { ...content, text: cut(content.text), html: cut(content.html) }
  const sealed = vault.seal(JSON.stringify(kept), contentContext(tenant_id, id))
  await tx`
    with stored as (
      insert into sandbox_messages
        (tenant_id, id, channel, direction, reference, person, sender, keyword, status, content)
      values (${tenant_id}, ${id}, ${channel}, ${direction}, ${reference}, ${person}, ${sender}, ${keyword},
        ${status}, ${sealed})
    ), excess as (
      select id from sandbox_messages where tenant_id = ${tenant_id}
      order by created_at desc, id desc offset ${MAX_MESSAGES - 1}
    )
    delete from sandbox_messages m using excess where m.tenant_id = ${tenant_id} and m.id = excess.id`
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
    /** An address or number of a recipient, as in the message. */
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
  const rows = await sql<(InboxRow & { created_at: string; content: string })[]>`
    select id, channel, direction, reference, status, keyword, content, created_at from sandbox_messages
    where tenant_id = ${tenant_id}
      ${id === undefined ? sql`` : sql`and id = ${id}`}
      ${channel === undefined ? sql`` : sql`and channel = ${channel}`}
      ${reference === undefined ? sql`` : sql`and reference = ${reference}`}
      ${person === undefined ? sql`` : sql`and person = ${person}`}
      ${since_s === undefined ? sql`` : sql`and created_at >= to_timestamp(${since_s}::float8)`}
      ${before === undefined ? sql`` : sql`and created_at < ${before}`}
    order by created_at desc, id desc limit ${to === undefined ? limit : MAX_MESSAGES}`
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

// Reads lists of recipients.
import type { Sql } from '#core/db.ts'
import { listRecords, type RecordPage } from '../records.ts'
import type { Recipient } from './recipient.ts'

export type RecipientFilters = RecordPage & {
  email?: string
  type?: Recipient['type']
  currency?: string
}

/** The recipients of a tenant, newest first. */
export async function listRecipients(
  sql: Sql,
  tenant_id: string,
  { email, type, currency, ...page }: RecipientFilters,
): Promise<Recipient[]> {
  // Only filters with an index change the statement's text, because each connection must plan every distinct text.
  const matching = sql`
    ${email === undefined ? sql`` : sql`and email = ${email}`}
    and type = coalesce(${type ?? null}, type)
    and currency = coalesce(${currency?.toLowerCase() ?? null}, currency)`
  return await listRecords(sql, 'recipient', tenant_id, page, matching)
}

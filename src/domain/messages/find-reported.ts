// Finds the messages of provider notifications, and the other messages that an SMS lookup must exclude.
import type { Sql } from '#core/db.ts'
import { isOfMode } from '../modes.ts'
import type { MessageRow } from './message.ts'

/** The fields of a message that a provider's update needs. */
export type ReportedMessage = Pick<
  MessageRow,
  'id' | 'tenant_id' | 'channel' | 'envelope' | 'recipients' | 'provider_reference'
>

/** The message with this id or, without an id, with this provider reference; undefined when it is not ours. */
export async function findReportedMessage(
  sql: Sql,
  {
    message_id,
    provider,
    reference,
  }: { message_id: string | null; provider: string; reference: string | null },
): Promise<ReportedMessage | undefined> {
  const by =
    message_id === null
      ? sql`m.provider = ${provider} and m.provider_reference = ${reference}`
      : sql`m.id = ${message_id} and m.provider = ${provider}`
  const [row] = await sql<ReportedMessage[]>`
    select m.id, m.tenant_id, m.channel, m.envelope, m.recipients, m.provider_reference from messages m
    where ${by} and m.status <> 'received'`
  return row
}

/** A tenant's last message to a number. `is_reply_target`: an inbound SMS from the number belongs to this tenant. */
export type TextingTenant = {
  tenant_id: string
  message_id: string
  envelope: string
  is_reply_target: boolean
}

/** The tenants whose messages a provider can know: those of a mode, or the one that has a sandbox. */
type KnownTenants = { livemode: boolean; sandbox_of: string | null }

/**
 * The tenants that sent SMS to a number from one of these senders; number and senders are hashes. The inbound SMS is a
 * reply to the last message that was sent to the number before `received_at`, and only the tenant of that message may
 * read the reply.
 */
export async function findTextingTenants(
  sql: Sql,
  { livemode, sandbox_of }: KnownTenants,
  { from: number, received_by, received_at }: { from: string; received_by: string[]; received_at: string },
): Promise<TextingTenant[]> {
  return await sql<TextingTenant[]>`
    with previous as (
      select m.tenant_id, m.id, m.envelope, m.created_at, m.status,
        -- A reply may arrive before the provider's response to the call is stored.
        coalesce(least(m.begun_at, m.sent_at), m.send_at, m.created_at) as left_at
      from messages m
      where m.channel = 'sms' and m.recipients -> 0 ->> 'address' = ${number}
        and m.sender = any(${received_by}::text[]) and m.status <> 'received'
        and ${isOfMode(sql, sql`m.tenant_id`, livemode)}
        and (${sandbox_of}::uuid is null or m.tenant_id = ${sandbox_of})
    ), answered as (
      select tenant_id from previous
      where left_at <= ${received_at} and status in ('sending', 'unknown', 'sent', 'delivered', 'undelivered')
      order by left_at desc, id desc limit 1
    )
    select distinct on (w.tenant_id) w.tenant_id, w.id as message_id, w.envelope,
      exists (select from answered a where a.tenant_id = w.tenant_id) as is_reply_target
    from previous w order by w.tenant_id, w.created_at desc`
}

/**
 * A search for a message compares it with messages that were sent up to this long before it. Their texts are retained
 * longer: `TEXT_COMPARISON_PERIOD`.
 */
const SEARCH_MARGIN = '1 day'

/** Another message in the provider's list: its id at the provider or, while the id is unknown, its sealed content. */
export type SmsToSameNumber = {
  tenant_id: string
  message_id: string
  reference: string | null
  content: string | null
}

/**
 * The other messages to the same number, of any of these tenants, that the provider accepted or may have accepted,
 * from the time `SEARCH_MARGIN` before this message.
 */
export async function findSmsToSameNumber(
  sql: Sql,
  { livemode, sandbox_of }: KnownTenants,
  { message_id, number, since_s }: { message_id: string; number: string; since_s: number },
): Promise<SmsToSameNumber[]> {
  return await sql<SmsToSameNumber[]>`
    select m.tenant_id, m.id as message_id, m.provider_reference as reference,
      case when m.provider_reference is null then m.content end as content
    from messages m
    where m.channel = 'sms' and m.recipients -> 0 ->> 'address' = ${number} and m.id <> ${message_id}
      and (${sandbox_of}::uuid is null or m.tenant_id = ${sandbox_of})
      and (m.provider_reference is not null
        -- The content is erased only when the message is too old for this search.
        or (m.content is not null and (m.status in ('sending', 'unknown')
          -- A failed call without a report of the provider does not prove that the message was not accepted.
          or (m.status = 'failed' and m.provider_status is null and m.failure ->> 'code' = 'provider_error'))))
      and m.updated_at >= to_timestamp(${since_s}) - ${SEARCH_MARGIN}::interval
      and ${isOfMode(sql, sql`m.tenant_id`, livemode)}`
}

/** Whether another message has this provider reference. */
export async function isReferenceOfAnother(
  sql: Sql,
  { message_id, provider, reference }: { message_id: string; provider: string; reference: string },
): Promise<boolean> {
  const rows = await sql`
    select from messages m where m.provider = ${provider} and m.provider_reference = ${reference}
      and m.id <> ${message_id}`
  return rows.count > 0
}

// Finds the messages that notifications of providers are about, and those that looks must not take for another.
import type { Sql } from '#core/db.ts'
import type { MessageRow } from './message.ts'

/** What is needed of a message to apply what is told of it. */
export type ReportedMessage = Pick<
  MessageRow,
  'id' | 'tenant_id' | 'channel' | 'envelope' | 'recipients' | 'provider_reference'
>

/** The message of this id, or, without one, that its provider knows by this reference; undefined when it is not ours. */
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

/** The last message of a tenant to a number. `is_reply_target`: what the person sent us is for this tenant. */
export type TextingTenant = {
  tenant_id: string
  message_id: string
  envelope: string
  is_reply_target: boolean
}

/**
 * The tenants that wrote to a number from one of these senders, all given as hashes. What was received then answers the last
 * message that had left for it: it is nobody else's to read.
 */
export async function findTextingTenants(
  sql: Sql,
  { from: number, received_by, received_at }: { from: string; received_by: string[]; received_at: string },
): Promise<TextingTenant[]> {
  return await sql<TextingTenant[]>`
    with previous as (
      select m.tenant_id, m.id, m.envelope, m.created_at, m.status,
        -- An answer may come before it is known that the provider took the message.
        coalesce(least(m.begun_at, m.sent_at), m.send_at, m.created_at) as left_at
      from messages m
      where m.channel = 'sms' and m.recipients -> 0 ->> 'address' = ${number}
        and m.sender = any(${received_by}::text[]) and m.status <> 'received'
    ), answered as (
      select tenant_id from previous
      where left_at <= ${received_at} and status in ('sending', 'unknown', 'sent', 'delivered', 'undelivered')
      order by left_at desc, id desc limit 1
    )
    select distinct on (w.tenant_id) w.tenant_id, w.id as message_id, w.envelope,
      exists (select from answered a where a.tenant_id = w.tenant_id) as is_reply_target
    from previous w order by w.tenant_id, w.created_at desc`
}

/** How long before a message others may have been sent that a search finds too. Their texts are kept for longer: `TEXT_COMPARISON_PERIOD`. */
const SEARCH_MARGIN = '1 day'

/** Another message that the provider may list: its id there, or, while nobody knows that, what is needed to compare it. */
export type OtherSms = {
  tenant_id: string
  message_id: string
  reference: string | null
  content: string | null
}

/**
 * Other messages to the same number since a while before this one, whoever sent them: those that the provider knows, and those
 * that it may know.
 */
export async function findOtherSms(
  sql: Sql,
  { message_id, number, since_s }: { message_id: string; number: string; since_s: number },
): Promise<OtherSms[]> {
  return await sql<OtherSms[]>`
    select m.tenant_id, m.id as message_id, m.provider_reference as reference,
      case when m.provider_reference is null then m.content end as content
    from messages m
    where m.channel = 'sms' and m.recipients -> 0 ->> 'address' = ${number} and m.id <> ${message_id}
      and (m.provider_reference is not null
        -- Erased only once it is too old for what is looked for now.
        or (m.content is not null and (m.status in ('sending', 'unknown')
          -- Nothing that its provider reported of it, but an error that does not prove that it was not taken.
          or (m.status = 'failed' and m.provider_status is null and m.failure ->> 'code' = 'provider_error'))))
      and m.updated_at >= to_timestamp(${since_s}) - ${SEARCH_MARGIN}::interval`
}

/** Whether the provider's id is that of another message. */
export async function isReferenceOfAnother(
  sql: Sql,
  { message_id, provider, reference }: { message_id: string; provider: string; reference: string },
): Promise<boolean> {
  const rows = await sql`
    select from messages m where m.provider = ${provider} and m.provider_reference = ${reference}
      and m.id <> ${message_id}`
  return rows.count > 0
}

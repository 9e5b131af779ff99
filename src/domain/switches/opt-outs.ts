// Opt-outs that the database may have lost: after a switch, the texts that the provider of SMS received are read again.
import { SMS, type CallOperation } from '#core/config/providers.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { isOfMode } from '../modes.ts'
import { readingSince, mayHaveLost } from './losses.ts'

/** The list of received SMS, by the columns of `failing_lists`. */
export const RECEIVED_SMS = { provider: SMS.provider, list: 'received SMS' }

/** The switches after which received texts have not been read. */
export type UnreadOptOuts = {
  /** The number of the last one. */
  number: number
  /** See `readingSince`. */
  from_s: number
  /** The number of the last switch for which the recurring work has read everything; 0: none. */
  read_for: number
  /** Whether the list cannot be read, and SMS wait for that. */
  awaits_failing_list: boolean
  /** Whether SMS no longer wait for the list, by the decision of an operator. */
  is_waived: boolean
}

/** `reader`: the name of the recurring work. Undefined: there is no such switch. */
export async function findUnreadOptOuts(sql: Sql, reader: string): Promise<UnreadOptOuts | undefined> {
  const [unread] = await sql<UnreadOptOuts[]>`
    select max(s.number) as number, ${readingSince(sql)} as from_s,
      coalesce((select (position ->> 'read_for')::bigint from recurring_work where name = ${reader}), 0) as read_for,
      bool_or(${awaitsLists(sql)} and ${isListUnreadable(sql)}) as awaits_failing_list,
      bool_and(s.lists_waived_at is not null) as is_waived
    from database_switches s where ${isUnread(sql)} having count(*) > 0`
  return unread
}

/**
 * Records that the texts have been read for the switches up to `read_for` in the position of the recurring work
 * `reader`, unless one of them is still to be applied.
 */
export async function recordOptOutsRead(sql: Sql, reader: string, provider: string): Promise<void> {
  await sql`
    update database_switches s set opt_outs_read_at = clock_timestamp() from recurring_work readers
    where readers.name = ${reader} and s.number <= (readers.position ->> 'read_for')::bigint and ${isUnread(sql)}
      and not exists (
        select from notifications n
        where n.provider = ${provider} and n.received_at <= readers.ended_at and n.livemode
          and n.state in ('received', 'waiting'))`
}

/** Whether the message was accepted before a switch after which the texts have not been read. */
export async function awaitsOptOuts(
  sql: Sql,
  { tenant_id, message_id }: { tenant_id: string; message_id: string },
): Promise<boolean> {
  const found = await sql`
    select from database_switches s
    where ${isUnread(sql)} and s.lists_waived_at is null and s.switched_at > (
      select created_at from messages where tenant_id = ${tenant_id} and id = ${message_id})
    limit 1`
  return found.length > 0
}

/**
 * Whether anything waits since the switch `s` until lists of providers have been read. For received SMS, only if they
 * cannot be read: they are not read without a provider of SMS.
 */
export function awaitsLists(sql: Sql | Tx): Fragment {
  return sql`(
    s.recorded_at is not null and s.lists_waived_at is null
    and (s.lists_read_at is null or (${isUnread(sql)} and ${isListUnreadable(sql)})))`
}

/**
 * Whether the job `j` sends an SMS and waits until the texts have been read. A lookup does not wait, nor does a tenant
 * in test mode, whose SMS reach nobody.
 */
export function jobAwaitsOptOuts(sql: Sql): Fragment {
  const operation = 'send_sms' satisfies CallOperation
  // A `case`, because a null does not end an `and`: without an unread switch, each SMS would have its tenant looked up.
  return sql`(
    j.queue = 'messages' and j.operation = ${operation} and j.unknown_since is null and case
      when j.created_at < (
        select max(s.switched_at) from database_switches s where ${isUnread(sql)} and s.lists_waived_at is null)
      then ${isOfMode(sql, sql`j.tenant_id`, true)} else false end)`
}

/** Whether a worker reads the texts that were received since the switch `s`. */
export function isReadingOptOuts(sql: Sql | Tx): Fragment {
  return sql`(
    ${isUnread(sql)} and exists (select from recurring_work readers where readers.name = ${RECEIVED_SMS.list}))`
}

function isListUnreadable(sql: Sql | Tx): Fragment {
  const { provider, list } = RECEIVED_SMS
  return sql`exists (select from failing_lists u where u.provider = ${provider} and u.list = ${list})`
}

/** A switch that lost nothing needs no reading. */
function isUnread(sql: Sql | Tx): Fragment {
  return sql`(s.opt_outs_read_at is null and ${mayHaveLost(sql)})`
}

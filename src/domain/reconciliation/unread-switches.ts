// After a switch of the database, everything that the providers list since then is read again.
import type { Sql } from '#core/db.ts'
import { mayHaveLost, readingSince } from '../switches/losses.ts'

/** The switches after which the lists of the providers have not been read completely. */
export type UnreadSwitches = {
  /** The number of the last one. */
  number: number
  /** See `readingSince`. */
  from_s: number
  /** Unix seconds: when the last one was recorded. What is younger than this is not lost. */
  switched_s: number
}

/**
 * How long a call that was sent just before a switch may take to reach the provider: until then, the lists may not show
 * its object.
 */
const MAX_CALL_S = 60
/** The time after which a reader that failed is due again. */
const RETRY_S = 5

/** Providers forget older events. */
const MAX_AGE_IN_TEST_MODE = '30 days'

/**
 * The switches after which not everything has been read; undefined if there is none. `after_s`: how long after a switch
 * the lists are read, at most `MAX_CALL_S`. In test mode, nothing waits for the lists, so a switch is unread until the
 * recurring work `reader` has read its list.
 */
export async function findUnreadSwitches(
  sql: Sql,
  { reader, livemode, after_s }: { reader: string; livemode: boolean; after_s: number },
): Promise<UnreadSwitches | undefined> {
  const is_unread = livemode
    ? sql`s.lists_read_at is null`
    : sql`s.switched_at > now() - ${MAX_AGE_IN_TEST_MODE}::interval and ${mayHaveLost(sql)} and s.number > coalesce((
        select (position ->> 'read_for')::bigint from recurring_work where name = ${reader}), 0)`
  const [unread] = await sql<UnreadSwitches[]>`
    select max(s.number) as number, ${readingSince(sql)} as from_s,
      ceil(extract(epoch from max(s.switched_at)))::bigint as switched_s
    from database_switches s
    where ${is_unread} and s.recorded_at is not null
      and s.switched_at < now() - ${Math.min(after_s, MAX_CALL_S)} * interval '1 second'
    having count(*) > 0`
  return unread
}

/** Makes the recurring work `reader` due now, or soon if it fails, unless it has read everything for the switches. */
export async function runReaderNow(sql: Sql, reader: string, { number }: UnreadSwitches): Promise<void> {
  const next_at = sql`now() + case when failing_since is null then 0 else ${RETRY_S} end * interval '1 second'`
  await sql`
    update recurring_work set due_at = ${next_at}
    where name = ${reader} and due_at > ${next_at} and coalesce((position ->> 'read_for')::bigint, 0) < ${number}`
}

/**
 * Records for which switches all of the recurring work `readers` has read the lists of the provider (`read_for` in its
 * position), and when.
 */
export async function recordListed(sql: Sql, readers: string[]): Promise<void> {
  await sql`
    update database_switches s set listed_at = readers.ended_at from (
      select min(coalesce((position ->> 'read_for')::bigint, 0)) as read_for, max(ended_at) as ended_at
      from recurring_work where name = any(${readers}::text[])
      having count(*) = ${readers.length}) readers
    where s.lists_read_at is null and s.listed_at is null and s.number <= readers.read_for`
}

/**
 * The number of the last switch for which everything listed has been recovered: no notification that was stored until
 * then is still to be applied. Later notifications are not waited for: there may always be some. 0 without any. Call
 * `recordListed` before.
 */
export async function findReadSwitch(sql: Sql, provider: string): Promise<number> {
  const [row] = await sql<{ number: number }[]>`
    select max(s.number) as number from database_switches s
    where s.lists_read_at is null and not exists (
      select from notifications n
      where n.provider = ${provider} and n.received_at <= s.listed_at and n.livemode
        and (n.state = 'received' or n.state = 'waiting' or (n.state = 'parked' and n.reason = 'no_answer')))
      and s.listed_at is not null`
  return row?.number ?? 0
}

/**
 * Records that everything listed has been recovered for the switches up to `number`. Even if there are none, what waits
 * is determined anew: the statement runs `hold_jobs` of 0023_failing_lists.sql, and the age of the switches counts.
 */
export async function recordListsRead(sql: Sql, number: number): Promise<void> {
  await sql`
    update database_switches set lists_read_at = clock_timestamp() where lists_read_at is null and number <= ${number}`
}

// After a switch of the database, everything that the providers list since then is read again.
import type { Sql } from '#core/db.ts'

/** The switches after which the lists of the providers have not been read completely. */
export type UnreadSwitches = {
  /** The number of the last one. */
  number: number
  /** Unix seconds: the begin of what is read, an hour before the newest change that a switch did not lose. */
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

/**
 * The switches after which not everything has been read; undefined if there is none. `after_s`: how long after a switch
 * the lists are read, at most `MAX_CALL_S`.
 */
export async function findUnreadSwitches(sql: Sql, after_s: number): Promise<UnreadSwitches | undefined> {
  const [unread] = await sql<UnreadSwitches[]>`
    select max(number) as number,
      floor(extract(epoch from min(newest_at) - interval '1 hour'))::bigint as from_s,
      ceil(extract(epoch from max(switched_at)))::bigint as switched_s
    from database_switches
    where lists_read_at is null and recorded_at is not null
      and switched_at < now() - ${Math.min(after_s, MAX_CALL_S)} * interval '1 second'
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
 * The number of the last switch for which everything listed has been taken up: the recurring work `readers` has read
 * the lists of the provider (`read_for` in its position), and no notification that was stored until then is still to be
 * applied. Later notifications are not waited for: there may always be some. 0 without any.
 */
export async function findReadSwitch(sql: Sql, provider: string, readers: string[]): Promise<number> {
  await sql`
    update database_switches s set listed_at = readers.ended_at from (
      select min(coalesce((position ->> 'read_for')::bigint, 0)) as read_for, max(ended_at) as ended_at
      from recurring_work where name = any(${readers}::text[])
      having count(*) = ${readers.length}) readers
    where s.lists_read_at is null and s.listed_at is null and s.number <= readers.read_for`
  const [row] = await sql<{ number: number }[]>`
    select max(s.number) as number from database_switches s
    where s.lists_read_at is null and not exists (
      select from notifications n
      where n.provider = ${provider} and n.received_at <= s.listed_at
        and (n.state = 'received' or n.state = 'waiting' or (n.state = 'parked' and n.reason = 'no_answer')))
      and s.listed_at is not null`
  return row?.number ?? 0
}

/**
 * Records that everything listed has been taken up for the switches up to `number`. Even if there are none, what waits
 * is determined anew: the statement runs `hold_jobs` of 0019_switches.sql, and the age of the switches counts.
 */
export async function recordListsRead(sql: Sql, number: number): Promise<void> {
  await sql`
    update database_switches set lists_read_at = clock_timestamp() where lists_read_at is null and number <= ${number}`
}

// What operators decide about a switch of the database.
import type { Fragment, Sql } from '#core/db.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { actorName, appendAuditEntry, appending, type Actor } from '../people/audit-log.ts'

/** What happens to messages that were accepted before the switch. */
export type HeldMessages = 'send' | 'discard'

/**
 * Releases what waits since the switches that are not released yet; with `up_to`, only up to the one with this number.
 * Payouts and refunds still wait until the providers' lists have been read. Returns the numbers of the switches, and
 * the audit entry, which is undefined if there was none to release.
 */
export async function releaseSwitches(
  sql: Sql,
  { messages, reason, up_to }: { messages: HeldMessages; reason: string; up_to?: number },
  by: Actor,
): Promise<{ released: number[]; audit_seq?: number }> {
  return await sql.begin(async (tx) => {
    const rows = await tx<{ number: number }[]>`
      update database_switches set released_at = clock_timestamp(), released_by = ${actorName(tx, by)},
        messages = ${messages}
      where recorded_at is not null and released_at is null
        ${up_to === undefined ? tx`` : tx`and number <= ${up_to}`}
      returning number`
    const released = rows.map(({ number }) => number).toSorted((one, other) => one - other)
    if (released.length === 0) return { released }
    const details = { messages, reason, switches: released }
    return { released, audit_seq: await appendAuditEntry(tx, by, { action: 'switches.release', details }) }
  })
}

/**
 * Records that an operator has read about the switch: its banner disappears, and nothing else changes. Returns the
 * audit entry; undefined if there is no such switch, or it was acknowledged before.
 */
export async function acknowledgeSwitch(sql: Sql, number: number, by: Actor): Promise<number | undefined> {
  const act = { action: 'switches.acknowledge', subject: 'switch', subject_id: String(number) } as const
  const [acknowledged] = await sql<{ seq: number }[]>`
    with acknowledged as (
      update database_switches set acknowledged_at = clock_timestamp(), acknowledged_by = ${actorName(sql, by)}
      where number = ${number} and recorded_at is not null and acknowledged_at is null
      returning number
    )
    select ${appending(sql, by, act)} as seq from acknowledged`
  return acknowledged?.seq
}

/**
 * Records that the database went back to `newest_at`, and that its server is in use from now on. If that was
 * interrupted, the earliest of the times counts.
 */
export async function declareSwitch(
  sql: Sql,
  { newest_at, reason }: { newest_at: string; reason: string },
  by: Actor,
): Promise<void> {
  for (let complete = false; !complete;) {
    const [row] = await sql<{ complete: boolean }[]>`select declare_switch(${newest_at}) as complete`
    complete = row!.complete
  }
  await sql`select ${appending(sql, by, { action: 'switches.declare', details: { newest_at, reason } })}`
}

/** Seals the database or, with false, ends the seal. Returns false if that changes nothing. */
export async function sealDatabase(sql: Sql, sealed: boolean, by: Actor): Promise<boolean> {
  const action = sealed ? 'switches.seal' : 'switches.unseal'
  const changed = await sql`
    with changed as (
      update lineage set seal = ${sealed ? sql`gen_random_uuid()` : null}, sealed_at = ${sealed ? sql`now()` : null}
      where (seal is null) = ${sealed}
      returning seal
    )
    select ${appending(sql, by, { action })} from changed`
  return changed.length > 0
}

/**
 * Cancels up to `limit` messages that were accepted before a switch and are to be discarded. Returns how many; after
 * the last one, the switch needs no more.
 */
export async function discardHeldMessages(sql: Sql, limit: number): Promise<number> {
  const new_events = sql`
    select m.*, gen_random_uuid() as event_id, ${'message.canceled' satisfies EventType} as event from m`
  const [row] = await sql<{ canceled: number }[]>`
    with to_discard as (
      select m.tenant_id, m.id from messages m
      where m.open and m.status in ('scheduled', 'queued') and m.created_at < ${discardedBefore(sql)}
      order by m.tenant_id, m.created_at limit ${limit} for update
    ), m as (
      update messages m set status = 'canceled', updated_at = clock_timestamp()
      from to_discard d where m.tenant_id = d.tenant_id and m.id = d.id
      returning m.*
    ), event as (${insertingEvents(sql, 'message', new_events)}), ended as (
      update database_switches set discarded_at = clock_timestamp()
      where messages = 'discard' and discarded_at is null and (select count(*) from to_discard) < ${limit}
    )
    select count(*)::integer as canceled from m`
  return row!.canceled
}

/** Whether messages of a switch are to be discarded. */
export async function hasMessagesToDiscard(sql: Sql): Promise<boolean> {
  const found =
    await sql`select from database_switches where messages = 'discard' and discarded_at is null limit 1`
  return found.length > 0
}

function discardedBefore(sql: Sql): Fragment {
  return sql`(
    select max(switched_at) from database_switches where messages = 'discard' and discarded_at is null)`
}

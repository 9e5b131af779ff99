// What operators decide about a switch of the database.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { actorName, appendAuditEntry, appending, type Actor } from '../people/audit-log.ts'
import { findFailingLists } from '../reconciliation/failing-lists.ts'
import { awaitsLists } from './opt-outs.ts'
import type { ServerFacts } from './server.ts'

/** What happens to messages that were accepted before the switch. */
export type HeldMessages = 'send' | 'discard'

type Release = {
  /** Null: releases nothing, which only makes sense together with `without_lists`. */
  messages: HeldMessages | null
  /** Whether jobs no longer wait until the lists of the providers have been read. The lists are still read. */
  without_lists?: boolean
  reason: string
  /** Applies only to the switches up to the one with this number. */
  up_to?: number
}

/**
 * Releases what waits since the switches that are not released yet. Payouts and refunds still wait until the providers'
 * lists have been read, unless `without_lists` is true. Returns the numbers of the switches that were released and
 * whose lists are waived, and the audit entry, which is undefined if nothing has changed.
 */
export async function releaseSwitches(
  sql: Sql,
  { messages, without_lists = false, reason, up_to }: Release,
  by: Actor,
): Promise<{ released: number[]; waived: number[]; audit_seq?: number }> {
  return await sql.begin(async (tx) => {
    const within = tx`recorded_at is not null ${up_to === undefined ? tx`` : tx`and number <= ${up_to}`}`
    const released =
      messages === null
        ? []
        : numbersOf(
            await tx<{ number: number }[]>`
              update database_switches set released_at = clock_timestamp(), released_by = ${actorName(tx, by)},
                messages = ${messages}
              where ${within} and released_at is null
              returning number`,
          )
    const waived = !without_lists
      ? []
      : numbersOf(
          await tx<{ number: number }[]>`
            update database_switches s set lists_waived_at = clock_timestamp(), lists_waived_by = ${actorName(tx, by)}
            where ${within} and ${awaitsLists(tx)}
            returning number`,
        )
    if (released.length + waived.length === 0) return { released, waived }
    const failing_lists = (await findFailingLists(tx)).map(
      ({ provider, list, error }) => `${list} of ${provider}: ${error}`,
    )
    const details = {
      ...(messages !== null && { messages }),
      reason,
      switches: released,
      ...(waived.length > 0 && { without_lists: waived, failing_lists }),
    }
    const audit_seq = await appendAuditEntry(tx, by, { action: 'switches.release', details })
    return { released, waived, audit_seq }
  })
}

function numbersOf(rows: readonly { number: number }[]): number[] {
  return rows.map(({ number }) => number).toSorted((one, other) => one - other)
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

/** `newest_at`: until when nothing is missing. `witness`: the newest facts that a witness remembers; null: none. */
type DeclaredSwitch = { newest_at: string; witness: ServerFacts | null; reason: string }

/**
 * Records that the database went back in time, and that its server is in use from now on. If the recording was
 * interrupted, the earliest of the times counts.
 */
export async function declareSwitch(sql: Sql, declared: DeclaredSwitch, by: Actor): Promise<void> {
  for (let complete = false; !complete;) complete = await sql.begin((tx) => declareBatch(tx, declared, by))
}

/** Records the next batch of rows. Returns whether it was the last one. */
export async function declareBatch(
  tx: Tx,
  { newest_at, witness, reason }: DeclaredSwitch,
  by: Actor,
): Promise<boolean> {
  const facts = witness === null ? null : tx.json(witness)
  const [row] = await tx<{ complete: boolean }[]>`
    select declare_switch(${newest_at}, ${facts}::jsonb) as complete`
  if (row!.complete)
    await appendAuditEntry(tx, by, { action: 'switches.declare', details: { newest_at, reason } })
  return row!.complete
}

/** Seals the database or, with false, ends the seal. Returns false if that changes nothing. */
export async function sealDatabase(sql: Sql, sealed: boolean, by: Actor): Promise<boolean> {
  const action = sealed ? 'switches.seal' : 'switches.unseal'
  return await sql.begin(async (tx) => {
    // The next statement sees a recording that began while this one waited for its lock.
    await tx`select from lineage for update`
    const changed = await tx`
      with changed as (
        update lineage set seal = ${sealed ? tx`gen_random_uuid()` : null},
          sealed_at = ${sealed ? tx`clock_timestamp()` : null},
          unsealed_at = ${sealed ? tx`unsealed_at` : tx`clock_timestamp()`}
        where (seal is null) = ${sealed}
          -- The end of the recording ends a seal.
          and not (${sealed} and exists (select from database_switches where recorded_at is null))
        returning seal
      )
      select ${appending(tx, by, { action })} from changed`
    return changed.length > 0
  })
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

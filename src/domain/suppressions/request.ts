// Suppresses an address manually, and deletes suppressions.
import { violatedConstraint, type Fragment, type Json, type Sql } from '#core/db.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { isKeyUsed, keyColumns, storingKeys, type IdempotentRequest } from '../idempotency.ts'
import { suppressionColumns, type SuppressionRow } from './find.ts'
import type { Suppression } from './suppression.ts'

/** `address` is a hash; `sealed` is the address, sealed for the new suppression. */
export type SuppressRequest = IdempotentRequest &
  Pick<Suppression, 'tenant_id' | 'channel'> & {
    suppression_id: string
    event_id: string
    address: string
    sealed: string
    metadata: Json
  }

/**
 * Suppresses an address manually. Returns the new suppression or the existing manual one, which does not change;
 * `key_used` when the key was used before. Throws a unique violation, and writes nothing, when another request uses
 * the key at the same time.
 */
export async function suppress(sql: Sql, request: SuppressRequest): Promise<SuppressionRow | 'key_used'> {
  const columns = suppressionColumns(sql)
  const keys = sql`
    select a.*, s.id as resource_id, null::uuid as job_id
    from accepted a cross join (table created union all table existing) s`
  for (;;) {
    try {
      const [row] = await sql<SuppressionRow[]>`
        with accepted as (
          select * from jsonb_to_recordset(${sql.json([request])}) as a(
            ${keyColumns(sql)}, tenant_id uuid, suppression_id uuid, event_id uuid, channel text, address text,
            sealed text, metadata jsonb)
          where not ${isKeyUsed(sql, 'suppression')}
        ), existing as (
          select s.* from accepted a
          join suppressions s on s.tenant_id = a.tenant_id and s.channel = a.channel and s.address = a.address
          where s.reason = 'manual' and s.deleted_at is null
        ), created as (
          insert into suppressions (tenant_id, id, idempotency_key, channel, address, sealed, reason, metadata)
          select tenant_id, suppression_id, idempotency_key, channel, address, sealed, 'manual',
            coalesce(metadata, 'null')
          from accepted where not exists (select from existing)
          returning *
        ),
        stored_keys as (${storingKeys(sql, 'suppression', keys)}),
        event as (${suppressionEvent(sql, sql`created`, 'created', request.event_id)})
        select ${columns} from created union all select ${columns} from existing`
      return row ?? 'key_used'
    } catch (error) {
      // Another request suppressed the address at the same time. The next iteration finds that suppression.
      if (violatedConstraint(error) !== 'suppressions_address') throw error
    }
  }
}

/**
 * Deletes a suppression. Other suppressions of the address remain. Opt-out keywords that were received before the
 * deletion have no further effect. The event of the deletion shows the address, so `eraseLiftedAddresses` erases the
 * address later. Undefined when the suppression does not exist.
 */
export async function liftSuppression(
  sql: Sql,
  tenant_id: string,
  id: string,
  event_id: string,
): Promise<SuppressionRow | undefined> {
  const [row] = await sql<SuppressionRow[]>`
    with opt_word as (
      -- The row of the last keyword is locked before the suppression. Statements that settle opt-out keywords lock in
      -- the same order, so no deadlock occurs.
      insert into latest_opt_outs as w (tenant_id, channel, address, opts_out, received_at, fact_id)
      select tenant_id, channel, address, false, clock_timestamp(), id from suppressions
      where tenant_id = ${tenant_id} and id = ${id} and reason = 'opt_out' and deleted_at is null
      on conflict (tenant_id, channel, address) do update
        set opts_out = false, received_at = excluded.received_at, fact_id = excluded.fact_id
        where (excluded.received_at, excluded.fact_id) > (w.received_at, w.fact_id)
      returning tenant_id
    ), locked as (
      select tenant_id, id from suppressions
      where tenant_id = ${tenant_id} and id = ${id} and deleted_at is null and (select count(*) from opt_word) >= 0
      for update
    ), s as (
      update suppressions s set deleted_at = clock_timestamp(), updated_at = clock_timestamp()
      from locked b where s.tenant_id = b.tenant_id and s.id = b.id
      returning s.*
    ),
    event as (${suppressionEvent(sql, sql`s`, 'deleted', event_id)})
    select ${suppressionColumns(sql)} from s`
  return row
}

/** The events of `rows`. */
function suppressionEvent(
  sql: Sql,
  rows: Fragment,
  event_name: 'created' | 'deleted',
  event_id: string,
): Fragment {
  const event = `suppression.${event_name}` satisfies EventType
  return insertingEvents(
    sql,
    'suppression',
    sql`select changed.*, ${event_id}::uuid as event_id, ${event} as event from ${rows} changed`,
  )
}

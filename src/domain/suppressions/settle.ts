// Suppresses addresses and numbers by what became of messages, and lifts what a person has taken back.
import type { Channel } from '#core/addresses.ts'
import { newId } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { announce } from '../events.ts'
import { finishing, holding, type Settlement } from '../jobs/settle.ts'
import type { Suppression } from './suppression.ts'

/** A suppression that a message brings about. `sealed`: the address, sealed to the row of this id. */
export type SuppressionOf = {
  suppression_id: string
  address: string
  sealed: string
  reason: Suppression['reason']
}

/**
 * Parts of a statement: suppresses `told` (`tenant_id, suppression_id, suppression_event_id, channel, address, sealed,
 * reason, message_id`), with an event each. What is suppressed already stays as it is.
 */
export function suppressing(sql: Sql | Tx, told: Fragment): Fragment {
  const announced = sql`
    select s.*, t.suppression_event_id as event_id, 'suppression.created' as event
    from suppression s join suppressible t on t.tenant_id = s.tenant_id and t.suppression_id = s.id`
  return sql`
    suppressible as (${told}),
    suppression as (
      insert into suppressions (tenant_id, id, channel, address, sealed, reason, message_id)
      select tenant_id, suppression_id, channel, address, sealed, reason, message_id from suppressible
      order by tenant_id, channel, address
      on conflict (tenant_id, channel, address) where deleted_at is null do nothing
      returning *
    ), suppression_event as (${announce(sql, 'suppression', announced)})`
}

/** A person's word about a number: of the tenants that wrote to it, or, taken back, by whose messages it was reached. */
export type WordSettlement = Settlement & {
  notification_id: string
  channel: Channel
  address: string
  tenants: ({ tenant_id: string; message_id: string } & Pick<SuppressionOf, 'suppression_id' | 'sealed'>)[]
  /** It is wanted no more; else it is wanted again. */
  out: boolean
}

/**
 * Settles jobs of notifications of such words: each tenant gets a suppression, or loses the one that such a word has
 * made, with an event. Words that come twice change nothing more. No two settlements of one call may be of the same
 * number. Returns the ids of the jobs whose lease was still ours.
 */
export async function settleWords(sql: Sql, settlements: WordSettlement[]): Promise<Set<string>> {
  const items = settlements.map(({ notification_id, channel, address, tenants, out, ...settlement }) => ({
    ...settlement,
    change: {
      notification_id,
      channel,
      address,
      out,
      tenants: tenants.map((each) => ({ ...each, event_id: newId() })),
    },
  }))
  const rows = await sql<{ id: string }[]>`
    with ${holding(sql, items)},
    told as (
      select c.* from held cross join lateral jsonb_to_record(held.change) as c(
        notification_id uuid, channel text, address text, out boolean, tenants jsonb)
    ), of_tenant as (
      select told.channel, told.address, told.out, t.*
      from told cross join lateral jsonb_to_recordset(told.tenants) as t(
        tenant_id uuid, message_id uuid, suppression_id uuid, sealed text, event_id uuid)
    ),
    ${suppressing(
      sql,
      sql`
      select tenant_id, suppression_id, event_id as suppression_event_id, channel, address, sealed,
        'opt_out' as reason, message_id
      from of_tenant where out`,
    )},
    lifted as (
      update suppressions s set deleted_at = clock_timestamp(), sealed = null, updated_at = clock_timestamp()
      from of_tenant t
      where not t.out and s.tenant_id = t.tenant_id and s.channel = t.channel and s.address = t.address
        and s.reason = 'opt_out' and s.deleted_at is null
      returning s.*, t.event_id
    ),
    lifted_event as (${announce(sql, 'suppression', sql`select *, 'suppression.deleted' as event from lifted`)}),
    notification as (
      update notifications n set state = case when told.tenants = '[]' then 'ignored' else 'applied' end,
        applied_at = clock_timestamp(), reason = null, parked_at = null
      from told where n.id = told.notification_id
    ),
    ${finishing(sql)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

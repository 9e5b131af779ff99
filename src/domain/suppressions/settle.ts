// Suppresses addresses and numbers after bounces, complaints and opt-outs.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { insertingEvents } from '../events.ts'
import type { Suppression } from './suppression.ts'

/** A suppression that a message causes. `sealed`: the address, sealed for the row with this id. */
export type NewSuppression = {
  suppression_id: string
  address: string
  sealed: string
  reason: Suppression['reason']
}

/**
 * Parts of a statement that insert suppressions and their events. `new_suppressions` selects `tenant_id,
 * suppression_id, suppression_event_id, channel, address, sealed, reason, message_id, happened_at`. An existing
 * suppression with the same reason does not change. A bounce, complaint or opt-out has no effect if the suppression of
 * the address for this reason was deleted later.
 */
export function suppressing(sql: Sql | Tx, new_suppressions: Fragment): Fragment {
  const new_events = sql`
    select s.*, t.suppression_event_id as event_id, 'suppression.created' as event
    from suppression s join suppressible t on t.tenant_id = s.tenant_id and t.suppression_id = s.id`
  return sql`
    suppressible as (
      select t.* from (${new_suppressions}) t
      where not case when t.reason = 'opt_out' then exists (
          select from latest_opt_outs w where w.tenant_id = t.tenant_id and w.channel = t.channel
            and w.address = t.address and not w.opts_out and w.received_at >= t.happened_at)
        else exists (
          select from suppressions l where l.tenant_id = t.tenant_id and l.channel = t.channel
            and l.address = t.address and l.reason = t.reason and l.deleted_at >= t.happened_at) end
    ),
    suppression as (
      insert into suppressions (tenant_id, id, channel, address, sealed, reason, message_id, happened_at)
      select tenant_id, suppression_id, channel, address, sealed, reason, message_id, happened_at from suppressible
      order by tenant_id, channel, address, reason
      on conflict (tenant_id, channel, address, reason) where deleted_at is null do nothing
      returning *
    ), suppression_event as (${insertingEvents(sql, 'suppression', new_events)})`
}

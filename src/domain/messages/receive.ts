// Settles inbound SMS: the tenant that the SMS replies to receives it as a message. An opt-out keyword suppresses the
// number, and an opt-in keyword lifts that suppression.
import type { Channel } from '#core/addresses.ts'
import { newId } from '#core/ids.ts'
import type { Fragment, Sql } from '#core/db.ts'
import { insertingEvents } from '../events.ts'
import { finishing, fencing, type Settlement } from '../jobs/settle.ts'
import { suppressing, type NewSuppression } from '../suppressions/settle.ts'
import type { MessageRequest } from './request.ts'

/**
 * One tenant's part of an inbound SMS: the tenant's last message to the number, and the received message, sealed.
 */
export type ReceivedMessage = { tenant_id: string; message_id: string } & Pick<
  NewSuppression,
  'suppression_id' | 'sealed'
> & {
    /** Null when the text is not stored, or is not for this tenant. */
    received: Pick<
      MessageRequest,
      'message_id' | 'envelope' | 'content' | 'terms' | 'segments' | 'encoding'
    > | null
  }

/** An inbound SMS, for the tenants that sent SMS to its sender from the receiving number. */
export type InboundSettlement = Settlement & {
  notification_id: string
  provider: string
  received_at: string
  channel: Channel
  address: string
  /** The hash of the receiving number. */
  received_by: string
  /** The provider's id of the SMS. */
  reference: string
  tenants: ReceivedMessage[]
  /** True for an opt-out keyword, false for an opt-in keyword, null for any other text. */
  opts_out: boolean | null
}

/**
 * Settles jobs of notifications about inbound SMS. The tenant that the SMS replies to receives the message, with an
 * event. An opt-out keyword creates a suppression for each tenant, and an opt-in keyword deletes it, with an event
 * each. The keyword that was received last counts, in any order of processing, and duplicates have no effect. The
 * settlements of one call must be of different numbers. Returns the ids of the jobs that passed the fence.
 */
export async function settleInbound(sql: Sql, settlements: InboundSettlement[]): Promise<Set<string>> {
  await recordKeywords(sql, settlements)
  const opted_out = sql`
    select tenant_id, suppression_id, event_id as suppression_event_id, channel, address, sealed,
      'opt_out' as reason, message_id, received_at as happened_at
    from opt_word where opts_out`
  const new_events = sql`
    select r.*, t.received_event_id as event_id, 'message.received' as event
    from received r join per_tenant t on t.tenant_id = r.tenant_id and t.reference = r.provider_reference`
  const rows = await sql<{ id: string }[]>`
    with ${fencing(sql, settlements.map(changeOf))},
    inbound as (
      select c.* from fenced cross join lateral jsonb_to_record(fenced.change) as c(
        notification_id uuid, provider text, received_at timestamptz, channel text, address text, received_by text,
        reference text, opts_out boolean, tenants jsonb)
    ), per_tenant as (
      select inbound.notification_id, inbound.provider, inbound.received_at, inbound.channel, inbound.address,
        inbound.received_by, inbound.reference, inbound.opts_out, t.*
      from inbound cross join lateral jsonb_to_recordset(inbound.tenants) as t(
        tenant_id uuid, message_id uuid, suppression_id uuid, sealed text, event_id uuid, received_event_id uuid,
        received jsonb)
    ), opt_word as (
      -- The lock makes a later keyword wait until this keyword is settled, so the later keyword sees the result.
      select t.* from (select * from per_tenant order by tenant_id, address) t
      cross join lateral (
        select from latest_opt_outs w where w.tenant_id = t.tenant_id and w.channel = t.channel
          and w.address = t.address and w.fact_id = t.notification_id
        for update
      ) w
    ),
    ${suppressing(sql, opted_out)},
    lifted as (${liftingSuppressions(sql)}),
    lifted_event as (${insertingEvents(sql, 'suppression', sql`select *, 'suppression.deleted' as event from lifted`)}),
    received as (${insertingMessages(sql)}),
    received_event as (${insertingEvents(sql, 'message', new_events)}),
    notification as (
      update notifications n set state = case when inbound.tenants = '[]' then 'ignored' else 'applied' end,
        applied_at = clock_timestamp(), reason = case when inbound.tenants = '[]' then n.reason end, parked_at = null,
        payload = n.payload - 'text'
      from inbound where n.id = inbound.notification_id
    ),
    ${finishing(sql, settlements)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** The settlement as input of its statement, with ids for the rows that it may insert. */
function changeOf(inbound: InboundSettlement) {
  const {
    notification_id,
    provider,
    received_at,
    channel,
    address,
    received_by,
    reference,
    opts_out,
    tenants,
    ...settlement
  } = inbound
  return {
    ...settlement,
    change: {
      notification_id,
      provider,
      received_at,
      channel,
      address,
      received_by,
      reference,
      opts_out,
      tenants: tenants.map((each) => ({ ...each, event_id: newId(), received_event_id: newId() })),
    },
  }
}

/** Deletes the suppressions of earlier opt-out keywords. */
function liftingSuppressions(sql: Sql): Fragment {
  return sql`
    update suppressions s set deleted_at = clock_timestamp(), updated_at = clock_timestamp()
    from opt_word t
    where not t.opts_out and s.tenant_id = t.tenant_id and s.channel = t.channel and s.address = t.address
      and s.reason = 'opt_out' and s.deleted_at is null
      and coalesce(s.happened_at, s.created_at) <= t.received_at
    returning s.*, t.event_id`
}

/** Inserts the received message for each tenant that receives it. */
function insertingMessages(sql: Sql): Fragment {
  return sql`
    insert into messages (tenant_id, id, channel, status, envelope, content, sender, recipients, terms, provider,
      provider_reference, segments, encoding)
    select t.tenant_id, r.message_id, t.channel, 'received', r.envelope, r.content, t.address,
      jsonb_build_array(jsonb_build_object(
        'address', t.received_by, 'status', null, 'code', null, 'message', null)),
      r.terms, t.provider, t.reference, r.segments, r.encoding
    from per_tenant t
    cross join lateral jsonb_to_record(t.received) as r(
      message_id uuid, envelope text, content text, terms text[], segments integer, encoding text)
    where r.message_id is not null
    order by t.tenant_id, t.reference
    on conflict (provider, provider_reference) do nothing
    returning *`
}

/**
 * Records the keywords as the latest of their numbers, unless a later keyword is stored. This is a separate
 * statement, so that the settling statement begins after the wait for earlier keywords, and sees their results.
 */
async function recordKeywords(sql: Sql, settlements: InboundSettlement[]): Promise<void> {
  const opt_words = settlements.flatMap(
    ({ notification_id: fact_id, received_at, channel, address, ...opt_word }) =>
      opt_word.opts_out === null
        ? []
        : opt_word.tenants.map(({ tenant_id }) => ({
            tenant_id,
            channel,
            address,
            opts_out: opt_word.opts_out,
            received_at,
            fact_id,
          })),
  )
  if (opt_words.length === 0) return
  await sql`
    insert into latest_opt_outs as w (tenant_id, channel, address, opts_out, received_at, fact_id)
    select * from jsonb_to_recordset(${sql.json(opt_words)}) as a(
      tenant_id uuid, channel text, address text, opts_out boolean, received_at timestamptz, fact_id uuid)
    order by tenant_id, channel, address
    on conflict (tenant_id, channel, address) do update
      set opts_out = excluded.opts_out, received_at = excluded.received_at, fact_id = excluded.fact_id
      where (excluded.received_at, excluded.fact_id) > (w.received_at, w.fact_id)`
}

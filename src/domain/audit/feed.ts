// The check of the feed: the sequences of a tenant have no duplicates, and no gaps except those of restarts.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { arrivedWithin, noFigures, noResource, type AuditScope, type Limits } from './checks.ts'

/**
 * The sequences of a tenant's entries rise by one, except after the event of a restart, whose row has both ends of the
 * gap. The last assigned sequence is the sequence of the last entry. Each entry has its event, and each event has its
 * entry or waits in the outbox.
 * Within a period the check covers the events of the period and their tenants. So two events of different periods
 * with the same sequence are found only by a full audit, or if one of them is the first event of its tenant in its
 * period or does not follow the previous sequence there.
 *
 * Partitions are dropped by time, but events of nearly the same moment can have sequences in another order than
 * their times. So a missing sequence below an event of the first retained hour is no gap.
 */
export function feed(sql: Sql | Tx, _scope: AuditScope, limits: Limits): Fragment {
  const unbounded = limits.since === null || limits.until === null
  const entries = sql`
    (select e.tenant_id, e.event_id as id, e.type, e.sequence, e.created_at from feed_entries e
    where ${arrivedWithin(sql, sql`e.created_at`, limits)})`
  const written = sql`
    (select e.tenant_id, e.id, e.created_at from events e
    where e.sequenced and ${arrivedWithin(sql, sql`e.created_at`, limits)})`
  // A full audit compares whole tables.
  const by_key = unbounded ? sql`` : sql`offset 0`
  const edge = sql`(
    select coalesce(min(coalesce(p.from_time, '-infinity')), '-infinity') + interval '1 hour' from partitions p
    where p.parent = 'sequenced_events' and not p.is_default)`
  const idle = unbounded ? sql`union select tenant_id from event_sequences where last_sequence > 0` : sql``
  const tenants = sql`select distinct tenant_id from ${entries} e ${idle}`
  return sql`
    select case when other.id is null then 'a sequence is missing'
        else 'two events have the same sequence' end as problem,
      e.tenant_id, ${noResource(sql)}, e.id::text as id, 'sequence ' || e.sequence as what, e.expected,
      coalesce(lower.sequence, 0) as found, coalesce(lower.sequence, 0) - e.expected as off_by,
      null::text as currency
    from (
      select e.*, coalesce(r.last_sequence_before, e.sequence - 1) as expected from (
        select e.*, lag(e.sequence) over (partition by e.tenant_id order by e.sequence, e.id) as previous
          from ${entries} e
      ) e
      left join feed_restarts r
        on e.type = 'feed.restarted' and r.tenant_id = e.tenant_id and r.next_sequence = e.sequence
      where e.previous is distinct from coalesce(r.last_sequence_before, e.sequence - 1) offset 0
    ) e
    left join lateral (
      select o.event_id as id from feed_entries o
      where o.tenant_id = e.tenant_id and o.sequence = e.sequence and o.event_id <> e.id limit 1
    ) other on true
    left join lateral (
      select l.sequence, l.created_at from feed_entries l
      where l.tenant_id = e.tenant_id and l.sequence < e.sequence order by l.sequence desc limit 1
    ) lower on true
    where other.id is not null or (coalesce(lower.sequence, 0) <> e.expected
      and coalesce(lower.created_at, '-infinity') >= ${edge})
    union all
    select 'the last sequence is not that of the last event', tenant.tenant_id, ${noResource(sql)},
      tenant.tenant_id::text, 'last sequence', coalesce(s.last_sequence, 0), coalesce(highest.sequence, 0),
      coalesce(highest.sequence, 0) - coalesce(s.last_sequence, 0), null
    from (${tenants}) tenant
    left join event_sequences s on s.tenant_id = tenant.tenant_id
    left join lateral (
      select h.sequence, h.created_at from feed_entries h
      where h.tenant_id = tenant.tenant_id order by h.sequence desc limit 1
    ) highest on true
    where coalesce(highest.sequence, 0) > coalesce(s.last_sequence, 0)
      or (coalesce(highest.sequence, 0) < s.last_sequence and coalesce(highest.created_at, '-infinity') >= ${edge})
    union all
    select 'an entry of the feed has no event', f.tenant_id, ${noResource(sql)}, f.id::text, 'sequence ' || f.sequence,
      ${noFigures(sql)}
    from ${entries} f where not exists (
      select from events e
      where e.sequenced and e.tenant_id = f.tenant_id and e.id = f.id and e.created_at = f.created_at ${by_key})
    union all
    select 'an event is neither in the feed nor in the outbox', e.tenant_id, ${noResource(sql)}, e.id::text, null,
      ${noFigures(sql)}
    from ${written} e where not exists (
      select from feed_entries f
      where f.tenant_id = e.tenant_id and f.event_id = e.id and f.created_at = e.created_at ${by_key})
    and not exists (
      select from event_outbox o
      where o.tenant_id = e.tenant_id and o.event_id = e.id and o.created_at = e.created_at ${by_key})`
}

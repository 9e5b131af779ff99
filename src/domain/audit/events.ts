// Checks of events: each change of a row has its event.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import type { AuditScope } from './checks.ts'

/**
 * Each event of the row `p` that `expected` selects (its column `type`) was written once, and no other event was
 * written. Only for resources without child resources: all events of a row must follow from the state of the row.
 */
export function announcedOnce(
  sql: Sql | Tx,
  { rowsOf }: AuditScope,
  resource: string,
  expected: Fragment,
): Fragment {
  return sql`
    select case when compared.expected is not null then 'an event is missing or was written twice'
        else 'an event reports a change that did not happen' end as problem,
      p.tenant_id, ${resource}::text as resource, p.id as resource_id, p.id::text as id,
      coalesce(compared.expected, compared.type) as what,
      (compared.expected is not null)::integer::bigint as expected, coalesce(compared.times, 0) as found,
      coalesce(compared.times, 0) - (compared.expected is not null)::integer as off_by,
      null::text as currency
    from ${rowsOf(resource)} p
    cross join lateral (
      select found.type, found.times, e.type from (
        select e.type, count(*) as times from events e
        where e.tenant_id = p.tenant_id and e.subject_id = p.id
          and ${createdSince(sql)}
        group by 1
      ) found full join (${expected}) e on e.type = found.type
    ) as compared(type, times, expected)
    where ${isRetained(sql)}
      and (compared.expected is null or coalesce(compared.times, 0) <> 1)`
}

/**
 * Finds rows `p` whose number of events of a type is wrong. `required` selects `(type, times, max_times)` for a row:
 * the row must have between `times` and `max_times` events of this type.
 */
export function announcedTimes(
  sql: Sql | Tx,
  { rowsOf }: AuditScope,
  resource: string,
  required: Fragment,
): Fragment {
  return sql`
    select 'the number of events differs from the number of changes' as problem, p.tenant_id,
      ${resource}::text as resource,
      p.id as resource_id, p.id::text as id, required.type as what, required.times as expected, found.times as found,
      found.times - required.times as off_by, null::text as currency
    from ${rowsOf(resource)} p
    cross join lateral (${required}) as required(type, times, max_times)
    cross join lateral (
      select count(*) as times from events e
      where e.tenant_id = p.tenant_id and e.subject_id = p.id and e.type = required.type and ${createdSince(sql)}
    ) found
    where ${isRetained(sql)} and found.times not between required.times and required.max_times`
}

/** Whether the event `e` is recent enough to belong to the row `p`. So earlier partitions are skipped. */
function createdSince(sql: Sql | Tx): Fragment {
  return sql`e.created_at >= p.created_at - interval '1 hour'`
}

/** Whether all events of the row `p` are retained: older rows may have lost events. */
function isRetained(sql: Sql | Tx): Fragment {
  return sql`
    p.created_at >= (select min(coalesce(retained.from_time, '-infinity')) from partitions retained
      where retained.parent = 'sequenced_events' and not retained.is_default)`
}

// Checks of events: each change of a row is announced as often as it happened.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import type { AuditScope } from './checks.ts'

/**
 * Each of the `expected` events (`type`) of the row `p` was written once, and no other event of it. For a noun without
 * parts, all of whose events follow from how its row stands.
 */
export function announcedOnce(
  sql: Sql | Tx,
  { rowsOf }: AuditScope,
  noun: string,
  expected: Fragment,
): Fragment {
  return sql`
    select case when compared.expected is not null then 'an event is missing or was written twice'
        else 'an event tells what did not happen' end as problem,
      p.tenant_id, ${noun}::text as subject, p.id as subject_id, p.id::text as id,
      coalesce(compared.expected, compared.type) as what,
      (compared.expected is not null)::integer::bigint as expected, coalesce(compared.times, 0) as found,
      coalesce(compared.times, 0) - (compared.expected is not null)::integer as off_by,
      null::text as currency
    from ${rowsOf(noun)} p
    cross join lateral (
      select told.type, told.times, e.type from (
        select e.type, count(*) as times from events e
        where e.tenant_id = p.tenant_id and e.subject_id = p.id
          and ${sinceIt(sql)}
        group by 1
      ) told full join (${expected}) e on e.type = told.type
    ) as compared(type, times, expected)
    where ${stillKept(sql)}
      and (compared.expected is null or coalesce(compared.times, 0) <> 1)`
}

/**
 * The row `p` has an event of each type as often as `reached` says: rows of `(type, times, most)`, at least `times` and at
 * most `most`.
 */
export function announcedTimes(
  sql: Sql | Tx,
  { rowsOf }: AuditScope,
  noun: string,
  reached: Fragment,
): Fragment {
  return sql`
    select 'a row has another number of events than changes' as problem, p.tenant_id, ${noun}::text as subject,
      p.id as subject_id, p.id::text as id, reached.type as what, reached.times as expected, told.times as found,
      told.times - reached.times as off_by, null::text as currency
    from ${rowsOf(noun)} p
    cross join lateral (${reached}) as reached(type, times, most)
    cross join lateral (
      select count(*) as times from events e
      where e.tenant_id = p.tenant_id and e.subject_id = p.id and e.type = reached.type and ${sinceIt(sql)}
    ) told
    where ${stillKept(sql)} and told.times not between reached.times and reached.most`
}

/** The event `e` can be of the row `p`: partitions from before it are not read. */
function sinceIt(sql: Sql | Tx): Fragment {
  return sql`e.created_at >= p.created_at - interval '1 hour'`
}

/** All events of the row `p` are there: some of rows that are older than the retention are gone. */
function stillKept(sql: Sql | Tx): Fragment {
  return sql`
    p.created_at >= (select min(coalesce(kept.from_time, '-infinity')) from partitions kept
      where kept.parent = 'sequenced_events' and not kept.is_default)`
}

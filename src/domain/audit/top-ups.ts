// The invariants of top-ups: what came and what was taken back is posted, and each step was announced once.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { announcedOnce, postedFor, type AuditScope, type Checks } from './checks.ts'

function top_ups(sql: Sql | Tx, scope: AuditScope): Fragment {
  const came = sql`p.succeeded_at is not null`
  const went = sql`(p.succeeded_at is not null and p.status = 'failed')`
  const posted = sql`
    select finding.problem, p.tenant_id, 'top_up' as subject, p.id as subject_id, p.id::text as id, p.status as what,
      finding.expected::bigint as expected, finding.found::bigint as found,
      (finding.found - finding.expected)::bigint as off_by
    from ${scope.rowsOf('top_up')} p
    cross join lateral (${postedFor(sql, sql`p.id`, 'top_up')}) taken
    cross join lateral (${postedFor(sql, sql`p.id`, 'top_up_reversed')}) given
    cross join lateral (values
      ('what came in is not what was posted', case when ${came} then p.amount_minor else 0 end, taken.posted),
      ('what was taken back is not what was posted', case when ${went} then -p.amount_minor else 0 end, given.posted)
    ) as finding(problem, expected, found)
    where finding.found <> finding.expected or taken.currency <> upper(p.currency)
      or given.currency <> upper(p.currency)`
  const expected = sql`
    select 'top_up.created' as type
    union all select 'top_up.succeeded' where ${came}
    union all select 'top_up.reversed' where ${went}
    union all select 'top_up.' || p.status where p.succeeded_at is null and p.status in ('failed', 'canceled')`
  return unionAll(sql, [posted, announcedOnce(sql, scope, 'top_up', expected)])
}

export const checksOfTopUps: Checks = { top_ups }

// The check of the audit log: a chain in which each entry has the hash of the previous one.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { arrivedWithin, noFigures, noResource, type AuditScope, type Limits } from './checks.ts'

/**
 * No entry was changed, left out or cut off. The head has the number and hash of the last entry. A writer who can also
 * change the head can rewrite the end of the log undetected: therefore a copy of the head is stored elsewhere. Within a
 * period the check covers the period's entries and the entry before each.
 */
export function people(sql: Sql | Tx, _scope: AuditScope, limits: Limits): Fragment {
  return sql`
    select case
        when audit_hash(e) <> e.hash then 'an entry was changed'
        when before.seq is null and e.seq > 1 then 'an entry is missing before this one'
        else 'an entry does not follow from the previous one' end as problem,
      e.tenant_id, ${noResource(sql)}, e.seq::text as id, e.action as what, ${noFigures(sql)}
    from audit_entries e left join audit_entries before on before.seq = e.seq - 1
    where ${arrivedWithin(sql, sql`e.at`, limits)} and (audit_hash(e) <> e.hash
      or e.previous is distinct from case when e.seq = 1 then sha256('sluice') else before.hash end)
    union all
    select 'the end of the audit log was cut off or rewritten', null, ${noResource(sql)}, head.seq::text, null,
      head.seq, coalesce(last.seq, 0), coalesce(last.seq, 0) - head.seq, null
    from audit_head head
    left join lateral (select e.seq, e.hash from audit_entries e order by e.seq desc limit 1) last on true
    -- In an audit with steps, this check runs only in the step that includes the present.
    where ${arrivedWithin(sql, sql`now()`, limits)}
      and (coalesce(last.seq, 0) <> head.seq or coalesce(last.hash, sha256('sluice')) <> head.hash)
    union all
    select 'the audit log has no head', null, ${noResource(sql)}, null, null, ${noFigures(sql)}
    where ${arrivedWithin(sql, sql`now()`, limits)} and not exists (select from audit_head)`
}

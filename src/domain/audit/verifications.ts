// The invariants of verifications: the verified party exists and shows the status of its latest verification, no other
// party shows a status, and each change of status has its event.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { verificationSubjectType } from '../verifications/verification.ts'
import { noFigures, noResource, type AuditScope, type Checks } from './checks.ts'
import { announcedTimes } from './events.ts'

/** The verified party exists and references its latest verification. */
function verifications(sql: Sql | Tx, { rowsOf, resources }: AuditScope): Fragment {
  const parts = verificationSubjectType.options.map((type) => {
    const { table } = resources.find(({ resource }) => resource === type)!
    return sql`
      select finding.problem, p.tenant_id, 'kyc' as resource, p.id as resource_id, p.id::text as id, p.status as what,
        ${noFigures(sql)}
      from ${rowsOf('kyc')} p
      left join lateral (
        select s.id, s.kyc_id, s.kyc_status from ${sql(table)} s
        where s.tenant_id = p.tenant_id and s.id = p.subject_id offset 0
      ) s on true
      cross join lateral (values
        ('a verification has no party in its tenant', s.id is null),
        ('a verified party does not show the verification', s.id is not null
          and (s.kyc_id is null or s.kyc_status = 'none') and not p.outdated),
        ('an open verification is not the latest', p.open and s.kyc_id <> p.id and not p.outdated)
      ) as finding(problem, violated)
      where p.subject_type = ${type} and finding.violated`
  })
  return unionAll(sql, parts)
}

/** A party that shows a status has a verification with that status, regardless of the process that wrote the status. */
function verified(sql: Sql | Tx, { tenant_condition, resources }: AuditScope): Fragment {
  const parts = verificationSubjectType.options.map((type) => {
    const { table } = resources.find(({ resource }) => resource === type)!
    return sql`
      select 'a party shows a status without a verification' as problem, s.tenant_id, ${noResource(sql)},
        s.id::text as id,
        ${type} || ' ' || s.kyc_status as what, ${noFigures(sql)}
      from (select tenant_id, id, kyc_id, kyc_status from ${sql(table)} where ${tenant_condition}
        and kyc_status <> 'none') s
      left join verifications v on v.tenant_id = s.tenant_id and v.id = s.kyc_id and v.subject_id = s.id
        and v.subject_type = ${type}
      where v.status is distinct from s.kyc_status or (v.outdated and v.status <> 'rejected')`
  })
  return unionAll(sql, parts)
}

/** A manual decision may follow a decision of the provider; each has its event. */
function verificationEvents(sql: Sql | Tx, scope: AuditScope): Fragment {
  const required = sql`
    values
    ('kyc.created', (p.recovered_at is null)::integer::bigint, 1::bigint),
    ('kyc.recovered', (p.recovered_at is not null)::integer::bigint, (p.recovered_at is not null)::integer::bigint),
    ('kyc.approved', (p.status = 'approved')::integer::bigint,
    (p.status = 'approved')::integer + (p.decided_by is not distinct from 'manual')::integer::bigint),
    ('kyc.rejected', (p.status = 'rejected')::integer::bigint,
    (p.status = 'rejected')::integer + (p.decided_by is not distinct from 'manual')::integer::bigint)`
  return announcedTimes(sql, scope, 'kyc', required)
}

export const checksOfVerifications: Checks = { verifications, kyc_events: verificationEvents }
export const checksOfVerifiedParties: Checks = { verified }

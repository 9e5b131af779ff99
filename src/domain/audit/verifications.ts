// The invariants of verifications: who is verified exists and shows the status of the latest one, nobody shows another
// status, and what happened was announced.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { verificationSubjectType } from '../verifications/verification.ts'
import { noNumbers, ofNone, type AuditScope, type Checks } from './checks.ts'
import { announcedTimes } from './events.ts'

/** Who is verified is there, and knows the latest verification. */
function verifications(sql: Sql | Tx, { rowsOf, subjects }: AuditScope): Fragment {
  const parts = verificationSubjectType.options.map((type) => {
    const { table } = subjects.find(({ noun }) => noun === type)!
    return sql`
      select finding.problem, p.tenant_id, 'kyc' as subject, p.id as subject_id, p.id::text as id, p.status as what,
        ${noNumbers(sql)}
      from ${rowsOf('kyc')} p
      left join lateral (
        select s.id, s.kyc_id, s.kyc_status from ${sql(table)} s
        where s.tenant_id = p.tenant_id and s.id = p.subject_id offset 0
      ) s on true
      cross join lateral (values
        ('a verification is of nothing of its tenant', s.id is null),
        ('who was verified does not show it', s.id is not null and (s.kyc_id is null or s.kyc_status = 'none')),
        ('an open verification is not the latest', p.open and s.kyc_id <> p.id)
      ) as finding(problem, wrong)
      where p.subject_type = ${type} and finding.wrong`
  })
  return unionAll(sql, parts)
}

/** Whoever shows the status of a verification has one of that status, whichever process wrote it. */
function verified(sql: Sql | Tx, { whose, subjects }: AuditScope): Fragment {
  const parts = verificationSubjectType.options.map((type) => {
    const { table } = subjects.find(({ noun }) => noun === type)!
    return sql`
      select 'a status follows from no verification' as problem, s.tenant_id, ${ofNone(sql)}, s.id::text as id,
        ${type} || ' ' || s.kyc_status as what, ${noNumbers(sql)}
      from (select tenant_id, id, kyc_id, kyc_status from ${sql(table)} where ${whose} and kyc_status <> 'none') s
      left join verifications v on v.tenant_id = s.tenant_id and v.id = s.kyc_id and v.subject_id = s.id
        and v.subject_type = ${type}
      where v.status is distinct from s.kyc_status`
  })
  return unionAll(sql, parts)
}

/** A decision by hand may follow one of the provider, and each has its event. */
function verificationEvents(sql: Sql | Tx, scope: AuditScope): Fragment {
  const reached = sql`
    values
    ('kyc.created', 1::bigint, 1::bigint),
    ('kyc.approved', (p.status = 'approved')::integer::bigint,
    (p.status = 'approved')::integer + (p.decided_by is not distinct from 'manual')::integer::bigint),
    ('kyc.rejected', (p.status = 'rejected')::integer::bigint,
    (p.status = 'rejected')::integer + (p.decided_by is not distinct from 'manual')::integer::bigint)`
  return announcedTimes(sql, scope, 'kyc', reached)
}

export const checksOfVerifications: Checks = { verifications, kyc_events: verificationEvents }
export const checksOfTheVerified: Checks = { verified }

// The invariants of verifications: who is verified exists and shows the status of the latest one, and what happened was
// announced.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { kycSubjectType } from '../verifications/verification.ts'
import { noNumbers, type AuditScope, type Checks } from './checks.ts'

/** Who is verified is there, and shows the status of the latest verification. */
function verifications(sql: Sql | Tx, { rowsOf, subjects }: AuditScope): Fragment {
  const parts = kycSubjectType.options.map((type) => {
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
        ('an open verification is not the latest', p.open and s.kyc_id <> p.id),
        ('what was verified shows another status', s.kyc_id = p.id and s.kyc_status <> p.status)
      ) as finding(problem, wrong)
      where p.subject_type = ${type} and finding.wrong`
  })
  return unionAll(sql, parts)
}

/** A decision by hand may follow one of the provider, and each has its event. */
function kycEvents(sql: Sql | Tx, { rowsOf }: AuditScope): Fragment {
  return sql`
    select 'a verification has another number of events than changes' as problem, p.tenant_id, 'kyc' as subject,
      p.id as subject_id, p.id::text as id, reached.type as what, reached.times as expected, told.times as found,
      told.times - reached.times as off_by
    from ${rowsOf('kyc')} p
    cross join lateral (values
      ('kyc.created', 1::bigint, 1::bigint),
      ('kyc.approved', (p.status = 'approved')::integer::bigint,
        (p.status = 'approved')::integer + (p.decided_by is not distinct from 'manual')::integer::bigint),
      ('kyc.rejected', (p.status = 'rejected')::integer::bigint,
        (p.status = 'rejected')::integer + (p.decided_by is not distinct from 'manual')::integer::bigint)
    ) as reached(type, times, most)
    cross join lateral (
      select count(*) as times from events e
      where e.tenant_id = p.tenant_id and e.subject_id = p.id and e.type = reached.type
        -- So that earlier partitions are not read.
        and e.created_at >= p.created_at - interval '1 hour'
    ) told
    where told.times not between reached.times and reached.most
      -- Some events of verifications that are older than the retention are gone.
      and p.created_at >= (select min(coalesce(kept.from_time, '-infinity')) from partitions kept
        where kept.parent = 'events' and not kept.is_default)`
}

export const checksOfKyc: Checks = { verifications, kyc_events: kycEvents }

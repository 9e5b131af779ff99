// The status of a subject: that of its latest verification, written with it.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { subjectOf } from '../subjects.ts'
import { kycSubjectType } from './verification.ts'

/**
 * The parts of a statement, `following_customer` and so on, that write the status of the verifications `v` to the rows that
 * have them as their latest. Whoever changes a verification has locked it, so no two wait here for each other.
 */
export function following(sql: Sql | Tx): Fragment {
  const parts = kycSubjectType.options.map(
    (type, index) => sql`
      ${index === 0 ? sql`` : sql`,`} ${sql(`following_${type}`)} as (
        update ${sql(subjectOf(type).table)} s set kyc_status = v.status, updated_at = clock_timestamp()
        from v
        where v.subject_type = ${type} and s.tenant_id = v.tenant_id and s.id = v.subject_id and s.kyc_id = v.id
          and s.kyc_status <> v.status
      )`,
  )
  return sql`${parts}`
}

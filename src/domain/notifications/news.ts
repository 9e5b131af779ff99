// Whether what a notification says is news: what is so here already needs no job, and nobody is asked.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { filedBy, PROVIDER_NOUNS, providerSubjectOf, rootOf } from '../subjects.ts'

/**
 * A part of a statement: `judged`, the rows of `arrived` (notifications; `said` is a provider's `Said`) and for each
 * `tenant_id, subject, subject_id` of the row that it is filed under; `known`: our row says the same, so it brings
 * nothing; `in_hand`: a job of ours works on that row right now, in its first attempt, and will probably know.
 *
 * No row is locked: a row that changes meanwhile only moves forward, past what was said. Only the pairs that a noun
 * lists are known. Everything else needs a look: other amounts, a row with an open drift, a row that has not stored
 * the provider's id.
 */
export function judging(sql: Sql | Tx, arrived: Fragment): Fragment {
  const rows = PROVIDER_NOUNS.flatMap((noun) => {
    const { table, at_provider } = providerSubjectOf(noun)
    if (at_provider.tellsNothing === undefined) return []
    const root = rootOf(noun)
    const filed_id = sql`r.${sql(filedBy(noun))}`
    return sql`
      select r.tenant_id, ${root} as subject, ${filed_id} as subject_id,
        (${at_provider.tellsNothing(sql)}) and not exists (
          select from drifts d
          where d.tenant_id = r.tenant_id and d.mended_at is null
            and (d.subject = ${noun} and d.subject_id = r.id
              or d.subject = ${root} and d.subject_id = ${filed_id})
        ) as known
      from ${sql(table)} r
      where said.subject = ${noun} and r.${sql(at_provider.provider)} = arrived.provider
        and r.${sql(at_provider.reference)} = said.reference`
  })
  return sql`
    judged as (
      select arrived.*, ours.tenant_id, ours.subject, ours.subject_id, coalesce(ours.known, false) as known,
        not coalesce(ours.known, false) and exists (
          select from jobs j
          where j.tenant_id = coalesce(ours.tenant_id, said.tenant_id)
            and j.subject_id = coalesce(ours.subject_id, said.filed_id)
            and j.state = 'running' and j.attempt = 1 and not j.in_doubt offset 0
        ) as in_hand
      from (${arrived}) arrived
      cross join lateral jsonb_to_record(coalesce(arrived.said, '{}')) as said(
        subject text, reference text, status text, amount_minor bigint, currency text, part_minor bigint, reason text,
        tenant_id uuid, filed_id uuid)
      left join lateral (${unionAll(sql, rows)} offset 0) ours on true
    )`
}

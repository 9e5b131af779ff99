// Compares the objects in a provider's lists with our rows.
import { unionAll, type Json, type Sql } from '#core/db.ts'
import { judgingRedundancy } from '../notifications/redundancy.ts'
import { rootOf, PROVIDER_RESOURCE_NAMES, providerResourceOf } from '../resources.ts'

/** An object as a provider lists it. `reported`: a `ReportedStatus`; null if the list does not show the state. */
export type ComparedObject = {
  resource: string
  reference: string
  parent_reference: string | null
  /** The id of the installation that created the object; null if the object has no such mark. */
  installation: string | null
  reported: Json
}

/**
 * The results of comparing a listed object with our rows. `agrees`: our row has the state. `differs`: our row has
 * another state. `missing`: it is ours, or belongs to one of our rows, and has no row. `foreign`: it is not ours.
 */
export const LISTED_RESULTS = ['agrees', 'differs', 'missing', 'foreign'] as const
export type ListedResult = (typeof LISTED_RESULTS)[number]

/** Compares listed objects of a provider with our rows. Returns the results in the order of `objects`. */
export async function compareListed(
  sql: Sql,
  provider: string,
  objects: ComparedObject[],
): Promise<ListedResult[]> {
  if (objects.length === 0) return []
  const rows = PROVIDER_RESOURCE_NAMES.map((resource) => {
    const { table, at_provider } = providerResourceOf(resource)
    return sql`
      select r.status, ${sql.json(at_provider.agreeing_statuses)}::jsonb as agreeing from ${sql(table)} r
      where listed.listed_resource = ${resource} and r.${sql(at_provider.provider)} = listed.provider
        and r.${sql(at_provider.reference)} = listed.reference`
  })
  const parents = PROVIDER_RESOURCE_NAMES.flatMap((resource) => {
    const root = PROVIDER_RESOURCE_NAMES.find((each) => each === rootOf(resource))
    if (root === undefined || root === resource) return []
    const { table, at_provider } = providerResourceOf(root)
    return sql`
      select from ${sql(table)} r
      where listed.listed_resource = ${resource} and r.${sql(at_provider.provider)} = listed.provider
        and r.${sql(at_provider.reference)} = listed.parent_reference`
  })
  const items = objects.map((each, nth) => ({ ...each, nth, provider }))
  const compared = await sql<{ result: ListedResult }[]>`
    with listed as (
      select *, resource as listed_resource from jsonb_to_recordset(${sql.json(items)}) as l(
        nth integer, provider text, resource text, reference text, parent_reference text, installation text,
        reported jsonb)
    ), ${judgingRedundancy(
      sql,
      sql`
      select nth, provider, listed_resource, reference, parent_reference, installation, reported from listed`,
    )}
    select case
        when listed.is_redundant then 'agrees'
        when ours.status is not null and (listed.reported is null or listed.reported ->> 'status_amount_minor' is null
          and ours.agreeing -> (listed.reported ->> 'status') ? ours.status) then 'agrees'
        when ours.status is not null then 'differs'
        when listed.installation = (select id::text from installation) then 'missing'
        when listed.installation is null and exists (${unionAll(sql, parents)}) then 'missing'
        else 'foreign' end as result
    from judged listed
    left join lateral (${unionAll(sql, rows)} offset 0) ours on true
    order by listed.nth`
  return compared.map(({ result }) => result)
}

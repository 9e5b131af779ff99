// Runs the reconciler's lookups at a moment that the test chooses.
import { storeNotifications } from '#domain/notifications/store.ts'
import { findDrifting, findStale, lookupsOf } from '#domain/reconciliation/lookups.ts'
import { providerResourceOf, type ProviderResourceName } from '#domain/resources.ts'
import type { World } from './world.ts'

/**
 * Moves the times of a row and its drifts a month into the past, then requests the lookups that are due for them.
 * Returns whether any lookup was due.
 */
export async function lookUpAfterMonth(
  { sql }: Pick<World, 'sql'>,
  resource: ProviderResourceName,
  id: string,
): Promise<boolean> {
  const { table, at_provider } = providerResourceOf(resource)
  const [row] = await sql<{ reference: string | null }[]>`
    update ${sql(table)} set updated_at = updated_at - interval '30 days' where id = ${id}
    returning ${sql(at_provider.reference)} as reference`
  // Objects at the provider that a drift names are looked up too.
  const drifts = await sql<{ reference: string | null }[]>`
    update drifts set since = since - interval '30 days' where subject_id = ${id}
    returning theirs ->> ${at_provider.reference}::text as reference`
  const references = new Set([row!, ...drifts].map(({ reference }) => reference))
  const stages = [await findStale(sql, resource, null), await findDrifting(sql, null)]
  const due = stages.flatMap(({ stale }) => stale.filter(({ reference }) => references.has(reference)))
  await storeNotifications(sql, lookupsOf(due))
  return due.length > 0
}

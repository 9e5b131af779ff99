// Compares a row with its provider's record, and opens or closes its drift.
import type { Outcome } from '#core/outcome.ts'
import { disagreement, sideFrom } from '#domain/reconciliation/compare.ts'
import { findRowSnapshot, closeDrift, openDrift, type RowSnapshot } from '#domain/reconciliation/drift.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import type { ProviderResourceName } from '#domain/resources.ts'
import type { WorkerContext } from '../../context.ts'

/** The maximum number of tries: our row may change while the provider is queried. */
const MAX_TRIES = 3
/** The outcome of a comparison whose result is written. */
export const COMPARED = { kind: 'done', value: null } as const

/**
 * A resource that is compared. `query` looks up the provider's side of a row; its value is null if the provider has no
 * record.
 */
export type ComparedResource = {
  resource: ProviderResourceName
  query: (context: WorkerContext, reference: string) => Promise<Outcome<Side | null>>
}

/** A provider's record as one side of a comparison. */
export function toSide<T>(lookup: Outcome<T | null>, sideOf: (record: T) => Side): Outcome<Side | null> {
  return lookup.kind === 'done' ? { kind: 'done', value: lookup.value && sideOf(lookup.value) } : lookup
}

/**
 * Compares a row with the provider's record, and opens, updates or closes the row's drift. `reported` is the provider's
 * side that was already applied to the row. It may be older than the row, or than the answer that opened a drift. So a
 * drift is opened or closed only after another query of the provider, which is repeated if the row has changed during
 * it; the last query counts. Returns `done` when the result is written; after any other outcome the comparison must be
 * repeated.
 *
 * `may_resolve_itself`: a difference that may disappear by itself opens no drift. Then the result has `since`, the
 * time since which the row is unchanged, so that the caller can compare later. `reference`: the provider's id, for a
 * row that has not stored it. `except_id`: the id of the notification that is being applied; it does not count as
 * parked.
 */
export async function compare(
  context: WorkerContext,
  { resource, query }: ComparedResource,
  { tenant_id, id }: { tenant_id: string; id: string },
  reported: Side | null,
  {
    may_resolve_itself = false,
    reference: named = null,
    except_id = null,
  }: { may_resolve_itself?: boolean; reference?: string | null; except_id?: string | null } = {},
): Promise<Outcome<{ since: string } | null>> {
  const { sql, log } = context
  const key = { tenant_id, resource, resource_id: id }
  let found = await findRowSnapshot(sql, { ...key, except_id })
  if (found === undefined) return COMPARED
  const first = disagreement(resource, found, reported)
  if (first === null && !found.has_open_drift) return COMPARED
  if (first?.transient === true && may_resolve_itself) return { kind: 'done', value: { since: found.since } }
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const { since: before, read_at: as_of }: RowSnapshot = found
    const reference: string | null = found.reference ?? named
    if (reference === null) {
      // The call for the row was never sent, so the provider has no record.
      if (first === null) await closeDrift(sql, key, { ours: found.ours, as_of })
      return COMPARED
    }
    const answer = await query(context, reference)
    if (answer.kind !== 'done') return answer
    const theirs = answer.value && sideFrom(resource, answer.value)
    found = await findRowSnapshot(sql, { ...key, except_id })
    if (found === undefined) return COMPARED
    const differs = disagreement(resource, found, theirs)
    if (differs === null) {
      await closeDrift(sql, key, { ours: found.ours, as_of })
      return COMPARED
    }
    const { ours, payment_id, since } = found
    if (since !== before) continue
    if (differs.transient && may_resolve_itself) return { kind: 'done', value: { since } }
    const { state, detail } = differs
    const drift = { payment_id, state, ours, theirs, detail, since }
    if (!(await openDrift(sql, key, { ...drift, as_of }))) continue
    log.error({ ...key, ...drift }, 'a drift: our row and the provider differ')
    return COMPARED
  }
  return {
    kind: 'retry',
    reason: `the ${resource} or its drift changed during each query of the provider`,
  }
}

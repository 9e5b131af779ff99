// Compares a row with its provider's record of it, and opens or closes its drift.
import type { Outcome } from '#core/outcome.ts'
import { disagreement, sideFrom } from '#domain/reconciliation/compare.ts'
import { findOurs, closeDrift, openDrift, type Ours } from '#domain/reconciliation/drift.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import type { ProviderNoun } from '#domain/subjects.ts'
import type { WorkerContext } from '../../context.ts'

/** Our row may change while the provider is asked; then both are read again, this often at most. */
const TRIES = 3
/** The comparison is over and its result is written. */
export const COMPARED = { kind: 'done', value: null } as const

/** A noun that is compared, and how its provider is asked for its side of a row; null: it knows none. */
export type ComparedNoun = {
  noun: ProviderNoun
  ask: (context: WorkerContext, reference: string) => Promise<Outcome<Side | null>>
}

/** What a provider answered of its record, as one side of a comparison. */
export function sided<T>(looked: Outcome<T | null>, sideOf: (record: T) => Side): Outcome<Side | null> {
  return looked.kind === 'done' ? { kind: 'done', value: looked.value && sideOf(looked.value) } : looked
}

/**
 * Opens, updates or closes the drift of a row. `said` is the provider's side, after it was applied here. It may be
 * older by now than our row, or than the answer that opened a drift: so before a drift is opened or closed the provider
 * is asked again while our row does not change, and what was asked for later counts.
 * Returns `done` when the result is written; with any other outcome the comparison must be repeated.
 *
 * `patient`: when a difference may soon pass, opens nothing and returns since when our row has been as it is, so that
 * the caller can look again. `reference`: the provider's id, for a row that has not stored it. `news`: the
 * notification that is being applied; it does not count as parked.
 */
export async function compare(
  context: WorkerContext,
  { noun, ask }: ComparedNoun,
  { tenant_id, id }: { tenant_id: string; id: string },
  said: Side | null,
  {
    patient = false,
    reference: named = null,
    news = null,
  }: { patient?: boolean; reference?: string | null; news?: string | null } = {},
): Promise<Outcome<{ since: string } | null>> {
  const { sql, log } = context
  const of = { tenant_id, subject: noun, subject_id: id }
  let found = await findOurs(sql, { ...of, news })
  if (found === undefined) return COMPARED
  const first = disagreement(noun, found, said)
  if (first === null && !found.is_drifting) return COMPARED
  if (first?.passing === true && patient) return { kind: 'done', value: { since: found.since } }
  for (let tries = 0; tries < TRIES; tries++) {
    const { since: before, read_at: as_of }: Ours = found
    const reference: string | null = found.reference ?? named
    if (reference === null) {
      // It was never sent, so no provider can have another side of it.
      if (first === null) await closeDrift(sql, of, { ours: found.ours, as_of })
      return COMPARED
    }
    const asked = await ask(context, reference)
    if (asked.kind !== 'done') return asked
    const theirs = asked.value && sideFrom(noun, asked.value)
    found = await findOurs(sql, { ...of, news })
    if (found === undefined) return COMPARED
    const differs = disagreement(noun, found, theirs)
    if (differs === null) {
      await closeDrift(sql, of, { ours: found.ours, as_of })
      return COMPARED
    }
    const { ours, payment_id, since } = found
    if (since !== before) continue
    if (differs.passing && patient) return { kind: 'done', value: { since } }
    const { state, detail } = differs
    const drift = { payment_id, state, ours, theirs, detail, since }
    if (!(await openDrift(sql, of, { ...drift, as_of }))) continue
    log.error({ ...of, ...drift }, 'our books and the provider differ')
    return COMPARED
  }
  return {
    kind: 'retry',
    reason: `the ${noun}, or its drift, changed each time while the provider was asked`,
  }
}

// Compares the processor's record of top-ups with Sluice's: same count, same amounts, no duplicates.
import type { Sql } from '#core/db.ts'

export type TopUpEffect = {
  effect: string
  topup?: string
  amount: number
  currency: string
  metadata: Record<string, string>
}

type OurTopUp = {
  id: string
  status: string
  amount_minor: number
  currency: string
  processor_reference: string | null
  has_top_up: boolean
  has_reversal: boolean
  open: boolean
}

/**
 * Sluice's top-ups. Read them before the processor's record: a later change at the processor is an update, not a
 * contradiction.
 */
export async function findOurTopUps(sql: Sql): Promise<OurTopUp[]> {
  const posted = (kind: string) => sql`exists (
    select from ledger_transfers l where l.tenant_id = t.tenant_id and l.subject_id = t.id and l.kind = ${kind})`
  return await sql<OurTopUp[]>`
    select t.id, t.status, t.amount_minor, t.currency, t.processor_reference, ${posted('top_up')} as has_top_up,
      ${posted('top_up_reversed')} as has_reversal, exists (
        select from jobs j where j.tenant_id = t.tenant_id and j.resource_id = t.id and j.finished_at is null) as open
    from top_ups t`
}

/** Returns the differences between Sluice's top-ups and the effects in the processor's record. */
export function topUpDisagreements(
  ours: OurTopUp[],
  effects: readonly TopUpEffect[],
): { problem: string; [fact: string]: unknown }[] {
  const of_top_ups = effects.filter(({ topup }) => topup !== undefined)
  const byId = Map.groupBy(of_top_ups, ({ topup, metadata }) => metadata['sluice_top_up_id'] ?? topup!)
  const our_ids = new Set<string>()
  const problems = ours.flatMap(({ id, open, has_top_up, has_reversal, ...top_up }) => {
    our_ids.add(id)
    const theirs = byId.get(id) ?? []
    const count = (effect: string) => theirs.filter((each) => each.effect === effect).length
    const facts = { id, ...top_up, theirs }
    if (new Set(theirs.map(({ topup }) => topup)).size > 1)
      return [{ problem: 'a top-up was made twice', ...facts }]
    if (open) return []
    if (count('top_up') !== Number(has_top_up) || count('top_up_reversed') !== Number(has_reversal))
      return [{ problem: 'a top-up differs', has_top_up, has_reversal, ...facts }]
    return theirs.some(
      ({ amount, currency, topup }) =>
        amount !== top_up.amount_minor ||
        currency !== top_up.currency ||
        topup !== top_up.processor_reference,
    )
      ? [{ problem: 'the amount of a top-up differs', ...facts }]
      : []
  })
  const unknown = [...byId].filter(
    ([id, theirs]) =>
      !our_ids.has(id) && theirs.some(({ metadata }) => metadata['application'] !== 'another'),
  )
  return [
    ...problems,
    ...unknown.map(([id, theirs]) => ({ problem: 'an effect of an unknown top-up', id, theirs })),
  ]
}

// Disputes: what the processor's own record says moved by them, and what was posted here.
import type { World } from './world.ts'

type Effect = {
  effect: string
  dispute?: string
  amount: number
  currency: string
  metadata: Record<string, string>
}
type Posted = { reference: string; kind: string; amount_minor: number; currency: string }

/** The same sums of each kind, of every dispute of a payment of ours. */
export async function disputeDisagreements({ sql, provider }: Pick<World, 'sql' | 'provider'>) {
  const posted = await sql<Posted[]>`
    select d.processor_reference as reference, t.kind, sum(t.amount_minor)::bigint as amount_minor, t.currency
    from disputes d join ledger_transfers t on t.tenant_id = d.tenant_id and t.subject_id = d.id group by 1, 2, 4`
  const effects: Effect[] = (await provider('stripe').effects()).filter(
    ({ dispute, metadata }) => dispute !== undefined && metadata['sluice_payment_id'] !== undefined,
  )
  const theirs = Map.groupBy(effects, ({ dispute, effect, currency }) =>
    [dispute, effect, currency.toUpperCase()].join(' '),
  )
  const ours = new Map(
    posted.map((each) => [[each.reference, each.kind, each.currency].join(' '), each.amount_minor]),
  )
  return Array.from(new Set([...theirs.keys(), ...ours.keys()])).flatMap((key) => {
    const there = (theirs.get(key) ?? []).reduce((sum, { amount }) => sum + amount, 0)
    const here = ours.get(key) ?? 0
    return here === there
      ? []
      : [{ problem: 'what moved by a dispute differs', key, ours: here, theirs: there }]
  })
}

// Compares the processor's record of disputes with the postings of Sluice.
import type { World } from './world.ts'

type Effect = {
  effect: string
  dispute?: string
  amount: number
  currency: string
  metadata: Record<string, string>
}
type Posted = { reference: string; kind: string; amount_minor: number; currency: string }

/** Returns the differences between the processor's effects and Sluice's postings, by dispute, kind and currency. */
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
    const theirs_minor = (theirs.get(key) ?? []).reduce((sum, { amount }) => sum + amount, 0)
    const ours_minor = ours.get(key) ?? 0
    return ours_minor === theirs_minor
      ? []
      : [{ problem: 'the effects of a dispute differ', key, ours: ours_minor, theirs: theirs_minor }]
  })
}

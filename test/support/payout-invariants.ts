// What must hold of payouts in the end: what the processor moved is what is posted here, and none left twice.
import type { World } from './world.ts'

const OUT = ['payout', 'transfer']
const BACK = ['payout_failed', 'payout_canceled', 'transfer_reversed']

type OurPayout = {
  id: string
  status: string
  processor_status: string | null
  amount_minor: number
  currency: string
  posted: number
  open: boolean
}

/** The processor's record of payouts and transfers and ours. */
export async function payoutDisagreements({
  sql,
  provider,
}: Pick<World, 'sql' | 'provider'>): Promise<{ problem: string }[]> {
  const payouts = await sql<OurPayout[]>`
    select p.id, p.status, p.processor_status, p.amount_minor, p.currency,
      (select coalesce(sum(case when t.debit_account = 'available' then t.amount_minor else -t.amount_minor end), 0)::bigint
       from ledger_transfers t where t.tenant_id = p.tenant_id and t.subject_id = p.id) as posted,
      exists (select from jobs j where j.tenant_id = p.tenant_id and j.subject_id = p.id and j.finished_at is null) as open
    from payouts p`
  const effects: any[] = (await provider('stripe').effects()).filter(
    ({ effect }) => OUT.includes(effect) || BACK.includes(effect),
  )
  const problems: { problem: string; [fact: string]: unknown }[] = []
  const of = Map.groupBy(effects, ({ metadata }) => metadata['sluice_payout_id'] as string | undefined)
  for (const payout of payouts) {
    const theirs = of.get(payout.id) ?? []
    const out = theirs.filter(({ effect }) => OUT.includes(effect))
    const back = theirs.filter(({ effect }) => BACK.includes(effect))
    if (out.length > 1) problems.push({ problem: 'a payout left twice', ...payout, theirs })
    if (out.some(({ amount, currency }) => amount !== payout.amount_minor || currency !== payout.currency))
      problems.push({ problem: 'a payout left with another amount', ...payout, theirs })
    // On its way, here or only there.
    if (payout.open || [payout.status, payout.processor_status].includes('processing')) continue
    const moved = sum(out) - sum(back)
    if (moved !== payout.posted)
      problems.push({ problem: 'what was paid out differs', ...payout, moved, theirs })
  }
  const ids = new Set(payouts.map(({ id }) => id))
  for (const [id, [first]] of of)
    if (first.metadata['application'] !== 'another' && !ids.has(id ?? ''))
      problems.push({ problem: 'a payout of nothing that we know', theirs: first })
  return problems
}

const sum = (effects: { amount: number }[]) => effects.reduce((total, { amount }) => total + amount, 0)

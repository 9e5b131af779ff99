// Compares the processor's record of payouts with the postings of Sluice: no payout is paid twice.
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

/** Returns the differences between Sluice's payouts and the processor's payouts and transfers. */
export async function payoutDisagreements({
  sql,
  provider,
}: Pick<World, 'sql' | 'provider'>): Promise<{ problem: string }[]> {
  const payouts = await sql<OurPayout[]>`
    select p.id, p.status, p.processor_status, p.amount_minor, p.currency,
      (select coalesce(sum(case when t.debit_account = 'available' then t.amount_minor else -t.amount_minor end), 0)::bigint
       from ledger_transfers t where t.tenant_id = p.tenant_id and t.subject_id = p.id) as posted,
      exists (select from jobs j where j.tenant_id = p.tenant_id and j.resource_id = p.id and j.finished_at is null) as open
    from payouts p`
  const effects: any[] = (await provider('stripe').effects()).filter(
    ({ effect }) => OUT.includes(effect) || BACK.includes(effect),
  )
  const problems: { problem: string; [fact: string]: unknown }[] = []
  const of = Map.groupBy(effects, ({ metadata }) => metadata['sluice_payout_id'] as string | undefined)
  for (const payout of payouts) {
    const theirs = of.get(payout.id) ?? []
    const paid = theirs.filter(({ effect }) => OUT.includes(effect))
    const returned = theirs.filter(({ effect }) => BACK.includes(effect))
    if (paid.length > 1) problems.push({ problem: 'a payout was paid twice', ...payout, theirs })
    if (paid.some(({ amount, currency }) => amount !== payout.amount_minor || currency !== payout.currency))
      problems.push({ problem: 'a payout was paid with another amount', ...payout, theirs })
    // Skips payouts that are in progress here or at the processor.
    if (payout.open || [payout.status, payout.processor_status].includes('processing')) continue
    const moved = sum(paid) - sum(returned)
    if (moved !== payout.posted)
      problems.push({ problem: 'the paid amount differs', ...payout, moved, theirs })
  }
  const ids = new Set(payouts.map(({ id }) => id))
  for (const [id, [first]] of of)
    if (first.metadata['application'] !== 'another' && !ids.has(id ?? ''))
      problems.push({ problem: 'an effect of an unknown payout', theirs: first })
  return problems
}

const sum = (effects: { amount: number }[]) => effects.reduce((total, { amount }) => total + amount, 0)

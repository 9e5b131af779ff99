// Payouts, against the processor's own record and against what was there when they were accepted.
import type { Problem } from '#test/invariants.ts'
import type { System } from '../system.ts'

/** Of more, that they are there is all that is told. */
const MAX_REPORTED = 20

export const OVERDRAWN = 'payouts were accepted for more than there was'

/** What problems of money there are, beside those that hold of any deployment. */
export async function moneyProblems(system: System): Promise<Problem[]> {
  const found = await Promise.all([overdrawn(system), paidAfterFailure(system)])
  return found.flat()
}

/**
 * When a payout is accepted, it and all others that are open take no more than the balance. Under the lock of an account
 * its transfers and payouts are in the order of their times, but that of a payout is only good to a millisecond: whatever
 * came or was freed in the next one counts as there. What is failed or canceled is free a little later than its time.
 */
async function overdrawn({ sql }: System): Promise<Problem[]> {
  return await sql<Problem[]>`
    with payout as (
      select p.tenant_id, p.id, upper(p.currency) as currency, p.amount_minor, p.created_at,
        least(t.created_at, p.failed_at, p.canceled_at) as until
      from payouts p
      left join ledger_transfers t on t.tenant_id = p.tenant_id and t.subject_id = p.id and t.kind = 'payout_paid'
    )
    select ${OVERDRAWN} as problem, p.tenant_id, p.id, p.created_at, open.amount as open_minor, at_processor.amount as there_minor
    from payout p
    cross join lateral (select p.created_at + interval '1 millisecond' as at) soon
    cross join lateral (
      select sum(o.amount_minor) as amount from payout o
      where o.tenant_id = p.tenant_id and o.currency = p.currency and o.created_at <= p.created_at
        and coalesce(o.until, 'infinity') > soon.at
    ) open
    cross join lateral (
      select coalesce(max(b.balance_after_minor), 0) as amount from (
        (select t.balance_after_minor from ledger_transfers t
         where t.tenant_id = p.tenant_id and t.currency = p.currency and t.seq is not null and t.created_at <= p.created_at
         order by t.seq desc limit 1)
        union all
        (select t.balance_after_minor from ledger_transfers t
         where t.tenant_id = p.tenant_id and t.currency = p.currency and t.seq is not null
           and t.created_at > p.created_at and t.created_at <= soon.at)
      ) b
    ) at_processor
    where open.amount > at_processor.amount
    order by p.created_at limit ${MAX_REPORTED}`
}

/** What was refused, canceled, failed by hand or came back has not been paid: operators force no failure here. */
async function paidAfterFailure({ sql, provider }: System): Promise<Problem[]> {
  const payouts = await sql<{ id: string; status: string; at_processor: string | null }[]>`
    select id, status, processor_status as at_processor from payouts where status in ('failed', 'canceled')`
  const effects: { effect: string; amount: number; metadata: Record<string, string> }[] =
    await provider('stripe').effects()
  const paid = new Map<string, number>()
  for (const { effect, amount, metadata } of effects) {
    const id = metadata['sluice_payout_id']
    if (id === undefined) continue
    const out = effect === 'payout' || effect === 'transfer'
    paid.set(id, (paid.get(id) ?? 0) + (out ? amount : -amount))
  }
  return payouts.flatMap((payout) =>
    (paid.get(payout.id) ?? 0) === 0 ? [] : [{ problem: 'a payout that has ended was paid', ...payout }],
  )
}

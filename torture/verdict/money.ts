// Judges payouts against the processor's record and against the balances at their acceptance.
import type { Problem } from '#test/invariants.ts'
import type { System } from '../system.ts'

/** Maximum number of reported cases. */
const MAX_REPORTED = 20

export const DONE_TWICE = 'a request took effect twice at the processor'
export const OVERDRAWN = 'payouts were accepted for more than the balance'

/** Finds problems with payouts that `findRemainingProblems` does not check. */
export async function moneyProblems(system: System): Promise<Problem[]> {
  const effects: Effect[] = await system.provider('stripe').effects()
  const found = await Promise.all([overdrawn(system), paidAfterFailure(system, effects)])
  return [...found.flat(), ...doneTwice(effects)]
}

/** An effect in the processor's own record. */
export type Effect = { effect: string; amount: number; metadata: Record<string, string> }

/** The effects that a request for a new object has. */
const CREATIONS = new Set(['authorize', 'refund', 'top_up', 'transfer', 'payout'])

/**
 * By the processor's record, each request took effect once: objects that were created for one idempotency key of a
 * tenant have different ids here if the database has lost the request and it was repeated.
 */
export function doneTwice(effects: Effect[]): Problem[] {
  const created = effects.filter(
    ({ effect, metadata }) => CREATIONS.has(effect) && metadata['sluice_key'] !== undefined,
  )
  const requests = Map.groupBy(created, ({ effect, metadata }) =>
    [effect, metadata['sluice_tenant_id'], metadata['sluice_key']].join(' '),
  )
  return [...requests.values()].flatMap((same) =>
    same.length > 1 ? [{ problem: DONE_TWICE, effects: same }] : [],
  )
}

/**
 * All open payouts together must not exceed the balance when a payout is accepted. Transfers and payouts of an account
 * are serialized by its lock, but the time of a payout has only millisecond precision: money that arrived or was
 * released within the next millisecond counts as available. A failed or canceled payout releases its amount shortly
 * after its `failed_at` or `canceled_at`. A payout that the database had lost is not judged: it was accepted from the
 * balance before, and is recovered as a fact, even if what it was paid from is recovered later.
 */
async function overdrawn({ sql }: System): Promise<Problem[]> {
  return await sql<Problem[]>`
    with payout as (
      select p.tenant_id, p.id, upper(p.currency) as currency, p.amount_minor, p.created_at, p.recovered_at,
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
    where open.amount > at_processor.amount and p.recovered_at is null
    order by p.created_at limit ${MAX_REPORTED}`
}

/**
 * Payouts that were refused, canceled, failed by an operator or returned must not be paid. Only a forced failure would
 * be an exception, and no operator forces one here.
 */
async function paidAfterFailure({ sql }: System, effects: Effect[]): Promise<Problem[]> {
  const payouts = await sql<{ id: string; status: string; at_processor: string | null }[]>`
    select id, status, processor_status as at_processor from payouts where status in ('failed', 'canceled')`
  const paid = new Map<string, number>()
  for (const { effect, amount, metadata } of effects) {
    const id = metadata['sluice_payout_id']
    if (id === undefined) continue
    const is_paid = effect === 'payout' || effect === 'transfer'
    paid.set(id, (paid.get(id) ?? 0) + (is_paid ? amount : -amount))
  }
  return payouts.flatMap((payout) =>
    (paid.get(payout.id) ?? 0) === 0 ? [] : [{ problem: 'a failed or canceled payout was paid', ...payout }],
  )
}

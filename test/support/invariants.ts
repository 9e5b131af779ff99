// What must hold in the end, of any deployment: our own books, and their agreement with the processor's record.
import { setTimeout as sleep } from 'node:timers/promises'
import type { World } from './world.ts'

/** Of any deployment, in this process or in its own. */
export type Books = Pick<World, 'sql' | 'stripe'>

const PATIENCE_MS = 20_000

/** What does not add up, after waiting for what the processor has still to tell. */
export async function problemsLeft(world: Books): Promise<Problem[]> {
  const until = performance.now() + PATIENCE_MS
  for (;;) {
    const problems = await findProblems(world)
    if (problems.length === 0 || performance.now() > until) return problems
    await sleep(50)
  }
}

export type Problem = { problem: string; [fact: string]: unknown }

/** Everything that contradicts the invariants now; work under way may show up until it is done. */
async function findProblems(world: Books): Promise<Problem[]> {
  const [ledger, payments, jobs, events, processor] = await Promise.all([
    unbalanced(world),
    inconsistent(world),
    lost(world),
    untold(world),
    disagreements(world),
  ])
  return [...ledger, ...payments, ...jobs, ...events, ...processor]
}

/** The ledger sums to zero per transaction and currency, and each balance is the sum of its entries. */
async function unbalanced({ sql }: Books): Promise<Problem[]> {
  return await sql<Problem[]>`
    select 'a transaction does not sum to zero' as problem, transaction_id, currency, sum(amount_minor) as off_by
    from ledger_entries group by tenant_id, transaction_id, currency having sum(amount_minor) <> 0
    union all
    select 'a transaction without entries', t.id, t.kind, null from ledger_transactions t
    where not exists (select from ledger_entries e where e.tenant_id = t.tenant_id and e.transaction_id = t.id)
    union all
    select 'a balance is not the sum of its entries', null, coalesce(a.currency || ' ' || a.name, e.currency || ' ' || e.account),
      coalesce(a.balance_minor, 0) - coalesce(e.sum, 0)
    from ledger_accounts a
    full join (select tenant_id, currency, account, sum(amount_minor) from ledger_entries group by 1, 2, 3) e
      on e.tenant_id = a.tenant_id and e.currency = a.currency and e.account = a.name
    where coalesce(a.balance_minor, 0) <> coalesce(e.sum, 0)`
}

/** Captured within authorized, refunds within captured and as their rows say, and all of it posted. */
async function inconsistent({ sql }: Books): Promise<Problem[]> {
  return await sql<Problem[]>`
    with refunded as (
      select tenant_id, payment_id, coalesce(sum(amount_minor) filter (where status = 'succeeded'), 0) as refunded,
        coalesce(sum(amount_minor) filter (where status in ('pending', 'succeeded')), 0) as reserved
      from refunds group by 1, 2
    ), posted as (
      select t.tenant_id, t.subject_id, t.kind, sum(e.amount_minor) as amount, min(e.currency) as currency
      from ledger_transactions t join ledger_entries e on e.tenant_id = t.tenant_id and e.transaction_id = t.id and e.account = 'available'
      group by 1, 2, 3
    )
    select 'more was captured than authorized' as problem, id, status from payments where amount_captured_minor > amount_minor
    union all
    select 'the refunds of a payment are not its refunded or reserved amount', p.id, p.status
    from payments p left join refunded r on r.tenant_id = p.tenant_id and r.payment_id = p.id
    where p.amount_refunded_minor <> coalesce(r.refunded, 0) or p.amount_refund_reserved_minor <> coalesce(r.reserved, 0)
      or p.amount_refund_reserved_minor > p.amount_captured_minor
    union all
    select 'what was captured is not what was posted', p.id, p.status
    from payments p left join posted on posted.tenant_id = p.tenant_id and posted.subject_id = p.id and posted.kind = 'capture'
    where p.amount_captured_minor <> coalesce(posted.amount, 0) or posted.currency <> p.currency
    union all
    select 'what was refunded is not what was posted', r.id, r.status
    from refunds r left join posted p on p.tenant_id = r.tenant_id and p.subject_id = r.id and p.kind = 'refund'
    left join posted f on f.tenant_id = r.tenant_id and f.subject_id = r.id and f.kind = 'refund_failed'
    where coalesce(p.amount, 0) + coalesce(f.amount, 0) <> case when r.status = 'succeeded' then -r.amount_minor else 0 end
      or coalesce(-p.amount, r.amount_minor) <> r.amount_minor or (f.amount is not null and p.amount is null)`
}

/** Every job is finished, or due at some time, or held by somebody; what is under way has an open job. */
async function lost({ sql }: Books): Promise<Problem[]> {
  return await sql<Problem[]>`
    select 'a job is neither finished, due nor held' as problem, id, name || ' ' || state as what from jobs
    where finished_at is null and not (
      (state in ('ready', 'unknown') and run_at is not null) or (state = 'running' and lease_until > now() - interval '30 s'))
    union all
    select 'a payment is under way and nothing works on it', p.id, p.status from payments p
    where p.status in ('pending', 'capturing', 'canceling')
      and not exists (select from jobs j where j.tenant_id = p.tenant_id and j.subject_id = p.id and j.finished_at is null)
    union all
    select 'a finished job left its provider call open', c.job_id, c.operation
    from jobs j join provider_calls c on c.job_id = j.id where j.state in ('succeeded', 'failed') and c.outcome is null`
}

/** An event exists if and only if its state change does. */
async function untold({ sql }: Books): Promise<Problem[]> {
  return await sql<Problem[]>`
    with told as (
      select tenant_id, subject_id, type, count(*) as times from events group by 1, 2, 3
    ), told_of_refund as (
      select tenant_id, data ->> 'id' as refund_id, type, count(*) as times from events where type like 'refund.%' group by 1, 2, 3
    ), expected as (
      select tenant_id, id, 'payment.created' as type from payments
      union all
      select tenant_id, id, 'payment.' || status from payments where status in ('captured', 'canceled', 'failed')
    ), expected_of_refund as (
      select tenant_id, id, 'refund.created' as type from refunds
      union all
      select tenant_id, id, 'refund.' || status from refunds where status in ('succeeded', 'failed')
    )
    select 'an event is missing or was written twice' as problem, e.id, e.type, coalesce(t.times, 0) as times
    from expected e left join told t on t.tenant_id = e.tenant_id and t.subject_id = e.id and t.type = e.type
    where coalesce(t.times, 0) <> 1
    union all
    select 'an event is missing or was written twice', e.id, e.type, coalesce(t.times, 0)
    from expected_of_refund e left join told_of_refund t on t.tenant_id = e.tenant_id and t.refund_id = e.id::text and t.type = e.type
    where coalesce(t.times, 0) <> 1
    union all
    select 'an event tells what did not happen', t.subject_id, t.type, t.times
    from told t join payments p on p.tenant_id = t.tenant_id and p.id = t.subject_id
    where t.type in ('payment.captured', 'payment.canceled', 'payment.failed') and t.type <> 'payment.' || p.status`
}

type Effect = {
  effect: 'authorize' | 'capture' | 'cancel' | 'refund' | 'refund_failed'
  payment_intent: string
  refund?: string
  amount: number
  currency: string
  metadata: Record<string, string>
}

type OurPayment = {
  id: string
  status: string
  currency: string
  processor_reference: string | null
  amount_captured_minor: number
  authorized_at: string | null
  canceled_at: string | null
  open: boolean
}

type OurRefund = {
  id: string
  status: string
  amount_minor: number
  currency: string
  processor_reference: string | null
  returned: boolean
  open: boolean
}

/** The processor's record of effects and ours: the same count, the same amounts, none doubled. */
async function disagreements({ sql, stripe }: Books): Promise<Problem[]> {
  // Ours first: what the processor does meanwhile is then news, not a contradiction.
  const payments = await sql<OurPayment[]>`
    select p.id, p.status, p.currency, p.processor_reference, p.amount_captured_minor, p.authorized_at, p.canceled_at,
      exists (select from jobs j where j.tenant_id = p.tenant_id and j.subject_id = p.id and j.finished_at is null) as open
    from payments p`
  const refunds = await sql<OurRefund[]>`
    select r.id, r.status, r.amount_minor, r.currency, r.processor_reference,
      exists (select from ledger_transactions t where t.tenant_id = r.tenant_id and t.subject_id = r.id and t.kind = 'refund_failed') as returned,
      exists (select from jobs j where j.tenant_id = r.tenant_id and j.subject_id = r.payment_id and j.finished_at is null) as open
    from refunds r`
  const effects: Effect[] = (await stripe('GET', '/_emulator/effects')).data
  const problems: Problem[] = []
  const say = (problem: string, facts: object) => problems.push({ problem, ...facts })

  const of = Map.groupBy(effects, ({ payment_intent }) => payment_intent)
  const ofRefund = Map.groupBy(
    effects.filter(({ refund }) => refund !== undefined),
    ({ refund }) => refund!,
  )
  const authorized = new Set<string>()
  for (const { effect, metadata, payment_intent } of effects) {
    const ours = metadata['sluice_payment_id']
    if (effect !== 'authorize' || ours === undefined) continue
    if (authorized.has(ours)) say('a payment was authorized twice', { payment_intent, ours })
    authorized.add(ours)
  }
  const refunded = new Set<string>()
  for (const { effect, metadata, refund } of effects) {
    const ours = metadata['sluice_refund_id']
    if (effect !== 'refund' || ours === undefined) continue
    if (refunded.has(ours)) say('a refund was made twice', { refund, ours })
    refunded.add(ours)
  }

  for (const payment of payments) {
    const { id, status, processor_reference } = payment
    const theirs = processor_reference === null ? [] : (of.get(processor_reference) ?? [])
    const count = (effect: string) => theirs.filter((each) => each.effect === effect).length
    for (const effect of ['authorize', 'capture', 'cancel'])
      if (count(effect) > 1) say(`${effect} took effect twice`, { id, status, processor_reference })
    if (payment.open) continue
    const capture = theirs.find(({ effect }) => effect === 'capture')
    if ((capture?.amount ?? 0) !== payment.amount_captured_minor)
      say('captured differs', { id, status, ours: payment.amount_captured_minor, theirs: capture?.amount })
    if (capture !== undefined && capture.currency.toUpperCase() !== payment.currency)
      say('the currency differs', { id, ours: payment.currency, theirs: capture.currency })
    if ((payment.authorized_at !== null) !== (count('authorize') === 1))
      say('authorized differs', { id, status, theirs: count('authorize') })
    if ((payment.canceled_at !== null && payment.authorized_at !== null) !== (count('cancel') === 1))
      say('canceled differs', { id, status, theirs: count('cancel') })
    if (authorized.has(id) && status === 'failed') say('a failed payment holds money', { id })
  }

  for (const refund of refunds) {
    const { id, status, processor_reference } = refund
    const theirs = processor_reference === null ? [] : (ofRefund.get(processor_reference) ?? [])
    const made = theirs.filter(({ effect }) => effect === 'refund')
    const failed = theirs.filter(({ effect }) => effect === 'refund_failed')
    if (made.length > 1 || failed.length > 1) say('a refund took effect twice', { id, status })
    if (refund.open) continue
    if (made.length === 0 && (status !== 'failed' || refunded.has(id)))
      say('a refund differs', { id, status, processor_reference, made: refunded.has(id) })
    if (made.some(({ amount }) => amount !== refund.amount_minor))
      say('a refunded amount differs', { id, ours: refund.amount_minor, theirs: made })
    if (made.some(({ currency }) => currency.toUpperCase() !== refund.currency))
      say('the currency of a refund differs', { id, ours: refund.currency })
    if (made.length > 0 && (status === 'failed') !== (failed.length === 1))
      say('a failed refund differs', { id, status, theirs: failed.length })
  }

  const references = new Set(payments.map(({ processor_reference }) => processor_reference))
  const ids = new Set(payments.map(({ id }) => id))
  for (const { effect, payment_intent, metadata } of effects)
    if (!references.has(payment_intent) && !ids.has(metadata['sluice_payment_id'] ?? ''))
      say('an effect of nothing that we know', { effect, payment_intent })
  const known = new Set(refunds.map(({ processor_reference }) => processor_reference))
  const ourRefunds = new Set(refunds.map(({ id }) => id))
  for (const [refund, [first]] of ofRefund)
    if (!known.has(refund) && !ourRefunds.has(first!.metadata['sluice_refund_id'] ?? ''))
      say('a refund of nothing that we know', { refund, payment_intent: first!.payment_intent })
  return problems
}

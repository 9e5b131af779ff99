// Invariants of any deployment: the audit finds no problems, and Sluice's records agree with the processor's.
import { setTimeout as sleep } from 'node:timers/promises'
import { auditEverything } from '#domain/audit/audit.ts'
import { disputeDisagreements } from './dispute-invariants.ts'
import { payoutDisagreements } from './payout-invariants.ts'
import { findOurTopUps, topUpDisagreements } from './top-up-effects.ts'
import type { World } from './world.ts'

/** The parts of a deployment that the checks read, whether its processes run in this process or in others. */
export type Books = Pick<World, 'sql' | 'provider'>

const TIMEOUT_MS = 100_000

/** Returns the contradictions that remain after the processor's notifications have arrived. */
export async function findRemainingProblems(world: Books): Promise<Problem[]> {
  const until = performance.now() + TIMEOUT_MS
  for (;;) {
    const problems = await findProblems(world)
    if (problems.length === 0 || performance.now() > until) return problems
    await sleep(50)
  }
}

/** The problem that is found if a payment at the processor has no row. */
export const EFFECT_WITHOUT_PAYMENT = 'an effect of an unknown payment'

export type Problem = { problem: string; [fact: string]: unknown }

/** The workers of a test claim due jobs within seconds. */
const STUCK_AFTER_S = 30

/** The current contradictions. Work in progress may cause contradictions until the work is done. */
async function findProblems(world: Books): Promise<Problem[]> {
  const [report, processor, payouts, disputes] = await Promise.all([
    auditEverything(world.sql, { stuck_after_s: STUCK_AFTER_S }),
    paymentDisagreements(world),
    payoutDisagreements(world),
    disputeDisagreements(world),
  ])
  const unfinished = report.checks
    .filter((each) => each.unfinished)
    .map(({ check }) => ({ problem: 'a check did not finish', check }))
  return [...report.problems, ...unfinished, ...processor, ...payouts, ...disputes]
}

type Effect = {
  effect: string
  /** Only effects on payments and refunds have this field. */
  payment_intent?: string
  refund?: string
  topup?: string
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

/** Compares Sluice's payments and refunds with the processor's record: same count, same amounts, no duplicates. */
async function paymentDisagreements({ sql, provider }: Books): Promise<Problem[]> {
  // Sluice's rows are read first: a change at the processor after that is an update, not a contradiction.
  const payments = await sql<OurPayment[]>`
    select p.id, p.status, p.currency, p.processor_reference, p.amount_captured_minor, p.authorized_at, p.canceled_at,
      exists (select from jobs j where j.tenant_id = p.tenant_id and j.resource_id = p.id and j.finished_at is null) as open
    from payments p`
  const refunds = await sql<OurRefund[]>`
    select r.id, r.status, r.amount_minor, r.currency, r.processor_reference,
      exists (select from ledger_transfers t where t.tenant_id = r.tenant_id and t.subject_id = r.id and t.kind = 'refund_failed') as returned,
      exists (select from jobs j where j.tenant_id = r.tenant_id and j.resource_id = r.payment_id and j.finished_at is null) as open
    from refunds r`
  const top_ups = await findOurTopUps(sql)
  const all: Effect[] = await provider('stripe').effects()
  // Effects without a payment intent are payouts, transfers and top-ups.
  const effects = all.filter(({ payment_intent }) => payment_intent !== undefined)
  const problems: Problem[] = []
  const report = (problem: string, facts: object) => problems.push({ problem, ...facts })

  const of = Map.groupBy(effects, ({ payment_intent }) => payment_intent)
  const ofRefund = Map.groupBy(
    effects.filter(({ refund }) => refund !== undefined),
    ({ refund }) => refund!,
  )
  const authorized = new Set<string>()
  for (const { effect, metadata, payment_intent } of effects) {
    const ours = metadata['sluice_payment_id']
    if (effect !== 'authorize' || ours === undefined) continue
    if (authorized.has(ours)) report('a payment was authorized twice', { payment_intent, ours })
    authorized.add(ours)
  }
  const refunded = new Set<string>()
  for (const { effect, metadata, refund } of effects) {
    const ours = metadata['sluice_refund_id']
    if (effect !== 'refund' || ours === undefined) continue
    if (refunded.has(ours)) report('a refund was made twice', { refund, ours })
    refunded.add(ours)
  }

  for (const payment of payments) {
    const { id, status, processor_reference } = payment
    const theirs = processor_reference === null ? [] : (of.get(processor_reference) ?? [])
    const count = (effect: string) => theirs.filter((each) => each.effect === effect).length
    for (const effect of ['authorize', 'capture', 'cancel'])
      if (count(effect) > 1) report(`${effect} took effect twice`, { id, status, processor_reference })
    if (payment.open) continue
    const capture = theirs.find(({ effect }) => effect === 'capture')
    if ((capture?.amount ?? 0) !== payment.amount_captured_minor)
      report('the captured amount differs', {
        id,
        status,
        ours: payment.amount_captured_minor,
        theirs: capture?.amount,
      })
    if (capture !== undefined && capture.currency.toUpperCase() !== payment.currency)
      report('the currency differs', { id, ours: payment.currency, theirs: capture.currency })
    if ((payment.authorized_at !== null) !== (count('authorize') === 1))
      report('the authorization differs', { id, status, theirs: count('authorize') })
    if ((payment.canceled_at !== null && payment.authorized_at !== null) !== (count('cancel') === 1))
      report('the cancellation differs', { id, status, theirs: count('cancel') })
    if (authorized.has(id) && status === 'failed') report('a failed payment has an authorization', { id })
  }

  for (const refund of refunds) {
    const { id, status, processor_reference } = refund
    const theirs = processor_reference === null ? [] : (ofRefund.get(processor_reference) ?? [])
    const created = theirs.filter(({ effect }) => effect === 'refund')
    const failed = theirs.filter(({ effect }) => effect === 'refund_failed')
    if (created.length > 1 || failed.length > 1) report('a refund took effect twice', { id, status })
    if (refund.open) continue
    if (created.length === 0 && (status !== 'failed' || refunded.has(id)))
      report('a refund differs', { id, status, processor_reference, created: refunded.has(id) })
    if (created.some(({ amount }) => amount !== refund.amount_minor))
      report('a refunded amount differs', { id, ours: refund.amount_minor, theirs: created })
    if (created.some(({ currency }) => currency.toUpperCase() !== refund.currency))
      report('the currency of a refund differs', { id, ours: refund.currency })
    if (created.length > 0 && (status === 'failed') !== (failed.length === 1))
      report('a failed refund differs', { id, status, theirs: failed.length })
  }

  const references = new Set(payments.map(({ processor_reference }) => processor_reference))
  const ids = new Set(payments.map(({ id }) => id))
  for (const { effect, payment_intent, metadata } of effects) {
    // Ignores effects of another application on the same account.
    if (metadata['application'] === 'another') continue
    if (!references.has(payment_intent!) && !ids.has(metadata['sluice_payment_id'] ?? ''))
      report(EFFECT_WITHOUT_PAYMENT, { effect, payment_intent })
  }
  const our_references = new Set(refunds.map(({ processor_reference }) => processor_reference))
  const ourRefunds = new Set(refunds.map(({ id }) => id))
  for (const [refund, [first]] of ofRefund)
    if (
      first!.metadata['application'] !== 'another' &&
      !our_references.has(refund) &&
      !ourRefunds.has(first!.metadata['sluice_refund_id'] ?? '')
    )
      report('an effect of an unknown refund', { refund, payment_intent: first!.payment_intent })
  return [...problems, ...topUpDisagreements(top_ups, all)]
}

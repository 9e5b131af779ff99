// A provider that stores an error for every call of an outage: each call ends by itself, once.
import type { Problem } from '#test/invariants.ts'
import { until } from '#test/process.ts'
import type { Random } from '../random.ts'
import type { System } from '../system.ts'
import { askPayment, askRefund, captured } from './ask.ts'
import type { Fault } from './fault.ts'

const OF_EACH = [0, 1, 2]
/** Longer than any absence must last. */
const LATER = '11 minutes'

export const REFUSAL_FAULTS: Fault[] = [
  {
    name: 'provider-refuses-2m',
    about:
      'the processor stores an error for each call of an outage, and minutes pass: each call ends by itself, once',
    takes_ms: 9000,
    bar_ms: 10_000,
    inflict: refuse,
  },
]

async function refuse(system: System, random: Random): Promise<Problem[]> {
  const { provider, sql, tenant_id } = system
  const stripe = provider('stripe')
  const label = `refused-${random.between(0, 1e9)}`
  const paid = await Promise.all(OF_EACH.map((nth) => captured(system, `${label}-paid-${nth}`)))
  const named = [`description=${label}`, ...paid.map((each) => `payment_intent=${each.processor_reference}`)]
  const faults = await Promise.all(
    named.map((contains) =>
      stripe.fault({ match: { method: 'POST', contains }, probability: 1, fault: 'error_500_before' }),
    ),
  )
  const asked: { key: string; effect: string; metadata: string; id: string }[] = []
  let jobs: string[] = []
  try {
    for (const nth of OF_EACH) {
      const hold = `${label}-hold-${nth}`
      const back = `${label}-back-${nth}`
      const { id } = await askPayment(system, hold)
      asked.push({ key: hold, effect: 'authorize', metadata: 'sluice_payment_id', id })
      const refund = await askRefund(system, paid[nth]!.id, back)
      asked.push({ key: back, effect: 'refund', metadata: 'sluice_refund_id', id: refund.id })
    }
    const found = await sql<{ job_id: string }[]>`
      select job_id from idempotency_keys
      where tenant_id = ${tenant_id} and key = any(${asked.map(({ key }) => key)}::text[])`
    jobs = found.map(({ job_id }) => job_id)
    // A few have taken effect all the same, when an answer of theirs was lost.
    await until('the effect of each is unknown', async () => {
      const unknown = await sql`
        select from jobs where id = any(${jobs}::uuid[]) and (state = 'unknown' or finished_at is not null)`
      return unknown.length === asked.length
    })
  } finally {
    await Promise.all(faults.map((each) => each.remove()))
  }
  const ended = await until('each came to an end', async () => {
    await sql`
      update jobs set first_sent_at = first_sent_at - ${LATER}::interval, last_sent_at = last_sent_at - ${LATER}::interval,
        absent_since = absent_since - ${LATER}::interval, created_at = created_at - ${LATER}::interval,
        run_at = now(), rung_at = null
      where id = any(${jobs}::uuid[]) and state = 'unknown' and run_at > now()`
    const over = await sql<{ id: string; name: string; state: string }[]>`
      select id, name, state from jobs where id = any(${jobs}::uuid[]) and finished_at is not null`
    return over.length === asked.length && over
  })
  const problems: Problem[] = ended
    .filter(({ state }) => state !== 'succeeded')
    .map((job) => ({ problem: 'a call that never took effect was given up', ...job }))
  for (const { effect, metadata, id } of asked) {
    const effects = await stripe.effects({ effect, [`metadata[${metadata}]`]: id })
    if (effects.length !== 1) problems.push({ problem: 'a refused call happened', times: effects.length, id })
  }
  return problems
}

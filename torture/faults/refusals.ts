// A fault in which the provider stores an error for each call. Each call must still succeed, exactly once.
import type { Problem } from '#test/invariants.ts'
import { until } from '#test/process.ts'
import type { Random } from '../random.ts'
import type { System } from '../system.ts'
import { requestPayment, requestRefund, capturePayment } from './requests.ts'
import type { Fault } from './fault.ts'

const INDEXES = [0, 1, 2]
/** A call is repeated after lookups have found no effect of it for some minutes. This interval is longer. */
const ABSENCE_INTERVAL = '11 minutes'

export const REFUSAL_FAULTS: Fault[] = [
  {
    name: 'provider-refuses-2m',
    about:
      'the processor stores an error for each call of an outage: each call still takes effect once, minutes later',
    duration_ms: 9000,
    recovery_limit_ms: 10_000,
    inflict: refuse,
  },
]

async function refuse(system: System, random: Random): Promise<Problem[]> {
  const { provider, sql, tenant_id } = system
  const stripe = provider('stripe')
  const label = `refused-${random.between(0, 1e9)}`
  const paid = await Promise.all(INDEXES.map((nth) => capturePayment(system, `${label}-paid-${nth}`)))
  const matches = [
    `description=${label}`,
    ...paid.map((each) => `payment_intent=${each.processor_reference}`),
  ]
  const faults = await Promise.all(
    matches.map((contains) =>
      stripe.fault({ match: { method: 'POST', contains }, probability: 1, fault: 'error_500_before' }),
    ),
  )
  const calls: { key: string; effect: string; metadata: string; id: string }[] = []
  let jobs: string[] = []
  try {
    for (const nth of INDEXES) {
      const payment_key = `${label}-hold-${nth}`
      const refund_key = `${label}-back-${nth}`
      const { id } = await requestPayment(system, payment_key)
      calls.push({ key: payment_key, effect: 'authorize', metadata: 'sluice_payment_id', id })
      const refund = await requestRefund(system, paid[nth]!.id, refund_key)
      calls.push({ key: refund_key, effect: 'refund', metadata: 'sluice_refund_id', id: refund.id })
    }
    const found = await sql<{ job_id: string }[]>`
      select job_id from idempotency_keys
      where tenant_id = ${tenant_id} and key = any(${calls.map(({ key }) => key)}::text[])`
    jobs = found.map(({ job_id }) => job_id)
    // Some calls have taken effect in an earlier attempt whose answer was lost. Their jobs succeed.
    await until('the outcome of each call is unknown', async () => {
      const unknown = await sql`
        select from jobs where id = any(${jobs}::uuid[]) and (state = 'unknown' or finished_at is not null)`
      return unknown.length === calls.length
    })
  } finally {
    await Promise.all(faults.map((each) => each.remove()))
  }
  const ended = await until('each job is final', async () => {
    await sql`
      update jobs set first_sent_at = first_sent_at - ${ABSENCE_INTERVAL}::interval, last_sent_at = last_sent_at - ${ABSENCE_INTERVAL}::interval,
        absent_since = absent_since - ${ABSENCE_INTERVAL}::interval, created_at = created_at - ${ABSENCE_INTERVAL}::interval,
        run_at = now(), wakeup_sent_at = null
      where id = any(${jobs}::uuid[]) and state = 'unknown' and run_at > now()`
    const final = await sql<{ id: string; name: string; state: string }[]>`
      select id, name, state from jobs where id = any(${jobs}::uuid[]) and finished_at is not null`
    return final.length === calls.length && final
  })
  const problems: Problem[] = ended
    .filter(({ state }) => state !== 'succeeded')
    .map((job) => ({ problem: 'a call without an effect has failed', ...job }))
  for (const { effect, metadata, id } of calls) {
    const effects = await stripe.effects({ effect, [`metadata[${metadata}]`]: id })
    if (effects.length !== 1)
      problems.push({ problem: 'a refused call did not take effect exactly once', times: effects.length, id })
  }
  return problems
}

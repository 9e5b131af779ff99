// Faults that reach the limits of retries: used-up attempts, a day of refused credentials, notifications of another
// application.
import type { Problem } from '#test/invariants.ts'
import { until } from '#test/process.ts'
import { withPromptNotifications } from '../notifications.ts'
import type { Random } from '../random.ts'
import type { System } from '../system.ts'
import {
  requestCapture,
  requestPayment,
  requestRefund,
  authorizePayment,
  capturePayment,
} from './requests.ts'
import type { Fault } from './fault.ts'

const FAILURES = ['drop_before', 'drop_after', 'html_503', 'rate_limited_429']
/** The jobs make at least this many attempts more than their `max_attempts`. */
const EXTRA_ATTEMPTS = 2
const FOREIGN_PAYMENTS = 20
/** Maximum number of lookups per object. One shows that it belongs to another application; one more is allowed. */
const MAX_LOOKUPS = 2

export const OUTAGE_FAULTS: Fault[] = [
  {
    name: 'credentials-refused-a-day',
    about: 'the processor refuses our credentials for a day: calls that were never sent are sent afterwards',
    duration_ms: 8000,
    recovery_limit_ms: 10_000,
    inflict: refuseCredentials,
  },
  {
    name: 'last-attempt',
    about:
      'the processor fails until after the last attempts of jobs: their keys are valid, so they are retried',
    duration_ms: 8000,
    recovery_limit_ms: 10_000,
    inflict: exhaustAttempts,
  },
  {
    name: 'foreign-events',
    about: "another application's payments and refunds on the same account: ignored after few lookups",
    duration_ms: 6000,
    recovery_limit_ms: 6000,
    inflict: (system) => withPromptNotifications(system, () => sendForeignEvents(system)),
  },
]

async function refuseCredentials(system: System, random: Random): Promise<Problem[]> {
  return await duringFailure(system, random, {
    label: 'refused',
    match: { path: '^/v1/' },
    fault: 'refuse_401',
    async during(jobs) {
      // Calls that were slow or lost their answer before the fault may have been performed: such calls are not
      // refused.
      await until('each call was refused', async () => {
        const refused = await system.sql`
          select from jobs j where j.id = any(${jobs}::uuid[]) and (j.finished_at is not null or exists (
            select from job_attempts a where a.job_id = j.id and a.outcome = 'misconfigured'))`
        return refused.length === jobs.length
      })
      await system.sql`
        update jobs j set created_at = created_at - interval '1 day', first_sent_at = first_sent_at - interval '1 day',
          last_sent_at = last_sent_at - interval '1 day'
        where id = any(${jobs}::uuid[]) and not exists (
          select from job_attempts a where a.job_id = j.id and a.outcome is distinct from 'misconfigured')`
    },
  })
}

async function exhaustAttempts(system: System, random: Random): Promise<Problem[]> {
  const { sql } = system
  return await duringFailure(system, random, {
    label: 'last-attempt',
    match: { method: 'POST', path: '^/v1/' },
    fault: random.pick(FAILURES),
    async during(jobs) {
      const exhausted_jobs = new Set<string>()
      await until('each job has failed after its last attempt', async () => {
        const now = await sql<{ id: string; exhausted: boolean }[]>`
          update jobs set run_at = now(), wakeup_sent_at = null,
            attempt = case when id = any(${[...exhausted_jobs]}::uuid[]) then attempt else max_attempts - 1 end
          where id = any(${jobs}::uuid[]) and state = 'ready' and attempt > 0
          returning id, attempt >= max_attempts + ${EXTRA_ATTEMPTS} as exhausted`
        for (const { id } of now) exhausted_jobs.add(id)
        const final_jobs = await sql`
          select from jobs where id = any(${jobs}::uuid[]) and (finished_at is not null or state = 'unknown')`
        return (
          final_jobs.length > 0 || (now.length === jobs.length && now.every(({ exhausted }) => exhausted))
        )
      })
    },
  })
}

/**
 * Requests an authorization, a capture and a refund while the processor fails. After the failure each must succeed
 * without another request.
 */
async function duringFailure(
  system: System,
  random: Random,
  failure: { label: string; match: object; fault: string; during: (jobs: string[]) => Promise<void> },
): Promise<Problem[]> {
  const { sql, provider, tenant_id } = system
  const label = `${failure.label}-${random.between(0, 1e9)}`
  const authorized = await authorizePayment(system, `${label}-held`)
  const paid = await capturePayment(system, `${label}-paid`)
  const failing = await provider('stripe').fault({
    match: failure.match,
    probability: 1,
    fault: failure.fault,
  })
  let jobs: string[] = []
  try {
    await requestCapture(system, authorized.id, `${label}-capture`)
    await requestRefund(system, paid.id, `${label}-refund`)
    await requestPayment(system, label)
    const keys = [`${label}-capture`, `${label}-refund`, label]
    const rows = await sql<{ job_id: string }[]>`
      select job_id from idempotency_keys where tenant_id = ${tenant_id} and key = any(${keys}::text[])`
    jobs = rows.map(({ job_id }) => job_id)
    await failure.during(jobs)
  } finally {
    await failing.remove()
  }
  const final_jobs = await until('each job is final', async () => {
    await sql`update jobs set run_at = now(), wakeup_sent_at = null where id = any(${jobs}::uuid[]) and state = 'ready'`
    const states = await sql<{ id: string; name: string; state: string }[]>`
      select id, name, state from jobs where id = any(${jobs}::uuid[]) and (finished_at is not null or state = 'unknown')`
    return states.length === jobs.length && states
  })
  return final_jobs
    .filter(({ state }) => state !== 'succeeded')
    .map((job) => ({ problem: 'a job with a valid key has failed', ...job }))
}

/** The metadata marks the objects for the comparison with the processor's record. */
async function sendForeignEvents(system: System): Promise<Problem[]> {
  const { sql, provider, asAnotherApplication } = system
  const mark = { 'metadata[application]': 'another' }
  const payment = {
    ...mark,
    amount: '1200',
    currency: 'usd',
    confirm: 'true',
    payment_method: 'pm_card_visa',
    'allowed_payment_method_types[]': 'card',
  }
  const objects = await Promise.all(
    Array.from({ length: FOREIGN_PAYMENTS }, async () => {
      const { id } = await asAnotherApplication('/v1/payment_intents', payment)
      const refund = await asAnotherApplication('/v1/refunds', { ...mark, payment_intent: id, amount: '200' })
      return [id, refund.id]
    }),
  )
  const ids = objects.flat()
  await until('all notifications have arrived', async () => {
    const arrived =
      await sql`select distinct object_id from notifications where object_id = any(${ids}::text[])`
    return arrived.length === ids.length
  })
  await until('all notifications are ignored', async () => {
    // Ages the notifications by a day, because the objects that they wait for are never created here.
    await sql`
      with mine as (
        select n.id from notifications n where n.object_id = any(${ids}::text[]) and n.state <> 'ignored' order by n.id for update skip locked
      )
      update notifications n set received_at = received_at - interval '1 day', parked_at = parked_at - interval '1 day'
      from mine where n.id = mine.id`
    await sql`
      with mine as (
        select j.id from jobs j join notifications n on n.id = j.id
        where n.object_id = any(${ids}::text[]) and j.state = 'ready' order by j.id for update of j skip locked
      )
      update jobs j set run_at = now(), wakeup_sent_at = null, created_at = created_at - interval '1 day' from mine where j.id = mine.id`
    const open = await sql`
      select from notifications where object_id = any(${ids}::text[]) and state <> 'ignored'`
    return open.length === 0
  })
  const requests: { path: string }[] = await provider('stripe').requests({ method: 'GET' })
  return ids.flatMap((id) => {
    const lookups = requests.filter(({ path }) => path.includes(id)).length
    return lookups > MAX_LOOKUPS
      ? [{ problem: "another application's object was looked up repeatedly", id, lookups }]
      : []
  })
}

// Observes one capture: blocks it at the processor and reads its job and attempts.
import { freshKey, type Answer } from './client.ts'
import type { CapturedPayment } from './load.ts'
import type { Deployment } from './deployment.ts'
import { authorizedPayment } from './payments.ts'
import type { Fault } from './providers.ts'

export type Authorized = CapturedPayment & { reference: string }

/** Creates an authorized payment. */
export async function authorize({ client }: Deployment): Promise<Authorized> {
  const [key, amount_minor] = [freshKey(), 1200]
  const authorized = await authorizedPayment(client, { idempotency_key: key, amount_minor })
  return {
    key,
    payment_id: authorized.id,
    amount_minor,
    reference: authorized.processor_reference,
    answers: [],
  }
}

/** Requests the capture. Each call uses the same idempotency key. */
export async function capture(
  { client }: Deployment,
  { payment_id, key }: Authorized,
  prefer = 'wait=30',
): Promise<Answer> {
  const body = { idempotency_key: `${key}-capture` }
  return await client.post(`/v1/payments/${payment_id}/capture`, body, { prefer })
}

/** Blocks the next captures of this payment at the processor, before or after the effect. */
export async function blockCaptures(
  { provider }: Deployment,
  { reference }: Authorized,
  when: 'before' | 'after',
  times = 1,
): Promise<Fault> {
  const match = { method: 'POST', path: `^/v1/payment_intents/${reference}/capture$` }
  return await provider('stripe').fault({ match, times, fault: { hold: when } })
}

/** Reads the job of the capture. */
export async function captureJob(
  { sql }: Deployment,
  { payment_id }: Authorized,
): Promise<{ id: string; state: string; attempt: number; lapsed: boolean | null }> {
  const [job] = await sql<{ id: string; state: string; attempt: number; lapsed: boolean | null }[]>`
    select id, state, attempt, lease_until <= now() as lapsed
    from jobs where resource_id = ${payment_id} and name = 'payment.capture'`
  return job!
}

/** Expires the lease of a worker that has died. */
export async function expireLease({ sql }: Deployment, { payment_id }: Authorized): Promise<void> {
  await sql`
    update jobs set lease_until = now() - interval '2 seconds'
    where resource_id = ${payment_id} and name = 'payment.capture' and state = 'running'`
}

/**
 * The worker and the outcome of each attempt at the capture; null: no outcome was recorded. Omits attempts after
 * which the worker returned the job to the queue without a call.
 */
export async function captureAttempts(
  { sql }: Deployment,
  { payment_id }: Authorized,
): Promise<{ worker: string; outcome: string | null }[]> {
  return await sql<{ worker: string; outcome: string | null }[]>`
    select a.worker, a.outcome from all_job_attempts a join jobs j on j.id = a.job_id
    where j.resource_id = ${payment_id} and j.name = 'payment.capture' and a.outcome is distinct from 'returned'
    order by a.attempt`
}

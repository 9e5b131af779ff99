// Observes one capture: holds it at the processor, and reads its job and attempts.
import { freshKey, type Answer } from './client.ts'
import type { CapturedPayment } from './load.ts'
import type { Deployment } from './deployment.ts'
import { heldPayment } from './payments.ts'
import type { Fault } from './providers.ts'

export type Authorized = CapturedPayment & { reference: string }

/** A payment that waits to be captured. */
export async function authorize({ client }: Deployment): Promise<Authorized> {
  const [key, amount_minor] = [freshKey(), 1200]
  const held = await heldPayment(client, { idempotency_key: key, amount_minor })
  return { key, payment_id: held.id, amount_minor, reference: held.processor_reference, answers: [] }
}

/** Asks for the capture, under the same key each time. */
export async function capture(
  { client }: Deployment,
  { payment_id, key }: Authorized,
  prefer = 'wait=30',
): Promise<Answer> {
  const body = { idempotency_key: `${key}-capture` }
  return await client.post(`/v1/payments/${payment_id}/capture`, body, { prefer })
}

/** The processor keeps the next captures of this payment waiting, before or after the effect. */
export async function holdCaptures(
  { provider }: Deployment,
  { reference }: Authorized,
  when: 'before' | 'after',
  times = 1,
): Promise<Fault> {
  const match = { method: 'POST', path: `^/v1/payment_intents/${reference}/capture$` }
  return await provider('stripe').fault({ match, times, fault: { hold: when } })
}

/** The job of the capture, as it stands. */
export async function captureJob(
  { sql }: Deployment,
  { payment_id }: Authorized,
): Promise<{ id: string; state: string; attempt: number; lapsed: boolean | null }> {
  const [job] = await sql<{ id: string; state: string; attempt: number; lapsed: boolean | null }[]>`
    select id, state, attempt, lease_until <= now() as lapsed
    from jobs where subject_id = ${payment_id} and name = 'payment.capture'`
  return job!
}

/** The lease of a worker that is gone lapses now. */
export async function lapse({ sql }: Deployment, { payment_id }: Authorized): Promise<void> {
  await sql`
    update jobs set lease_until = now() - interval '2 seconds'
    where subject_id = ${payment_id} and name = 'payment.capture' and state = 'running'`
}

/**
 * Of each attempt at the capture, whose it was and what came of it; null: nobody knows. Without those given back untried,
 * as a busy machine's are.
 */
export async function captureAttempts(
  { sql }: Deployment,
  { payment_id }: Authorized,
): Promise<{ worker: string; outcome: string | null }[]> {
  return await sql<{ worker: string; outcome: string | null }[]>`
    select a.worker, a.outcome from all_job_attempts a join jobs j on j.id = a.job_id
    where j.subject_id = ${payment_id} and j.name = 'payment.capture' and a.outcome is distinct from 'returned'
    order by a.attempt`
}

// Payments as stories need them: created, held, captured, refunded; and waiting for what happens by itself.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { findRowSnapshot, openDrift } from '#domain/reconciliation/drift.ts'
import { BY_CARD, freshKey, type Answer, type Client } from './client.ts'
import { pauses } from './process.ts'
import type { Fault } from './providers.ts'
import type { World } from './world.ts'

/** Waits until `check` throws no longer, and answers what it answers. */
export async function eventually<T>(check: () => Promise<T>, timeout_ms = 40_000): Promise<T> {
  const deadline = performance.now() + timeout_ms
  let last: unknown
  for (const pause_ms of pauses()) {
    try {
      return await check()
    } catch (error) {
      last = error
    }
    if (performance.now() > deadline) break
    await sleep(pause_ms)
  }
  throw last
}

export const ASYNC = { prefer: 'respond-async' }

/** Asks for a payment of 1000 USD by a card that is accepted, unless told otherwise. */
export async function createPayment(
  client: Client,
  body: Record<string, unknown> = {},
  headers?: Record<string, string>,
): Promise<Answer> {
  return await client.post(
    '/v1/payments',
    { ...BY_CARD, amount_minor: 1000, idempotency_key: freshKey(), ...body },
    headers,
  )
}

/** A payment whose amount is held. */
export async function heldPayment(client: Client, body: Record<string, unknown> = {}): Promise<any> {
  const answer = await createPayment(client, body)
  expect(answer.body).toMatchObject({ status: 'authorized' })
  return answer.body
}

/** A payment that was captured in full. */
export async function capturedPayment(client: Client, body: Record<string, unknown> = {}): Promise<any> {
  const { id } = await heldPayment(client, body)
  const answer = await client.post(`/v1/payments/${id}/capture`)
  expect(answer.body).toMatchObject({ status: 'captured' })
  return answer.body
}

/** Asks for a refund; all that is left unless `body` says how much. */
export async function refund(
  client: Client,
  payment_id: string,
  body: Record<string, unknown> = {},
  headers?: Record<string, string>,
): Promise<Answer> {
  return await client.post(
    `/v1/payments/${payment_id}/refunds`,
    { idempotency_key: freshKey(), ...body },
    headers,
  )
}

/** Waits until the payment is in `status`, and answers it. */
export async function paymentIn(
  client: Client,
  id: string,
  status: string,
  timeout_ms?: number,
): Promise<any> {
  return await eventually(async () => {
    const { body } = await client.get(`/v1/payments/${id}`)
    expect(body).toMatchObject({ status })
    return body
  }, timeout_ms)
}

/** Scripts a failure of the processor. */
export async function fault({ provider }: World, script: object): Promise<Fault> {
  return await provider('stripe').fault(script)
}

/** A refund that nobody knows about: the processor's stored answer tells nothing, and its books do not show it. */
export async function unknownRefund(world: World, amount_minor = 300) {
  const { client, sql } = world
  const payment = await capturedPayment(client)
  await fault(world, {
    match: { method: 'POST', contains: `payment_intent=${payment.processor_reference}` },
    fault: 'error_500_before',
  })
  const { body } = await refund(client, payment.id, { amount_minor }, { prefer: 'wait=30' })
  const job_id = await eventually(async () => {
    const [job] = await sql<{ id: string }[]>`
      select id from jobs where subject_id = ${payment.id} and name = 'refund.create' and state = 'unknown'`
    expect(job).toBeDefined()
    return job!.id
  })
  return { payment, refund_id: body.id as string, job_id }
}

/** The processor's own record of what moved for a payment. */
export async function effectsOf({ provider }: World, payment_intent: string): Promise<any[]> {
  return await provider('stripe').effects({ payment_intent })
}

/** A drift on record: the processor is said to have captured one less. Stays while nobody reconciles. */
export async function drift({ sql, tenant_id }: World, payment_id: string): Promise<void> {
  const found = await findRowSnapshot(sql, { tenant_id, subject: 'payment', subject_id: payment_id })
  const { ours, since } = found!
  await openDrift(
    sql,
    { tenant_id, subject: 'payment', subject_id: payment_id },
    {
      as_of: 'infinity',
      payment_id,
      state: 'differs',
      ours,
      theirs: { ...ours, amount_captured_minor: Number(ours['amount_captured_minor']) - 1 },
      detail: null,
      since,
    },
  )
}

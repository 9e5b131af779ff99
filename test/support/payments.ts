// Helpers for payments: create, authorize, capture, refund, and wait for changes.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { findRowSnapshot, openDrift } from '#domain/reconciliation/drift.ts'
import { BY_CARD, freshKey, type Answer, type Client } from './client.ts'
import { pauses } from './process.ts'
import type { Fault } from './providers.ts'
import type { World } from './world.ts'

/** Repeats `check` until it does not throw. Returns its result. */
export async function eventually<T>(check: () => Promise<T>, timeout_ms = 100_000): Promise<T> {
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

/** Creates a payment of USD 10.00 with a card that the processor accepts. `body` overrides fields. */
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

/** The payment of an answer with this status. On a busy machine, the answer may come before the job has ended. */
async function answeredPayment(client: Client, answer: Answer, status: string): Promise<any> {
  if (answer.status === 202) return await paymentIn(client, answer.body.id, status)
  expect(answer.body).toMatchObject({ status })
  return answer.body
}

/** Creates an authorized payment. */
export async function authorizedPayment(client: Client, body: Record<string, unknown> = {}): Promise<any> {
  return await answeredPayment(client, await createPayment(client, body), 'authorized')
}

/** Creates a fully captured payment. */
export async function capturedPayment(client: Client, body: Record<string, unknown> = {}): Promise<any> {
  const { id } = await authorizedPayment(client, body)
  return await answeredPayment(client, await client.post(`/v1/payments/${id}/capture`), 'captured')
}

/** Requests a refund. Default: the full amount that is not refunded yet. */
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

/** Waits until the payment has this status. Returns the payment. */
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

/** Scripts a fault of the processor. */
export async function fault({ provider }: World, script: object): Promise<Fault> {
  return await provider('stripe').fault(script)
}

/**
 * Creates a refund with an unknown outcome: the processor stores an error for the call, and the refund has no effect.
 */
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
      select id from jobs where resource_id = ${payment.id} and name = 'refund.create' and state = 'unknown'`
    expect(job).toBeDefined()
    return job!.id
  })
  return { payment, refund_id: body.id as string, job_id }
}

/** The processor's record of the payment's effects. */
export async function effectsOf({ provider }: World, payment_intent: string): Promise<any[]> {
  return await provider('stripe').effects({ payment_intent })
}

/**
 * Opens a drift of the payment, as if the processor had captured one minor unit less than Sluice has stored. The drift
 * stays open while no reconciliation runs.
 */
export async function drift({ sql, tenant_id }: World, payment_id: string): Promise<void> {
  const found = await findRowSnapshot(sql, { tenant_id, resource: 'payment', resource_id: payment_id })
  const { ours, since } = found!
  await openDrift(
    sql,
    { tenant_id, resource: 'payment', resource_id: payment_id },
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

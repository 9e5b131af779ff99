// Helpers for disputes of captured payments.
import { expect } from 'vitest'
import type { Client } from './client.ts'
import { capturedPayment, eventually } from './payments.ts'
import { listEvents } from './stripe-events.ts'
import type { World } from './world.ts'

/**
 * Creates a captured payment of 1000 with an open dispute. Returns the payment and the dispute's id at the processor.
 */
export async function disputedPayment(
  world: World,
  { client = world.client, method = 'pm_card_createDispute' }: { client?: Client; method?: string } = {},
): Promise<{ payment: any; reference: string }> {
  const payment = await capturedPayment(client, { payment_method: method })
  return { payment, reference: await disputeReferenceOf(world, payment.processor_reference) }
}

/** The id of the payment's dispute at the processor. Waits until the dispute exists. */
export async function disputeReferenceOf(world: World, payment_intent: string): Promise<string> {
  return await eventually(async () => {
    const events = await listEvents(world, payment_intent)
    const opened = events.find(({ type }) => type === 'charge.dispute.created')
    expect(opened).toBeDefined()
    return opened!.data.object.id as string
  })
}

/** Submits evidence for the dispute at the processor. */
export async function answerDispute(world: World, reference: string): Promise<void> {
  const { url, api_key } = world.provider('stripe')
  const answer = await fetch(`${url}/v1/disputes/${reference}`, {
    method: 'POST',
    body: new URLSearchParams({ 'evidence[product_description]': 'A book.' }),
    headers: { authorization: `Bearer ${api_key}` },
  })
  expect(answer.status).toBe(200)
}

/** Makes the bank decide the dispute. */
export async function closeDispute(
  world: World,
  reference: string,
  status: 'won' | 'lost' | 'warning_closed',
): Promise<void> {
  await world.provider('stripe').control('POST', `/disputes/${reference}/close`, { status })
}

/** Waits until the payment shows a dispute with this status. Returns the payment. */
export async function disputeIn(client: Client, payment_id: string, status: string): Promise<any> {
  return await eventually(async () => {
    const { body } = await client.get(`/v1/payments/${payment_id}`)
    expect(body.dispute).toMatchObject({ status })
    return body
  })
}

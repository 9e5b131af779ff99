// A tenant with a row of every resource, for tests that no other tenant reaches one.
import { expect } from 'vitest'
import { freshKey } from './client.ts'
import { disputeIn } from './disputes.ts'
import { MERCHANT, RECIPIENT } from './parties.ts'
import { drift, eventually } from './payments.ts'
import { until } from './process.ts'
import { deliveryTo } from './webhook-deliveries.ts'
import type { World } from './world.ts'

/**
 * Creates a row of every resource of the world's first tenant. Returns an id of each, by the last segment of the path
 * before the id.
 */
export async function createEveryResource(world: World): Promise<Record<string, string>> {
  const customer = await create(world, '/v1/customers', {
    name: 'Ada',
    email: 'ada@example.com',
    external_id: 'x-1',
  })
  const recipient = await create(world, '/v1/recipients', { ...RECIPIENT, email: 'ada@example.com' })
  const merchant = await create(world, '/v1/merchants', MERCHANT)
  const payment = await create(world, '/v1/payments', {
    amount_minor: 1000,
    currency: 'USD',
    method: 'card',
    // The processor opens an inquiry after the capture.
    payment_method: 'pm_card_createDisputeInquiry',
    customer_id: customer.id,
    merchant_id: merchant.id,
    metadata: { order: 'A-17' },
  })
  await world.client.post(`/v1/payments/${payment.id}/capture`)
  const refund = await create(world, `/v1/payments/${payment.id}/refunds`, { amount_minor: 100 })
  const disputed = await disputeIn(world.client, payment.id, 'warning')
  const payout = await create(world, '/v1/payouts', {
    amount_minor: 100,
    currency: 'usd',
    recipient_id: recipient.id,
  })
  const verification = await create(world, '/v1/compliance/kyc', {
    subject_type: 'customer',
    subject_id: customer.id,
  })
  const top_up = await create(world, '/v1/wallet/top_ups', { amount_minor: 1000, currency: 'usd' })
  await drift(world, payment.id)
  const template = await create(world, '/v1/messages/templates', {
    name: 'greeting',
    channel: 'sms',
    body: 'Hello',
  })
  const suppressed = { channel: 'email', address: 'grace@example.com' }
  const suppression = await create(world, '/v1/messages/suppressions', suppressed)
  const endpoint = await create(world, '/v1/webhook_endpoints', {
    url: 'https://shop.example/webhooks',
    types: ['payout.canceled'],
  })
  const delivery = await deliveryTo(world.sql, endpoint, { status: 'delivered' })
  const recovery = (
    await world.client.post(`/v1/webhook_endpoints/${endpoint.id}/recover`, { since: '2026-01-01T00:00:00Z' })
  ).body
  const recoveryStatus = async () =>
    (await world.client.get(`/v1/webhook_recoveries/${recovery.id}`)).body.status
  await until('the recovery is completed', async () => (await recoveryStatus()) === 'completed')
  const [event] = (await world.client.get(`/v1/payments/${payment.id}/events`)).body
  const task = await create(world, '/v1/ai/tasks', { kind: 'generate', input: { prompt: 'A haiku.' } })
  const message = await create(world, '/v1/messages/email', {
    to: ['ada@example.com'],
    subject: 'Shipped',
    text: 'It is on its way.',
    tags: ['shipping'],
    send_at: new Date(Date.now() + 86_400_000),
  })
  const owned: Record<string, string> = {
    tasks: task.id,
    messages: message.id,
    events: event.id,
    webhook_endpoints: endpoint.id,
    webhook_deliveries: delivery.id,
    webhook_recoveries: recovery.id,
    templates: template.id,
    suppressions: suppression.id,
    customers: customer.id,
    recipients: recipient.id,
    merchants: merchant.id,
    payments: payment.id,
    refunds: refund.id,
    payouts: payout.id,
    kyc: verification.id,
    top_ups: top_up.id,
    disputes: disputed.dispute.id,
    idempotency_keys: customer.idempotency_key,
  }
  await world.drain()
  await eventually(async () => {
    const { body } = await world.client.get(`/v1/wallet/top_ups/${top_up.id}`)
    if (body.status !== 'succeeded') throw new Error('the top-up has not succeeded yet')
  })
  await world.drain()
  return owned
}

async function create(world: World, path: string, body: object): Promise<any> {
  const response = await world.client.post(path, { ...body, idempotency_key: freshKey() })
  expect(response.status).toBe(201)
  return response.body
}

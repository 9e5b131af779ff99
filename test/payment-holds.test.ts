// Tests that an authorization hold causes a warning a day before it expires, and is canceled after it has expired.
import { expect, onTestFinished } from 'vitest'
import { findExpiredHolds, warnOfExpiry } from '#domain/payments/expiry.ts'
import { findRemainingProblems } from '#test/invariants.ts'
import {
  capturedPayment,
  createPayment,
  effectsOf,
  eventually,
  authorizedPayment,
  paymentIn,
} from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn()

/** Sets the expiry of a payment's hold to `hours` from now. The hold at the processor is unchanged. */
async function setHoldExpiry(world: World, id: string, hours: number): Promise<void> {
  await world.sql`
    update payments set capture_before = now() + ${hours} * interval '1 hour' where tenant_id = ${world.tenant_id} and id = ${id}`
}

async function eventsOf(world: World, id: string, type: string): Promise<any[]> {
  const rows = await world.sql`select data from events where subject_id = ${id} and type = ${type}`
  return rows.map(({ data }) => data)
}

test('payments with a hold are listed by the time at which the hold expires', async ({ world }) => {
  const shop = await world.clientOf()
  const payments = [await authorizedPayment(shop), await authorizedPayment(shop), await capturedPayment(shop)]
  await createPayment(shop, { payment_method: 'pm_card_threeDSecure2Required' })
  for (const [nth, { id }] of payments.entries())
    await world.sql`
      update payments set capture_before = now() + ${12 + 24 * (nth % 2)} * interval '1 hour'
      where tenant_id = ${shop.tenant_id} and id = ${id}`
  const before = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString()
  const listed = async (query: string) =>
    (await shop.get(`/v1/payments?${query}`)).body.map(({ id }: { id: string }) => id)
  expect(await listed(`capture_before_to=${before(24)}`)).toEqual([payments[0].id])
  expect(await listed(`capture_before_to=${before(48)}&status=authorized`)).toEqual([
    payments[1].id,
    payments[0].id,
  ])
  expect(await listed(`capture_before_to=${before(48)}&status=captured`)).toEqual([])
})

test('the warning event a day before a hold expires is written once, even by concurrent workers', async ({
  world,
  client,
}) => {
  const soon = await authorizedPayment(client)
  const later = await authorizedPayment(client)
  const captured = await capturedPayment(client)
  await setHoldExpiry(world, soon.id, 12)
  await setHoldExpiry(world, later.id, 25)
  await setHoldExpiry(world, captured.id, 12)
  await Promise.all(Array.from({ length: 8 }, () => warnOfExpiry(world.sql, 100)))
  expect(await warnOfExpiry(world.sql, 100)).toBe(0)
  const [warning, ...more] = await eventsOf(world, soon.id, 'payment.capture_expiring')
  expect(more).toEqual([])
  expect(warning).toMatchObject({ id: soon.id, status: 'authorized', amount_capturable_minor: 1000 })
  expect(Object.keys(warning)).not.toContain('client_secret')
  expect(await eventsOf(world, later.id, 'payment.capture_expiring')).toEqual([])
  expect(await eventsOf(world, captured.id, 'payment.capture_expiring')).toEqual([])
  expect((await client.post(`/v1/payments/${soon.id}/capture`)).body).toMatchObject({ status: 'captured' })
})

test('a worker cancels an expired hold at the processor with the reason `expired`, even while cancellations of verifications fail', async ({
  world,
  client,
}) => {
  await world.sql`alter table verifications rename cancel_requested_at to renamed_for_test`
  onTestFinished(async () => {
    await world.sql`alter table verifications rename renamed_for_test to cancel_requested_at`
  })
  const expired = await authorizedPayment(client)
  const captured = await capturedPayment(client)
  const unconfirmed = (
    await client.post('/v1/payments', {
      amount_minor: 1000,
      currency: 'USD',
      method: 'card',
      idempotency_key: 'unconfirmed',
    })
  ).body
  await setHoldExpiry(world, expired.id, -1)
  await setHoldExpiry(world, captured.id, -1)
  const canceled = await paymentIn(client, expired.id, 'canceled')
  expect(canceled).toMatchObject({ cancellation_reason: 'expired', amount_capturable_minor: 0 })
  expect((await effectsOf(world, expired.processor_reference)).map(({ effect }) => effect)).toEqual([
    'authorize',
    'cancel',
  ])
  expect(await eventsOf(world, expired.id, 'payment.canceled')).toMatchObject([
    { cancellation_reason: 'expired' },
  ])
  expect(await findExpiredHolds(world.sql, 100)).toEqual([])
  expect((await client.get(`/v1/payments/${captured.id}`)).body).toMatchObject({ status: 'captured' })
  expect((await client.get(`/v1/payments/${unconfirmed.id}`)).body).toMatchObject({
    status: 'requires_action',
  })
  const refused = await client.post(`/v1/payments/${expired.id}/capture`)
  expect([refused.status, refused.body.error.code]).toEqual([409, 'payment_not_capturable'])
})

test('a payment whose hold expires at the processor before it expires in Sluice is canceled by a notification', async ({
  world,
  client,
}) => {
  const { id, processor_reference } = await authorizedPayment(client)
  await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/expire`)
  expect(await paymentIn(client, id, 'canceled')).toMatchObject({ cancellation_reason: 'automatic' })
})

test('a payment whose hold expires on both sides at the same time is canceled once', async ({
  world,
  client,
}) => {
  const { id, processor_reference } = await authorizedPayment(client)
  await world.provider('stripe').control('POST', '/webhooks', { paused: true })
  await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/expire`)
  await setHoldExpiry(world, id, -1)
  await paymentIn(client, id, 'canceled')
  await world.provider('stripe').control('POST', '/webhooks', { paused: false })
  await eventually(async () => {
    const [applied] = await world.sql`
      select count(*) from notifications where object_id = ${processor_reference} and kind = 'payment_intent.canceled' and state = 'applied'`
    expect(applied!.count).toBe(1)
  })
  expect(await eventsOf(world, id, 'payment.canceled')).toHaveLength(1)
  expect((await effectsOf(world, processor_reference)).map(({ effect }) => effect)).toEqual([
    'authorize',
    'cancel',
  ])
})

test('after all scenarios the books balance and agree with the processor', async ({ world }) => {
  await world.drain()
  expect(await findRemainingProblems(world)).toEqual([])
})

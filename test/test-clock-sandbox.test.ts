// The test clock of a tenant whose processor is the sandbox, which follows the clock.
import { expect } from 'vitest'
import { LOOPBACK } from '#test/deliveries.ts'
import { disputeIn } from '#test/disputes.ts'
import { authorizedPayment, capturedPayment, eventually, paymentIn } from '#test/payments.ts'
import { payOut, recipient } from '#test/payouts.ts'
import { clockOf, DAY_MS, eventTypes, passDays, testTenant } from '#test/test-clocks.ts'
import { testIn } from '#test/world.ts'

const test = testIn({ env: LOOPBACK })

test('a hold is counted from the time of the clock, and ends at the processor and here, once and in order', async ({
  world,
}) => {
  const shop = await testTenant(world)
  await passDays(shop, 60)
  const { now } = await clockOf(shop)
  const held = await authorizedPayment(shop)
  const hold_ms = Date.parse(held.capture_before) - Date.parse(now)
  expect(Math.abs(hold_ms - 7 * DAY_MS)).toBeLessThan(DAY_MS / 2)
  await passDays(shop, 6.5)
  expect((await shop.get(`/v1/payments/${held.id}`)).body).toMatchObject({ status: 'authorized' })
  await passDays(shop, 1)
  expect(await paymentIn(shop, held.id, 'canceled')).toMatchObject({ cancellation_reason: 'expired' })
  await eventually(async () =>
    expect((await eventTypes(shop, [held.id])).slice(-3)).toEqual([
      ['payment.authorized', 0],
      ['payment.capture_expiring', 0],
      ['payment.canceled', 0],
    ]),
  )
  const [row] = await world.sql`
    select (select count(*)::integer from drifts where tenant_id = ${shop.tenant_id}) as drifts,
      array(select line -> 'version' ->> 'status' from sandbox_records
        where tenant_id = ${shop.tenant_id} and kind = 'version' and object = ${held.processor_reference}
        order by position desc limit 1) as statuses`
  expect(row).toEqual({ drifts: 0, statuses: ['canceled'] })
})

test('what the processor stores has the real time, and a clock waits for its notifications', async ({
  world,
}) => {
  const shop = await testTenant(world)
  await passDays(shop, 30)
  const paid = await capturedPayment(shop, { amount_minor: 5000 })
  const payout = await payOut(shop, await recipient(shop, 'ba_lateReturn'))
  await passDays(shop, 1)
  expect((await shop.get(`/v1/payouts/${payout.body.id}`)).body).toMatchObject({ status: 'failed' })
  const [created] = await world.sql<{ created_s: number }[]>`
    select (line -> 'version' ->> 'created')::float8 as created_s from sandbox_records
    where tenant_id = ${shop.tenant_id} and object = ${paid.processor_reference} and kind = 'version' limit 1`
  expect(Math.abs(created!.created_s * 1000 - Date.now())).toBeLessThan(DAY_MS)
})

test('a dispute that nobody answers is lost at its deadline', async ({ world }) => {
  const shop = await testTenant(world)
  const paid = await capturedPayment(shop, { payment_method: 'pm_card_createDispute' })
  const { dispute } = await disputeIn(shop, paid.id, 'needs_response')
  await passDays(shop, 7)
  expect((await shop.get(`/v1/disputes/${dispute.id}`)).body).toMatchObject({ status: 'needs_response' })
  await passDays(shop, 3)
  expect((await shop.get(`/v1/disputes/${dispute.id}`)).body).toMatchObject({ status: 'lost' })
  await eventually(async () =>
    expect((await eventTypes(shop, [paid.id])).slice(-2)).toEqual([
      ['payment.disputed', 0],
      ['payment.dispute_lost', 0],
    ]),
  )
})

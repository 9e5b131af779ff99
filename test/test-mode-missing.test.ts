// Changes in test mode of objects that the provider does not know any more: another account has replaced the sandbox,
// or their data was deleted.
import { expect } from 'vitest'
import { freshKey, type Client } from '#test/client.ts'
import { authorizedPayment, eventually, paymentIn } from '#test/payments.ts'
import { payOut, payoutIn, recipient } from '#test/payouts.ts'
import { topUp } from '#test/top-ups.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn({ env: { RECONCILE_EVERY_S: '3600' } })

async function loseSandbox({ sql }: World, { tenant_id }: { tenant_id: string }): Promise<void> {
  await sql`delete from sandbox_records where tenant_id = ${tenant_id}`
  await sql`
    update sandboxes set generation = generation + 1, bytes = 0, due_at = null where tenant_id = ${tenant_id}`
}

test('payments are canceled, and a capture says why', async ({ world }) => {
  const client = await world.clientOf({ tenant: 'payments', mode: 'test' })
  const [captured, canceled, expired] = [
    await authorizedPayment(client),
    await authorizedPayment(client),
    await authorizedPayment(client),
  ]
  await loseSandbox(world, client)
  const capture = await client.post(`/v1/payments/${captured.id}/capture`)
  expect([capture.status, capture.body.error]).toMatchObject([
    409,
    { code: 'payment_not_capturable', message: expect.stringContaining('does not know the payment') },
  ])
  await client.post(`/v1/payments/${canceled.id}/cancel`)
  await world.sql`update payments set capture_before = now() - interval '1 hour' where id = ${expired.id}`
  for (const { id } of [captured, canceled, expired]) await paymentIn(client, id, 'canceled')
})

test('a payout and a verification that are canceled end as canceled', async ({ world }) => {
  const client = await world.clientOf({ tenant: 'payouts', mode: 'test' })
  const { id } = (await topUp(client)).body
  await eventually(async () =>
    expect((await client.get(`/v1/wallet/top_ups/${id}`)).body).toMatchObject({ status: 'succeeded' }),
  )
  const payout = await payOut(client, await recipient(client, 'ba_pending'))
  await payoutIn(client, payout.body.id, 'processing')
  const kyc = await openVerification(client)
  await loseSandbox(world, client)
  await client.post(`/v1/payouts/${payout.body.id}/cancel`)
  await payoutIn(client, payout.body.id, 'canceled')
  await client.post(`/v1/compliance/kyc/${kyc.id}/decide`, { decision: 'rejected', reason: 'A test.' })
  await eventually(async () => {
    const [job] = await world.sql<{ state: string }[]>`
      select state from jobs where tenant_id = ${client.tenant_id} and name = 'kyc.cancel'`
    expect(job).toMatchObject({ state: 'succeeded' })
  })
})

async function openVerification(client: Client): Promise<any> {
  const customer = await client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada' })
  const created = await client.post('/v1/compliance/kyc', {
    subject_type: 'customer',
    subject_id: customer.body.id,
    idempotency_key: freshKey(),
  })
  return await eventually(async () => {
    const { body } = await client.get(`/v1/compliance/kyc/${created.body.id}`)
    expect(body.provider_reference).toMatch(/^vs_/)
    return body
  })
}

// Operators in a browser: jobs that fail, queues that are paused, deliveries that are sent again.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { BROWSER_TIMEOUT_MS, createDashboard, type Dashboard } from '#test/browser.ts'
import { LOOPBACK, makeEndpoint, openHook } from '#test/deliveries.ts'
import { ASYNC, eventually, fault, heldPayment, paymentIn } from '#test/payments.ts'
import { fund, payoutIn, payOut, recipient } from '#test/payouts.ts'

let dashboard: Dashboard
beforeAll(async () => {
  dashboard = await createDashboard({ env: LOOPBACK })
}, BROWSER_TIMEOUT_MS)
afterAll(() => dashboard?.close())

/** Opens the dialog of an act and does it, for a reason where one is asked for. */
async function perform(page: Page, button: ReturnType<Page['getByRole']>, act: string, reason?: string) {
  await button.click()
  const dialog = page.getByRole('dialog')
  if (reason !== undefined) await dialog.getByLabel('Reason').fill(reason)
  await dialog.getByRole('button', { name: act, exact: true }).click()
  await dialog.getByRole('link', { name: /audit/i }).waitFor()
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await dialog.waitFor({ state: 'hidden' })
}

test('a job that the processor turns away is seen, and goes on once it is retried', async () => {
  const { world } = dashboard
  const { client } = world
  const { id } = await heldPayment(client, { amount_minor: 1900 })
  // No key of ours is right any more: nothing but a person can mend that.
  const refusing = await fault(world, {
    match: { method: 'POST', path: '/capture$' },
    fault: 'refuse_401',
    times: 100,
  })
  expect((await client.post(`/v1/payments/${id}/capture`, {}, ASYNC)).status).toBe(202)
  await refusing.hit()
  const page = await dashboard.open('/ops/jobs?queue=payments', { as: 'operator' })
  await page.getByRole('link', { name: 'payment.capture' }).click()
  await page.getByRole('heading', { level: 1 }).filter({ hasText: 'payment.capture' }).waitFor()
  await page.getByRole('list', { name: 'Attempts' }).waitFor()
  await refusing.remove()
  await perform(
    page,
    page.getByRole('button', { name: 'Retry', exact: true }),
    'Retry',
    'The key is right again',
  )
  await paymentIn(client, id, 'captured')
  await page.getByText('It is done.').waitFor()
})

test('no payout leaves while payouts are paused, and what waits goes on after', async () => {
  const { world } = dashboard
  const { client } = world
  await fund(client, 5_000)
  const to = await recipient(client)
  const page = await dashboard.open('/ops/queues', { as: 'operator' })
  const row = page.getByRole('row').filter({ hasText: 'payouts' })
  await perform(page, row.getByRole('button', { name: 'Pause' }), 'Pause', 'The bank is closed')
  await page.getByRole('alert').filter({ hasText: 'Paused: queue payouts' }).waitFor()
  const { id } = (await payOut(client, to)).body
  // Other work goes on, and comes after it.
  const held = await heldPayment(client)
  await client.post(`/v1/payments/${held.id}/capture`)
  expect((await client.get(`/v1/payouts/${id}`)).body.status).toBe('pending')
  expect(await world.provider('stripe').requests({ method: 'POST', path: '^/v1/payouts$' })).toEqual([])
  await perform(page, row.getByRole('button', { name: 'Resume' }), 'Resume')
  await payoutIn(client, id, 'paid')
  await page.getByRole('alert').filter({ hasText: 'Paused' }).waitFor({ state: 'hidden' })
})

test('a delivery that failed is sent again by hand', async () => {
  const { client } = dashboard.world
  let well = false
  const hook = await openHook(() => (well ? 204 : 500))
  onTestFinished(() => hook.close())
  const endpoint = await makeEndpoint(client, { url: hook.url, types: ['customer.created'] })
  await client.post('/v1/customers', { idempotency_key: 'replayed', name: 'Ada' })
  await eventually(async () => expect(hook.arrived).toHaveLength(1))
  const page = await dashboard.open(`/webhooks/${endpoint.id}`, { as: 'developer' })
  await page.getByRole('link', { name: 'customer.created' }).first().click()
  await page.waitForURL('**/webhooks/deliveries/*')
  await page.getByText('Status 500').first().waitFor()
  well = true
  await perform(page, page.getByRole('button', { name: 'Replay', exact: true }), 'Replay')
  await eventually(async () => expect(hook.arrived.length).toBeGreaterThan(1))
  expect(hook.arrived.at(-1)!.headers['webhook-id']).toBe(hook.arrived[0]!.headers['webhook-id'])
  await page.getByRole('heading', { level: 1 }).filter({ hasText: 'Delivered' }).waitFor()
})

// The pages of money in a browser: what moves it, by mouse and by keyboard, and who may.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { PASSWORD } from '#test/people.ts'
import { askInPage, BROWSER_TIMEOUT_MS, createDashboard, type Dashboard } from '#test/browser.ts'
import { createPayment, effectsOf, heldPayment, paymentIn } from '#test/payments.ts'
import { getVerification, verificationOf } from '#test/verifications.ts'

let dashboard: Dashboard
beforeAll(async () => {
  dashboard = await createDashboard()
}, BROWSER_TIMEOUT_MS)
afterAll(() => dashboard?.close())

/** Opens the dialog of an act by its button on the page. */
async function ask(page: Page, button: string) {
  await page.getByRole('main').getByRole('button', { name: button, exact: true }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Back' }).waitFor()
  return dialog
}

/** The dialog says what became of the act, and where that is on record. */
async function checkOnRecord(page: Page): Promise<void> {
  const dialog = page.getByRole('dialog')
  expect(await dialog.getByRole('link', { name: /audit entry/i }).getAttribute('href')).toMatch(
    /^\/settings\/audit\?seq=\d+$/,
  )
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await dialog.waitFor({ state: 'hidden' })
}

test('a payment is found in the list, captured, and refunded in part', async () => {
  const { client } = dashboard.world
  const { id, processor_reference } = await heldPayment(client, { amount_minor: 4000 })
  const page = await dashboard.open('/payments', { as: 'support' })
  await page.getByRole('link', { name: '$40.00' }).click()
  await page.waitForURL(`**/payments/${id}`)
  await page.getByRole('heading', { level: 1, name: '$40.00 Authorized' }).waitFor()
  await page.getByRole('list', { name: 'Timeline' }).waitFor()

  const capture = await ask(page, 'Capture')
  await capture.getByRole('button', { name: 'Capture' }).click()
  await capture.getByText('$40.00 was captured').waitFor()
  await checkOnRecord(page)
  await page.getByRole('heading', { level: 1, name: '$40.00 Captured' }).waitFor()

  const refund = await ask(page, 'Refund')
  await refund.getByLabel('Amount').fill('12.00')
  await refund.getByText('$28.00 stays captured').waitFor()
  await refund.getByRole('button', { name: 'Refund' }).click()
  await checkOnRecord(page)
  expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({ amount_refunded_minor: 1200 })
  const effects = await effectsOf(dashboard.world, processor_reference)
  expect(effects.map(({ effect, amount }) => [effect, amount])).toEqual([
    ['authorize', 4000],
    ['capture', 4000],
    ['refund', 1200],
  ])
})

test('a payment is canceled once somebody is sure', async () => {
  const { client } = dashboard.world
  const { id } = await heldPayment(client, { amount_minor: 777 })
  const page = await dashboard.open(`/payments/${id}`, { as: 'owner' })
  const first = await ask(page, 'Cancel')
  await first.getByRole('button', { name: 'Back' }).click()
  await first.waitFor({ state: 'hidden' })
  expect((await client.get(`/v1/payments/${id}`)).body.status).toBe('authorized')
  const second = await ask(page, 'Cancel')
  await second.getByRole('button', { name: 'Cancel payment' }).click()
  await checkOnRecord(page)
  await paymentIn(client, id, 'canceled')
  await expect.poll(() => page.getByRole('button', { name: 'Capture' }).count()).toBe(0)
})

test('by keyboard alone: sign in, find a payment, capture it; the palette finds it by its id', async () => {
  const { client } = dashboard.world
  const other = await heldPayment(client, { amount_minor: 3100 })
  const { id } = await heldPayment(client, { amount_minor: 3200 })
  const page = await dashboard.open('/sign-in')
  const { email } = await dashboard.person('support')
  await page.getByLabel('Email').waitFor()
  await page.keyboard.press('Tab')
  await page.keyboard.type(email)
  await page.keyboard.press('Tab')
  await page.keyboard.type(PASSWORD)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.keyboard.press('g')
  await page.keyboard.press('p')
  await page.getByRole('link', { name: '$32.00' }).waitFor()
  await page.keyboard.press('j')
  await expect.poll(() => focused(page)).toContain('$32.00')
  await page.keyboard.press('j')
  await expect.poll(() => focused(page)).toContain('$31.00')
  await page.keyboard.press('k')
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/payments/${id}`)
  await page.getByRole('button', { name: 'Capture', exact: true }).waitFor()
  for (let tabs = 0; tabs < 40 && (await focused(page)) !== 'Capture'; tabs += 1)
    await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').getByLabel('Amount').waitFor()
  await expect
    .poll(() =>
      page.evaluate(() => (globalThis as any).document.activeElement.closest('[role=dialog]') !== null),
    )
    .toBe(true)
  await page.keyboard.press('Enter')
  await page.getByText('$32.00 was captured.', { exact: true }).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'hidden' })
  await paymentIn(client, id, 'captured')

  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').waitFor()
  await page.keyboard.type('no such words')
  await page.getByText('You can look for a page, an id').waitFor()
  await page.keyboard.press('Control+a')
  await page.keyboard.type(other.id)
  await page.getByRole('option').filter({ hasText: 'Payment $31.00' }).first().waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/payments/${other.id}`)
})

test('an exported file is named after its filters and the day', async () => {
  const page = await dashboard.open('/payments?status=captured&currency=USD', { as: 'support' })
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export CSV' }).click(),
  ])
  expect(file.suggestedFilename()).toMatch(/^payments-captured-USD-\d{4}-\d\d-\d\d\.csv$/)
})

test('filters are in the address: they outlive a reload, and Back undoes them', async () => {
  const { client } = dashboard.world
  await heldPayment(client, { amount_minor: 5100, currency: 'EUR' })
  await createPayment(client, { payment_method: 'pm_card_chargeDeclined' })
  const page = await dashboard.open('/payments', { as: 'read-only' })
  const held = page.getByRole('link', { name: '€51.00' })
  await held.waitFor()
  await page.getByLabel('Status', { exact: true }).selectOption('failed')
  await held.waitFor({ state: 'hidden' })
  await page.getByLabel('Status', { exact: true }).selectOption('authorized')
  await page.getByLabel('Currency', { exact: true }).selectOption('EUR')
  await page.waitForURL(/status=authorized&currency=EUR/)
  await expect.poll(() => page.getByRole('row').count()).toBe(2)
  await page.reload()
  await held.waitFor()
  expect(await page.getByLabel('Status', { exact: true }).inputValue()).toBe('authorized')
  expect(await page.getByRole('row').count()).toBe(2)
  await held.click()
  await page.getByRole('heading', { level: 1, name: '€51.00' }).waitFor()
  await page.goBack()
  await held.waitFor()
  await page.getByRole('button', { name: 'Remove filter Currency: EUR' }).click()
  await page.waitForURL((url) => url.search === '?status=authorized')
  await page.goBack()
  await page.waitForURL(/status=authorized&currency=EUR/)
})

test('a verification is decided by hand, once', async () => {
  const { client } = dashboard.world
  const { id } = await verificationOf(client)
  const page = await dashboard.open(`/compliance/${id}`, { as: 'support' })
  const dialog = await ask(page, 'Approve')
  await dialog.getByLabel('Reason').fill('Seen in person')
  await dialog.getByRole('button', { name: 'Approve' }).click()
  await checkOnRecord(page)
  expect(await getVerification(client, id)).toMatchObject({
    status: 'approved',
    decided_by: 'manual',
    decision_reason: 'Seen in person',
  })
  await expect.poll(() => page.getByRole('button', { name: /^(Approve|Reject)$/ }).count()).toBe(0)
})

test('nobody does what their role does not include, by the page or by hand', async () => {
  const { client, sql, tenant_id } = dashboard.world
  const { id } = await heldPayment(client, { amount_minor: 6000 })
  const before = await sql`select from api_keys where tenant_id = ${tenant_id}`
  const acts: [path: string, body: object, roles: string[]][] = [
    [`/api/v1/payments/${id}/capture`, {}, ['owner', 'admin', 'support']],
    ['/api/keys', { name: 'Mine', scopes: ['payments:write'] }, ['owner', 'admin', 'developer']],
    ['/api/members/invitations', { email: 'me@people.example', role: 'owner' }, ['owner', 'admin']],
    ['/api/ops/pauses', { queue: 'payouts', reason: 'None' }, []],
  ]
  for (const role of ['read-only', 'developer', 'support', 'admin'] as const) {
    const page = await dashboard.open(`/payments/${id}`, {
      as: role,
      expects: [/status of 403/],
    })
    await page.getByRole('heading', { level: 1, name: '$60.00' }).waitFor()
    const may = role === 'support' || role === 'admin'
    expect(await page.getByRole('button', { name: 'Capture', exact: true }).count(), role).toBe(may ? 1 : 0)
    expect(await page.getByRole('link', { name: 'Queues' }).count(), role).toBe(0)
    for (const [path, body, roles] of acts) {
      if (roles.includes(role)) continue
      const { status } = await askInPage(page, 'POST', path, body)
      expect(status, `${role} at ${path}`).toBe(403)
    }
    await page.goto(`${dashboard.url}/settings/api-keys`)
    await page.getByRole('table', { name: 'API keys' }).waitFor()
    const makes = await page.getByRole('button', { name: 'Create key' }).count()
    expect(makes > 0, role).toBe(role === 'developer' || role === 'admin')
    if (makes === 0) await page.getByText('owner, admin, or developer').waitFor()
  }
  expect((await client.get(`/v1/payments/${id}`)).body.status).toBe('authorized')
  expect(await sql`select from api_keys where tenant_id = ${tenant_id}`).toHaveLength(before.length)
})

const focused = (page: Page) => page.evaluate<string>('document.activeElement.textContent.trim()')

// Test mode in a browser: the switch, the frame, addresses that keep the mode, keys and the sandbox.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  BROWSER_TIMEOUT_MS,
  checkAccessible,
  checkContrast,
  checkPageWidth,
  createDashboard,
  PHONE,
  signInByPage,
  type Dashboard,
} from '#test/browser.ts'
import { freshKey } from '#test/client.ts'
import {
  authorizedPayment,
  capturedPayment,
  createPayment,
  eventually,
  paymentIn,
  refund,
} from '#test/payments.ts'
import { createPerson } from '#test/people.ts'
import { DAY_MS, passDays } from '#test/test-clocks.ts'
import { verificationIn, verificationOf } from '#test/verifications.ts'

let dashboard: Dashboard
beforeAll(async () => {
  dashboard = await createDashboard()
}, BROWSER_TIMEOUT_MS)
afterAll(() => dashboard?.close())

const WORD = 'Test mode: no money moves'
const FRAME = '3px rgb(194, 84, 10)'
/** What each tab of an empty sandbox says. */
const EMPTY_TABS = {
  Inbox: 'No messages yet',
  Payments: 'No payments yet',
  Payouts: 'No payouts yet',
  Verifications: 'No verifications yet',
  Clock: 'Ahead by',
}

const HOUR_MS = 3_600_000
const pathOf = (page: Page) => new URL(page.url()).pathname
const switchMode = async (page: Page) => page.getByRole('switch', { name: 'Test mode' }).click()
const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name })
/** The color of the frame around the window; undefined without a frame. */
const frameOf = (page: Page) =>
  page.evaluate(() => {
    const { content, borderTopColor, borderTopWidth } = (globalThis as any).getComputedStyle(
      (globalThis as any).document.body,
      '::after',
    )
    return content === 'none' ? undefined : `${borderTopWidth} ${borderTopColor}`
  })

test('the switch opens the same list in the other mode, and the address keeps the mode through links and reloads', async () => {
  const { world } = dashboard
  await world.client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Live Ada' })
  const page = await dashboard.open('/customers', { as: 'owner' })
  await page.getByText('Live Ada').first().waitFor()
  expect([await page.getByText(WORD).count(), await frameOf(page)]).toEqual([0, undefined])
  await switchMode(page)
  await page.waitForURL('**/test/customers')
  await heading(page, 'Customers').waitFor()
  await page.getByText('No customers yet').waitFor()
  await page.getByText(WORD).waitFor()
  expect(await frameOf(page)).toBe(FRAME)
  expect(await page.title()).toBe('Customers · Test mode · Sluice')
  const [twin] = await world.sql`select id from tenants where twin_id = ${world.tenant_id}`
  const twin_client = await world.clientOf({ tenant: 'acme', mode: 'test' })
  expect(twin_client.tenant_id).toBe(twin!['id'])
  const { id } = (await twin_client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Test Ada' }))
    .body

  await page.reload()
  const row = page.getByRole('link', { name: 'Test Ada' }).first()
  expect(await row.getAttribute('href')).toBe(`/test/customers/${id}`)
  await row.click()
  await heading(page, 'Test Ada').waitFor()
  expect(pathOf(page)).toBe(`/test/customers/${id}`)
  // The frame is part of every page.
  expect([await page.getByText(WORD).count(), await frameOf(page)]).toEqual([1, FRAME])
  await page.keyboard.press('g')
  await page.keyboard.press('o')
  await heading(page, 'Overview').waitFor()
  expect(pathOf(page)).toMatch(/^\/test\/?$/)
  await page.goBack()
  await heading(page, 'Test Ada').waitFor()
  // A row has one mode: the switch leads to the list.
  await switchMode(page)
  await page.waitForURL(`${dashboard.url}/customers`)
  await page.getByText('Live Ada').first().waitFor()
  expect(await page.getByText('Test Ada').count()).toBe(0)

  // A colleague opens the link.
  const other = await dashboard.open(`/test/customers/${id}`, { as: 'support' })
  await heading(other, 'Test Ada').waitFor()
})

test('a link to test mode creates the twin for a person who opens it first, and survives the sign-in', async () => {
  const { world } = dashboard
  const { tenant_id } = await world.clientOf({ tenant: 'linked' })
  const person = await createPerson(world, { role: 'developer', tenant_id })
  const page = await dashboard.open('/test/settings/api-keys?tab=1', { expects: [/status of 401/] })
  await page.getByRole('button', { name: 'Sign in', exact: true }).waitFor()
  expect(pathOf(page)).toBe('/test/sign-in')
  await page.getByText(WORD).waitFor()
  await signInByPage(page, person)
  await heading(page, 'Settings').waitFor()
  expect(pathOf(page)).toBe('/test/settings/api-keys')
  expect(await world.sql`select from tenants where twin_id = ${tenant_id}`).toHaveLength(1)

  await page.getByRole('main').getByRole('button', { name: 'Create key' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('It reaches nothing of live mode.').waitFor()
  await dialog.getByLabel('Name').fill('Tests')
  await dialog.getByRole('checkbox', { name: 'events:read' }).check()
  await dialog.getByRole('button', { name: 'Create', exact: true }).click()
  expect(await dialog.getByLabel('API key').inputValue()).toMatch(/^sk_test_linked_/)
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await page
    .getByRole('table', { name: 'API keys' })
    .getByText(/^sk_test_…/)
    .waitFor()
  await page.getByRole('tab', { name: 'Members' }).click()
  await page.getByRole('link', { name: 'Change them in live mode' }).click()
  await page.waitForURL(`${dashboard.url}/settings/members`)
  await page.getByRole('table', { name: 'Members' }).getByText(person.email).waitFor()
})

test('pages of operators have no mode, and a link to a twin opens test mode', async () => {
  const { world } = dashboard
  const { tenant_id } = await world.clientOf({ tenant: 'operated' })
  const twin = await world.clientOf({ tenant: 'operated', mode: 'test' })
  const person = await createPerson(world, { role: 'owner', tenant_id, is_operator: true })
  const payment = await authorizedPayment(twin)
  const [job] = await world.sql<{ id: string }[]>`
    select id from jobs where tenant_id = ${twin.tenant_id} and resource_id = ${payment.id}`
  const page = await dashboard.open('/test/ops/queues', { as: person })
  await page.waitForURL(`${dashboard.url}/ops/queues`)
  await heading(page, 'Queues').waitFor()
  expect(await frameOf(page)).toBeUndefined()
  await page.goto(`${dashboard.url}/ops/jobs/${job!.id}`)
  await page
    .getByRole('main')
    .getByRole('button', { name: /^Open payment/ })
    .click()
  await page.waitForURL(`${dashboard.url}/test/payments/${payment.id}`)
  await page.getByText(WORD).waitFor()
  expect(await frameOf(page)).toBe(FRAME)
  const links = page.getByRole('navigation', { name: 'Main' }).getByRole('link')
  await links.filter({ hasText: 'Sandbox' }).waitFor()
  const titles = await links.allTextContents()
  expect(titles).not.toContain('Queues')
})

test('the pages of the sandbox fit a phone, and are accessible in both schemes', async () => {
  const seen = new Set<string>()
  for (const options of [{ scheme: 'light' }, { scheme: 'dark' }, { viewport: PHONE }] as const) {
    const page = await dashboard.open('/test/sandbox', { as: 'owner', ...options })
    const main = page.getByRole('main')
    for (const [tab, text] of Object.entries(EMPTY_TABS)) {
      await main.getByRole('tab', { name: tab }).click()
      await main.getByText(text).first().waitFor()
      await checkAccessible(page)
      await checkContrast(page, seen)
      await checkPageWidth(page)
    }
  }
})

test('the button of a payment pays as its buyer, and the clock advances', async () => {
  const { world } = dashboard
  const { tenant_id } = await world.clientOf({ tenant: 'paid' })
  const shop = await world.clientOf({ tenant: 'paid', mode: 'test' })
  const person = await createPerson(world, { role: 'owner', tenant_id })
  const { body: payment } = await createPayment(shop, { payment_method: undefined })
  const page = await dashboard.open('/test/sandbox/payments', { as: person })
  await page.getByRole('main').getByRole('button', { name: 'Pay', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Pay', exact: true }).click()
  await paymentIn(shop, payment.id, 'authorized')
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click()
  await page.getByRole('main').getByRole('tab', { name: 'Clock' }).click()
  await page.getByRole('main').getByRole('button', { name: 'Advance clock' }).click()
  const dialog = page.getByRole('dialog')
  const announced = await dialog.getByText(/^The clock moves to /).textContent()
  await dialog.getByRole('button', { name: 'Advance clock' }).click()
  await eventually(async () => {
    const { body: clock } = await shop.get('/v1/test_clock')
    expect(clock).toMatchObject({ status: 'ready' })
    expect(Date.parse(clock.now)).toBeGreaterThan(Date.now() + 23 * 3_600_000)
  })
  await page.getByRole('main').getByText('24 h', { exact: true }).waitFor()
  expect(await dialog.getByText(/^The clock moves to /).textContent()).toBe(announced)
})

test('an act that no worker has carried out yet is shown as accepted, not as done', async () => {
  const { world } = dashboard
  const { tenant_id } = await world.clientOf({ tenant: 'accepted' })
  const shop = await world.clientOf({ tenant: 'accepted', mode: 'test' })
  const person = await createPerson(world, { role: 'owner', tenant_id })
  const payment = await capturedPayment(shop)
  // On a busy machine, the answer is 202.
  expect([201, 202]).toContain((await refund(shop, payment.id, { amount_minor: 100 })).status)
  await createPayment(shop, { payment_method: undefined })
  const page = await dashboard.open('/test/sandbox/payments', { as: person })
  await page.route('**/api/sandbox/payments/*/dispute', (route) =>
    route.fulfill({ status: 202, json: { id: payment.id } }),
  )
  const main = page.getByRole('main')
  await main.getByRole('button', { name: 'Dispute', exact: true }).click()
  const dialog = page.getByRole('dialog')
  // The bank disputes what was captured and not refunded.
  const money = ((payment.amount_captured_minor - 100) / 100).toFixed(2)
  await dialog.getByText(new RegExp(`^Dispute the payment of .*${money}`)).waitFor()
  await dialog.getByRole('button', { name: 'Dispute', exact: true }).click()
  await dialog.getByText('It was accepted and is in progress.').waitFor()
  expect(await dialog.getByText('The bank disputed the payment').count()).toBe(0)
  await dialog.getByRole('button', { name: 'Close' }).last().click()

  await main.getByRole('button', { name: 'Pay', exact: true }).click()
  await dialog.getByText(/^Pay .* as the buyer\?$/).waitFor()
  await dialog.getByLabel('Outcome').selectOption('failed')
  await dialog.getByText(/^Fail the payment of .* as the buyer\?$/).waitFor()
  expect(await dialog.getByText(/^Pay .* as the buyer/).count()).toBe(0)
  await dialog.getByRole('button', { name: 'Fail payment' }).waitFor()
})

test('deadlines are relative to the clock of test mode', async () => {
  const { world } = dashboard
  const { tenant_id } = await world.clientOf({ tenant: 'ahead' })
  const shop = await world.clientOf({ tenant: 'ahead', mode: 'test' })
  const person = await createPerson(world, { role: 'owner', tenant_id })
  const clock_now = Date.parse((await passDays(shop, 30)).now)
  const send_at = new Date(clock_now + HOUR_MS).toISOString()
  const sms = { to: '+4915112345678', body: 'Shipped', send_at, idempotency_key: freshKey() }
  const message = await shop.post('/v1/messages/sms', sms)
  expect([message.status, message.body.status]).toEqual([201, 'scheduled'])
  const page = await dashboard.open(`/test/messages/${message.body.id}`, { as: person })
  await page
    .getByRole('main')
    .getByText(/^in (1 hour|\d+ minutes)$/)
    .waitFor()

  const holds = [await authorizedPayment(shop), await authorizedPayment(shop)]
  const lapses_at = Date.parse(holds[0].capture_before)
  await page.goto(`${dashboard.url}/test/payments/${holds[0].id}`)
  await page
    .getByRole('main')
    .getByText(/^in [567] days$/)
    .waitFor()
  const days = (lapses_at - 12 * HOUR_MS - clock_now) / DAY_MS
  const later = Date.parse((await passDays(shop, days)).now)
  await page.goto(`${dashboard.url}/test/`)
  const link = page.getByRole('link', { name: /holds lapse within a day/ })
  await link.waitFor()
  await eventually(async () => {
    const address = new URL((await link.getAttribute('href'))!, dashboard.url)
    const until = Date.parse(address.searchParams.get('capture_before_to')!)
    expect(until).toBeGreaterThan(later + DAY_MS - HOUR_MS)
  })
  await page
    .getByRole('main')
    .getByText(/^the first in 1\d hours$/)
    .waitFor()
  await link.click()
  const table = page.getByRole('table', { name: 'Payments' })
  await table
    .getByText(/^in 1\d hours$/)
    .first()
    .waitFor()
  expect(await table.getByRole('row').count()).toBe(3)
})

test('the link of a verification opens that verification, with the button that completes it', async () => {
  const { world } = dashboard
  const { tenant_id } = await world.clientOf({ tenant: 'verified' })
  const shop = await world.clientOf({ tenant: 'verified', mode: 'test' })
  const person = await createPerson(world, { role: 'support', tenant_id })
  const verification = await verificationOf(shop)
  await verificationOf(shop)
  const { pathname, search } = new URL(verification.url)
  const page = await dashboard.open(`${pathname}${search}`, { as: person })
  await page.waitForURL(`**/test/compliance/${verification.id}`)
  const main = page.getByRole('main')
  await main.getByRole('button', { name: 'Complete verification' }).click()
  const dialog = page.getByRole('dialog')
  await checkAccessible(page)
  await dialog.getByRole('button', { name: 'Complete verification' }).click()
  await verificationIn(shop, verification.id, 'approved')
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await main.getByText('Approved by the provider.').first().waitFor()
  expect(await main.getByRole('button', { name: 'Complete verification' }).count()).toBe(0)
})

test('the link of a verification of another tenant names that tenant and opens it there', async () => {
  const { world } = dashboard
  const first = await world.clientOf({ tenant: 'first-of-two' })
  const second = await world.clientOf({ tenant: 'second-of-two' })
  const shop = await world.clientOf({ tenant: 'second-of-two', mode: 'test' })
  const stranger_shop = await world.clientOf({ tenant: 'of-strangers', mode: 'test' })
  const person = await createPerson(world, { role: 'owner', tenant_id: first.tenant_id })
  await world.sql`
    insert into members (tenant_id, user_id, role) values (${second.tenant_id}, ${person.user_id}, 'support')`
  const [verification, of_stranger] = [await verificationOf(shop), await verificationOf(stranger_shop)]
  const { pathname, search } = new URL(verification.url)
  const page = await dashboard.open(`${pathname}${search}`, { as: person, expects: [/status of 404/] })
  await page.getByRole('heading', { name: /^This verification belongs to second-of-two/i }).waitFor()
  await checkAccessible(page)
  await page.getByRole('button', { name: /^Open it in / }).click()
  await page.waitForURL(`**/test/compliance/${verification.id}`)
  await page.getByRole('button', { name: 'Complete verification' }).waitFor()

  await page.goto(`${dashboard.url}${new URL(of_stranger.url).pathname}`)
  await heading(page, 'There is no such verification').waitFor()
})

test('a page of the sandbox in live mode leads to test mode', async () => {
  const page = await dashboard.open('/sandbox/payments', { as: 'owner' })
  await page.getByRole('heading', { name: 'This page belongs to test mode' }).waitFor()
  await page.getByRole('button', { name: 'Open test mode' }).click()
  await page.waitForURL('**/test/sandbox/payments')
  await heading(page, 'Payments · Sandbox').waitFor()
  await page.getByText(EMPTY_TABS.Payments).first().waitFor()
  expect(await frameOf(page)).toBe(FRAME)
})

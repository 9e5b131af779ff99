// Operators and members move money on the dashboard's pages, with mouse and keyboard, even while an outcome is unknown.
import { readFile } from 'node:fs/promises'
import type { Page, Route } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { warnOfExpiry } from '#domain/payments/expiry.ts'
import { createPerson, PASSWORD } from '#test/people.ts'
import { fetchInPage, BROWSER_TIMEOUT_MS, createDashboard, type Dashboard } from '#test/browser.ts'
import { freshKey } from '#test/client.ts'
import {
  capturedPayment,
  createPayment,
  effectsOf,
  authorizedPayment,
  paymentIn,
  refund,
} from '#test/payments.ts'
import { fund, payOut, payoutIn, recipient } from '#test/payouts.ts'
import { getVerification, verificationOf } from '#test/verifications.ts'

let dashboard: Dashboard
beforeAll(async () => {
  dashboard = await createDashboard()
}, BROWSER_TIMEOUT_MS)
afterAll(() => dashboard?.close())

/** Opens the dialog of an action by its button on the page. */
async function openDialog(page: Page, button: string) {
  await page.getByRole('main').getByRole('button', { name: button, exact: true }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Back' }).waitFor()
  return dialog
}

/** Checks that the dialog links to the audit entry of the action, and closes the dialog. */
async function checkAuditLink(page: Page): Promise<void> {
  const dialog = page.getByRole('dialog')
  expect(await dialog.getByRole('link', { name: /audit entry/i }).getAttribute('href')).toMatch(
    /^\/settings\/audit\?seq=\d+$/,
  )
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await dialog.waitFor({ state: 'hidden' })
}

test('a payment is opened from the list, captured and partly refunded', async () => {
  const { client } = dashboard.world
  const { id, processor_reference } = await authorizedPayment(client, { amount_minor: 4000 })
  const page = await dashboard.open('/payments', { as: 'support' })
  await page.getByRole('link', { name: '$40.00' }).click()
  await page.waitForURL(`**/payments/${id}`)
  await page.getByRole('heading', { level: 1, name: '$40.00 Authorized' }).waitFor()
  await page.getByRole('list', { name: 'Timeline' }).waitFor()

  const capture = await openDialog(page, 'Capture')
  await capture.getByRole('button', { name: 'Capture' }).click()
  await capture.getByText('$40.00 was captured').waitFor()
  await checkAuditLink(page)
  await page.getByRole('heading', { level: 1, name: '$40.00 Captured' }).waitFor()

  const refund = await openDialog(page, 'Refund')
  await refund.getByLabel('Amount').fill('12.00')
  await refund.getByText('$28.00 stays captured').waitFor()
  await refund.getByRole('button', { name: 'Refund' }).click()
  await checkAuditLink(page)
  expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({ amount_refunded_minor: 1200 })
  const effects = await effectsOf(dashboard.world, processor_reference)
  expect(effects.map(({ effect, amount }) => [effect, amount])).toEqual([
    ['authorize', 4000],
    ['capture', 4000],
    ['refund', 1200],
  ])
})

test('payouts and refunds have the typed amount even if the browser formats the currency with other decimals', async () => {
  const client = await dashboard.world.clientOf()
  const { id } = await capturedPayment(client, { amount_minor: 1_000_000, currency: 'HUF' })
  const recipient_id = await recipient(client, 'acct_success', {
    name: 'Kati',
    currency: 'huf',
    country: 'HU',
  })
  const owner = await createPerson(dashboard.world, { role: 'owner', tenant_id: client.tenant_id })
  const page = await dashboard.open(`/recipients/${recipient_id}`, { as: owner })
  const payout = await openDialog(page, 'New payout')
  await payout.getByLabel('Amount').fill('5000')
  await payout.getByRole('heading', { name: 'Pay HUF 5,000.00 to Kati?' }).waitFor()
  await payout.getByRole('button', { name: 'Create payout' }).click()
  await checkAuditLink(page)
  const [created] = (await client.get(`/v1/payouts?recipient_id=${recipient_id}`)).body
  expect(created).toMatchObject({ amount_minor: 500_000, currency: 'huf' })

  await page.goto(`${dashboard.url}/payments/${id}`)
  await page.getByRole('heading', { level: 1, name: 'HUF 10,000.00' }).waitFor()
  const refund = await openDialog(page, 'Refund')
  expect(await refund.getByLabel('Amount').inputValue()).toBe('10000.00')
  await refund.getByLabel('Amount').fill('1000.50')
  await refund.getByRole('button', { name: 'Refund' }).click()
  await checkAuditLink(page)
  expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({ amount_refunded_minor: 100_050 })
})

test('the refund dialog proposes the amount that pending refunds do not reserve, and is not available if that amount is zero', async () => {
  const { client } = dashboard.world
  const { id } = await capturedPayment(client, {
    amount_minor: 4000,
    payment_method: 'pm_card_pendingRefund',
  })
  const pending = await client.post(`/v1/payments/${id}/refunds`, {
    idempotency_key: freshKey(),
    amount_minor: 1200,
  })
  expect(pending.body).toMatchObject({ status: 'pending' })
  const page = await dashboard.open(`/payments/${id}`, { as: 'support' })
  await page.getByText('$12.00 is being refunded; $28.00 stays captured.').waitFor()
  const first = await openDialog(page, 'Refund')
  expect(await first.getByLabel('Amount').inputValue()).toBe('28.00')
  await first.getByText('$12.00 is being refunded.').waitFor()
  await first.getByLabel('Amount').fill('28.01')
  await first.getByText('Enter an amount of at most $28.00.').waitFor()
  await first.getByLabel('Reason').selectOption('fraudulent')
  await first.getByRole('button', { name: 'Back' }).click()
  await first.waitFor({ state: 'hidden' })

  // A new dialog does not show the choices of an abandoned dialog.
  const second = await openDialog(page, 'Refund')
  expect(await second.getByLabel('Amount').inputValue()).toBe('28.00')
  expect(await second.getByLabel('Reason').inputValue()).toBe('')
  await second.getByRole('button', { name: 'Refund' }).click()
  await second.getByText('$28.00 is being refunded').waitFor()
  await checkAuditLink(page)
  await page.getByText('$40.00 is being refunded; $0.00 stays captured.').waitFor()
  expect(await page.getByRole('main').getByRole('button', { name: 'Refund', exact: true }).count()).toBe(0)
})

test('the refusal of an action by the API shows amounts as money', async () => {
  const { client } = dashboard.world
  const { id } = await authorizedPayment(client, { amount_minor: 3300 })
  const page = await dashboard.open(`/payments/${id}`, { as: 'support', expects: [/status of 422/] })
  await page.route('**/capture', (route, request) =>
    route.continue({ postData: JSON.stringify({ ...request.postDataJSON(), amount_minor: 3301 }) }),
  )
  const capture = await openDialog(page, 'Capture')
  await capture.getByRole('button', { name: 'Capture' }).click()
  const alert = await capture.getByRole('alert').innerText()
  expect(alert).toContain('USD 33.01 is more than the USD 33.00 that can be captured.')
})

test('all earlier entries of a long timeline can be loaded, including the entries of the first refund', async () => {
  const { client } = dashboard.world
  const { id } = await capturedPayment(client, { amount_minor: 9000 })
  const [first] = await Promise.all(
    Array.from({ length: 24 }, () => refund(client, id, { amount_minor: 100 })),
  )
  const { headers } = await client.get(`/v1/payments/${id}/timeline?limit=100`)
  expect(headers.get('link')).toContain('rel="next"')

  const page = await dashboard.open(`/payments/${id}`, { as: 'support' })
  const refunds = page.getByRole('table', { name: 'Refunds' })
  await page.getByRole('button', { name: 'Show all 24 refunds' }).waitFor()
  expect(await refunds.getByRole('row').count()).toBe(6)
  const timeline = page.getByRole('list', { name: 'Timeline' })
  await timeline.getByText('Payment of $90.00 requested').waitFor()
  expect(await timeline.getByText('Authorized $90.00 at Stripe').count()).toBe(0)
  const earlier = timeline.getByRole('button', { name: 'Show earlier entries' })
  while ((await timeline.getByText('Authorized $90.00 at Stripe').count()) === 0) {
    const shown = await timeline.getByRole('listitem').count()
    await earlier.click()
    await expect
      .poll(() => timeline.getByRole('listitem').count(), { timeout: 10_000 })
      .toBeGreaterThan(shown + 5)
  }
  await timeline.getByText('Captured $90.00 at Stripe').waitFor()
  await earlier.waitFor({ state: 'hidden' })
  expect(await timeline.getByText('Payment of $90.00 requested').count()).toBe(1)
  expect(await timeline.getByText('Refunded $1.00 at Stripe').count()).toBe(24)

  await page.goto(`${dashboard.url}/refunds/${first!.body.id}`)
  await timeline.getByText('Refund of $1.00 requested').waitFor()
  expect(await timeline.getByText('Refunded $1.00 at Stripe').count()).toBe(1)
})

test('a page whose data cannot be refreshed shows a notice with a retry button', async () => {
  const { id } = await authorizedPayment(dashboard.world.client, { amount_minor: 3300 })
  const page = await dashboard.open(`/payments/${id}`, { as: 'support', expects: [/ERR_FAILED/] })
  await page.getByRole('heading', { level: 1, name: '$33.00 Authorized' }).waitFor()
  await page.route('**/api/**', (route) => route.abort())
  const alert = page.getByRole('alert').filter({ hasText: 'Not updated since' })
  await alert.waitFor({ timeout: 20_000 })
  expect(await alert.textContent()).toContain('was not answered')
  await alert.getByText('Request').waitFor()
  await page.unroute('**/api/**')
  await alert.getByRole('button', { name: 'Try again' }).click()
  await alert.waitFor({ state: 'hidden' })
})

test('a refund whose response is lost and whose retry is refused is found, not repeated', async () => {
  const { client, sql, tenant_id } = dashboard.world
  const { id, processor_reference } = await capturedPayment(client, { amount_minor: 4100 })
  const other = await dashboard.world.clientOf()
  const person = await createPerson(dashboard.world, { role: 'owner' })
  await sql`insert into members (tenant_id, user_id, role) values (${other.tenant_id}, ${person.user_id}, 'owner')`
  const page = await dashboard.open(`/payments/${id}`, {
    as: person,
    expects: [/ERR_CONNECTION_RESET/, /status of 409/],
  })
  const choose = (tenant: string) => fetchInPage(page, 'POST', '/api/session/tenant', { tenant_id: tenant })
  await page.getByRole('heading', { level: 1, name: '$41.00' }).waitFor()
  // Before the SDK retries, the server completes the refund, and another tab selects another tenant.
  const loseResponse = async (route: Route) => {
    await route.fetch()
    await choose(other.tenant_id)
    await route.abort('connectionreset')
  }
  await page.route('**/refunds', loseResponse, { times: 1 })
  const refund = await openDialog(page, 'Refund')
  await refund.getByLabel('Amount').fill('4.00')
  await refund.getByRole('button', { name: 'Refund' }).click()
  await refund.getByText('The outcome is still not known.').waitFor()
  const notice = page.getByText('Another tenant was chosen in another tab').first()
  expect(await notice.textContent()).toContain('may have been done')

  await choose(tenant_id)
  await page.reload()
  const reopened = await openDialog(page, 'Refund')
  await reopened.getByText(/It was done: refund .* \(Refund \$4\.00\)/).waitFor()
  expect(await reopened.getByRole('button', { name: 'Refund' }).count()).toBe(0)
  const effects = await effectsOf(dashboard.world, processor_reference)
  expect(effects.map(({ effect, amount }) => [effect, amount])).toEqual([
    ['authorize', 4100],
    ['capture', 4100],
    ['refund', 400],
  ])
})

test('a payout that is created from the list and whose response is lost is found on the page of its recipient', async () => {
  const { client } = dashboard.world
  await fund(client, 9000)
  const id = await recipient(client, 'ba_success', { name: 'Grace' })
  const page = await dashboard.open('/payouts', { as: 'owner', expects: [/ERR_CONNECTION_RESET/] })
  const payouts = /\/v1\/payouts$/
  let requests = 0
  await page.route(payouts, async (route) => {
    if (route.request().method() !== 'POST') return await route.continue()
    requests += 1
    if (requests === 1) await route.fetch()
    await route.abort('connectionreset')
  })
  // The lookup of the idempotency key also fails until the connection is restored.
  const lookup_path = '**/v1/idempotency_keys/**'
  await page.route(lookup_path, (route) => route.abort('connectionreset'))
  const first = await openDialog(page, 'New payout')
  await first.getByRole('combobox', { name: 'Recipient' }).fill('Grace')
  await page.getByRole('option', { name: 'Grace' }).click()
  await first.getByLabel('Amount').fill('40.00')
  await first.getByRole('button', { name: 'Create payout' }).click()
  await first.getByText('The outcome is still not known.').waitFor()
  expect(requests).toBe(3)

  await page.unroute(lookup_path)
  await page.goto(`${dashboard.url}/recipients/${id}`)
  const reopened = await openDialog(page, 'New payout')
  await reopened.getByText(/: payout .* \(Pay \$40\.00 to Grace\)/).waitFor()
  expect(await reopened.getByRole('button', { name: 'Create payout' }).count()).toBe(0)
  const created = (await client.get(`/v1/payouts?recipient_id=${id}`)).body
  expect(created.map((each: { amount_minor: number }) => each.amount_minor)).toEqual([4000])
})

test('a payment without a card shows no money on hold, and shows the name of its customer', async () => {
  const { client } = dashboard.world
  const ada = { idempotency_key: freshKey(), name: 'Ada Byron' }
  const customer_id = (await client.post('/v1/customers', ada)).body.id
  const body = { amount_minor: 4300, customer_id, payment_method: undefined }
  const { id } = (await createPayment(client, body)).body
  await paymentIn(client, id, 'requires_action')
  const page = await dashboard.open('/payments', { as: 'support' })
  await page.getByRole('row', { name: '$43.00' }).getByRole('link', { name: 'Ada Byron' }).waitFor()
  await page.getByRole('link', { name: '$43.00' }).click()
  await page.getByText('The buyer has to enter a card').waitFor()
  const timeline = page.getByRole('list', { name: 'Timeline' })
  await timeline.getByText('Stripe accepted the request; no money is on hold yet').waitFor()
  expect(await timeline.getByText(/^Authorized|Done/).count()).toBe(0)
  await page.getByRole('link', { name: 'Ada Byron' }).waitFor()
  await page.goBack()
  await expect.poll(() => focused(page)).toBe('$43.00')

  const challenged = await createPayment(client, { payment_method: 'pm_card_threeDSecure2Required' })
  const other = await dashboard.open(`/payments/${challenged.body.id}`, { as: 'support' })
  await other.getByText('The buyer has to confirm the payment with the bank').waitFor()
})

test('the capture dialog does not offer the authorized amount after an invalid amount is typed', async () => {
  const { client } = dashboard.world
  const { id } = await authorizedPayment(client, { amount_minor: 2800 })
  const page = await dashboard.open(`/payments/${id}`, { as: 'support' })
  const dialog = await openDialog(page, 'Capture')
  await dialog.getByLabel('Amount').fill('99')
  await dialog.getByRole('heading', { name: 'Capture', exact: true }).waitFor()
  expect(await dialog.getByText('Capture $28.00').count()).toBe(0)
})

test('a payment is canceled only after confirmation', async () => {
  const { client } = dashboard.world
  const { id } = await authorizedPayment(client, { amount_minor: 777 })
  const page = await dashboard.open(`/payments/${id}`, { as: 'owner' })
  const first = await openDialog(page, 'Cancel')
  await first.getByRole('button', { name: 'Back' }).click()
  await first.waitFor({ state: 'hidden' })
  expect((await client.get(`/v1/payments/${id}`)).body.status).toBe('authorized')
  const second = await openDialog(page, 'Cancel')
  await second.getByRole('button', { name: 'Cancel payment' }).click()
  await checkAuditLink(page)
  await paymentIn(client, id, 'canceled')
  await expect.poll(() => page.getByRole('button', { name: 'Capture' }).count()).toBe(0)
})

test('with the keyboard alone a user can sign in, find and capture a payment, and open a payment by its id in the palette', async () => {
  const { client } = dashboard.world
  const other = await authorizedPayment(client, { amount_minor: 3100 })
  const { id } = await authorizedPayment(client, { amount_minor: 3200 })
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
  await page.getByText('You can search for a page, an id').waitFor()
  await page.keyboard.press('Control+a')
  await page.keyboard.type(other.id)
  await page.getByRole('option').filter({ hasText: 'Payment $31.00' }).first().waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/payments/${other.id}`)
})

test('the palette finds a payment by its processor reference and a customer by email address', async () => {
  const { client } = dashboard.world
  const payment = await authorizedPayment(client)
  const email = 'palette@people.example'
  const customer = await client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada', email })
  const page = await dashboard.open('/', { as: 'read-only' })
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  const found = [
    ['Payment', payment.processor_reference, `/payments/${payment.id}`],
    ['Customer', email, `/customers/${customer.body.id}`],
  ]
  for (const [resource, text, path] of found) {
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox').fill(text)
    await page
      .getByRole('option')
      .filter({ hasText: resource })
      .filter({ hasText: path.slice(-8) })
      .click()
    await expect.poll(() => new URL(page.url()).pathname).toBe(path)
  }
})

test('the export contains all pages of the filtered list', async () => {
  const { client } = dashboard.world
  const customer = await client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada' })
  const fields = { customer_id: customer.body.id }
  const first = await authorizedPayment(client, { ...fields, amount_minor: 1250, description: '=1+1, "so"' })
  const second = await authorizedPayment(client, { ...fields, amount_minor: 900, currency: 'JPY' })
  await createPayment(client, { ...fields, payment_method: 'pm_card_chargeDeclined' })
  await authorizedPayment(client)
  const page = await dashboard.open(`/payments?customer_id=${fields.customer_id}`, { as: 'read-only' })
  const rows = page.getByRole('table', { name: 'Payments' }).getByRole('row')
  await expect.poll(() => rows.count()).toBe(4)
  await page.getByLabel('Status', { exact: true }).selectOption('authorized')
  await expect.poll(() => rows.count()).toBe(3)
  // Pages of one row simulate a list of several pages.
  await page.route(/limit=100/, (route, request) =>
    route.continue({ url: request.url().replace('limit=100', 'limit=1') }),
  )
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export CSV' }).click(),
  ])
  expect(file.suggestedFilename()).toMatch(/^payments-.*authorized.*-\d{4}-\d\d-\d\d\.csv$/)
  const line = (amount: string, description: string, payment: any) =>
    `${amount},authorized,${description},${fields.customer_id},0.00,${payment.id},${payment.created_at},${payment.currency},0.00,${payment.processor_reference},${payment.capture_before}`
  expect((await readFile(await file.path(), 'utf8')).split('\r\n')).toEqual([
    '\u{FEFF}Amount,Status,Description,Customer,Refunded,Id,Created,Currency,Captured,Processor reference,Capture before',
    line('900', '', second).replaceAll(',0.00,', ',0,'),
    line('12.50', `"'=1+1, ""so"""`, first),
    '',
  ])
})

test('a partly captured payment shows its captured amount in lists and in the export', async () => {
  const { client } = dashboard.world
  const email = 'In.Part@people.example'
  const customer = await client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Mary', email })
  const fields = { customer_id: customer.body.id }
  const { id } = await authorizedPayment(client, {
    ...fields,
    amount_minor: 1111,
    metadata: { order: 'A-17' },
  })
  await authorizedPayment(client, { ...fields, amount_minor: 2222 })
  await authorizedPayment(client, { amount_minor: 1111 })
  await client.post(`/v1/payments/${id}/capture`, { idempotency_key: freshKey(), amount_minor: 500 })
  await client.post(`/v1/payments/${id}/refunds`, { idempotency_key: freshKey(), amount_minor: 150 })

  const page = await dashboard.open(`/customers/${fields.customer_id}`, { as: 'support' })
  const payments = page.getByRole('table', { name: 'Payments' })
  await payments.getByText('$5.00 of $11.11').waitFor()
  // The search for an email address ignores case and finds the payments of the customer.
  await page.goto(`${dashboard.url}/payments`)
  await page.getByRole('searchbox', { name: 'Search' }).fill('in.part@PEOPLE.example')
  await page.keyboard.press('Enter')
  await page.getByText('Customer: Mary').waitFor()
  await payments.getByRole('link', { name: '$5.00 of $11.11' }).waitFor()
  await payments.getByText('$1.50').waitFor()
  await expect.poll(() => payments.getByRole('row').count()).toBe(3)

  // Payments are also found by their metadata, and by an amount in the chosen currency.
  const amount = page.getByRole('searchbox', { name: 'Amount to' })
  expect(await amount.isDisabled()).toBe(true)
  await page.getByLabel('Currency', { exact: true }).selectOption('USD')
  await amount.fill('twenty')
  await page.keyboard.press('Enter')
  await page.getByText('Not an amount in USD').waitFor()
  await amount.fill('20.00')
  await page.keyboard.press('Enter')
  await page.getByText('Amount to: $20.00').waitFor()
  await expect.poll(() => payments.getByRole('row').count()).toBe(2)
  await page.getByRole('button', { name: 'Remove filter Amount to: $20.00' }).click()
  await expect.poll(() => payments.getByRole('row').count()).toBe(3)
  await page.getByRole('searchbox', { name: 'Metadata' }).fill('order=A-17')
  await page.keyboard.press('Enter')
  await page.getByText('Metadata: order=A-17').waitFor()
  await expect.poll(() => payments.getByRole('row').count()).toBe(2)
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export CSV' }).click(),
  ])
  const written = (await readFile(await file.path(), 'utf8')).replace(/^\u{FEFF}/u, '')
  const [head, row] = written.split('\r\n').map((line) => line.split(','))
  const cells = Object.fromEntries(head!.map((name, at) => [name, row![at]]))
  expect(cells).toMatchObject({ Amount: '11.11', Captured: '5.00', Refunded: '1.50', Id: id })

  await page.goto(`${dashboard.url}/payments?search=nobody@people.example`)
  await page.getByText('No customer has the email address nobody@people.example.').waitFor()
})

test('the pages create a payout, a top-up and a verification', async () => {
  const { client } = dashboard.world
  await fund(client, 5_000)
  const recipient_id = await recipient(client, 'ba_success', { name: 'Ink Brothers' })
  const page = await dashboard.open('/payouts', { as: 'admin' })
  const openCreated = async (resource: string) => {
    const link = page.getByRole('dialog').getByRole('link', { name: `Go to the ${resource}` })
    const id = (await link.getAttribute('href'))!.split('/').at(-1)!
    await link.click()
    await page.waitForURL(`**/${id}`)
    return id
  }
  const payout = await openDialog(page, 'New payout')
  await payout.getByPlaceholder('Choose a recipient').fill('ink')
  await page.getByRole('option', { name: 'Ink Brothers' }).click()
  await payout.getByLabel('Amount').fill('12.50')
  await payout.getByText('Pay $12.50 to Ink Brothers?').waitFor()
  await payout.getByRole('button', { name: 'Create payout' }).click()
  expect(await payoutIn(client, await openCreated('payout'), 'paid')).toMatchObject({
    amount_minor: 1250,
    recipient_id,
  })

  await page.goto(`${dashboard.url}/wallet`)
  const top_up = await openDialog(page, 'Top up')
  await top_up.getByLabel('Amount').fill('30')
  await top_up.getByLabel('Currency').selectOption('usd')
  await top_up.getByLabel('Source').fill('src_success')
  await top_up.getByRole('button', { name: 'Top up' }).click()
  const topped = await client.get(`/v1/wallet/top_ups/${await openCreated('top-up')}`)
  expect(topped.body).toMatchObject({ amount_minor: 3000, currency: 'usd', source: 'src_****' })

  await page.goto(`${dashboard.url}/compliance`)
  const start = await openDialog(page, 'Start verification')
  await start.getByLabel('Subject type').selectOption('recipient')
  await start.getByLabel('Subject id').fill(recipient_id)
  await start.getByRole('button', { name: 'Start verification' }).click()
  const link = start.getByLabel('Link for the person')
  expect(await link.inputValue()).toMatch(/^http/)
  // Escape does not close the dialog, because the link is shown only once.
  await page.keyboard.press('Escape')
  await page.waitForTimeout(300)
  expect(await link.isVisible()).toBe(true)
  expect(await getVerification(client, await openCreated('verification'))).toMatchObject({
    subject_id: recipient_id,
  })
})

test('the timelines of payouts, top-ups and verifications show sentences and hide minor entries', async () => {
  const { client } = dashboard.world
  await fund(client, 5_000)
  const recipient_id = await recipient(client)
  const paid = await payoutIn(client, (await payOut(client, recipient_id)).body.id, 'paid')
  const top_up = await client.post('/v1/wallet/top_ups', {
    idempotency_key: freshKey(),
    amount_minor: 3000,
    currency: 'usd',
    source: 'src_success',
  })
  const checked = await client.post('/v1/compliance/kyc', {
    idempotency_key: freshKey(),
    subject_type: 'recipient',
    subject_id: recipient_id,
  })
  await dashboard.world.drain()
  const page = await dashboard.open('/payouts', { as: 'support' })
  for (const [path, sentences, folded] of [
    [
      `/payouts/${paid.id}`,
      ['Payout requested; its amount is reserved', 'Sent the payout at Stripe', 'The payout was paid'],
      'Called Stripe: ',
    ],
    [
      `/wallet/top-ups/${top_up.body.id}`,
      ['Top-up requested', 'Requested the money at Stripe', 'The money is in the balance'],
      'Called Stripe: ',
    ],
    [
      `/compliance/${checked.body.id}`,
      ['Verification requested', 'Started the check at Stripe', 'The person has to act'],
      'Called Stripe: ',
    ],
  ] as const) {
    await page.goto(`${dashboard.url}${path}`)
    const timeline = page.getByRole('list', { name: 'Timeline' })
    for (const sentence of sentences) await timeline.getByText(sentence).first().waitFor()
    expect(await timeline.getByText(folded).count()).toBe(0)
    await page.getByRole('button', { name: /^Show \d+ minor entr/ }).click()
    await timeline.getByText(folded).first().waitFor()
  }
  await page.goto(`${dashboard.url}/payouts/${paid.id}`)
  await page.getByText('$1.00 taken from the balance: the payout').waitFor()
})

test('a capture with an unknown outcome is retried with its idempotency key, and the payment is captured once', async () => {
  const { client } = dashboard.world
  const { id, processor_reference } = await authorizedPayment(client, { amount_minor: 8800 })
  const page = await dashboard.open(`/payments/${id}`, {
    as: 'support',
    expects: [/^failed: .*CONNECTION_RESET .*\/capture/, /CONNECTION_RESET/, /status of 404 .*idempotency/],
  })
  const keys = new Set<string | undefined>()
  let arrives = false
  await page.route('**/capture', async (route, request) => {
    keys.add(request.headers()['idempotency-key'])
    if (arrives) await route.fetch()
    await route.abort('connectionreset')
  })
  const first = await openDialog(page, 'Capture')
  await first.getByRole('button', { name: 'Capture' }).click()
  await first.getByText('It was never received. Try again.').waitFor()
  await first.getByRole('button', { name: 'Back' }).click()
  await first.waitFor({ state: 'hidden' })

  // A reopened dialog retries the same capture. This time the request arrives and its response is lost.
  const second = await openDialog(page, 'Capture')
  await second.getByText('It was never received. Try again.').waitFor()
  await page.route('**/idempotency_keys/*', (route) => route.abort('connectionreset'))
  arrives = true
  await second.getByRole('button', { name: 'Capture' }).click()
  await second.getByText('The outcome is still not known.').waitFor()
  await paymentIn(client, id, 'captured')
  await page.unroute('**/idempotency_keys/*')
  await second.getByRole('button', { name: 'Check again' }).click()
  await second.getByText(`It was done: payment ${id} (`).waitFor()
  expect([...keys]).toEqual([expect.stringMatching(/^dashboard-[0-9a-f]{32}$/)])
  const effects = await effectsOf(dashboard.world, processor_reference)
  expect(effects.map(({ effect }) => effect)).toEqual(['authorize', 'capture'])
})

test('filters are in the URL: a reload keeps them, and Back removes them', async () => {
  const { client } = dashboard.world
  await authorizedPayment(client, { amount_minor: 5100, currency: 'EUR' })
  await createPayment(client, { payment_method: 'pm_card_chargeDeclined' })
  const page = await dashboard.open('/payments', { as: 'read-only' })
  const payment_link = page.getByRole('link', { name: '€51.00' })
  await payment_link.waitFor()
  await page.getByLabel('Status', { exact: true }).selectOption('failed')
  await payment_link.waitFor({ state: 'hidden' })
  await page.getByLabel('Status', { exact: true }).selectOption('authorized')
  await page.getByLabel('Currency', { exact: true }).selectOption('EUR')
  await page.waitForURL(/status=authorized&currency=EUR/)
  await expect.poll(() => page.getByRole('row').count()).toBe(2)
  await page.reload()
  await payment_link.waitFor()
  expect(await page.getByLabel('Status', { exact: true }).inputValue()).toBe('authorized')
  expect(await page.getByRole('row').count()).toBe(2)
  await payment_link.click()
  await page.getByRole('heading', { level: 1, name: '€51.00' }).waitFor()
  await page.goBack()
  await payment_link.waitFor()
  await page.getByRole('button', { name: 'Remove filter Currency: EUR' }).click()
  await page.waitForURL((url) => url.search === '?status=authorized')
  await page.goBack()
  await page.waitForURL(/status=authorized&currency=EUR/)
})

test('the search for the id of a payment finds only that payment', async () => {
  const { id } = await authorizedPayment(dashboard.world.client, { amount_minor: 700 })
  const page = await dashboard.open(`/payments?search=${id}`, { as: 'read-only' })
  await page.getByRole('link', { name: '$7.00' }).waitFor()
  expect(await page.getByRole('row').count()).toBe(2)
})

test('a verification is approved by hand once', async () => {
  const { client } = dashboard.world
  const { id } = await verificationOf(client)
  const page = await dashboard.open(`/compliance/${id}`, { as: 'support' })
  const dialog = await openDialog(page, 'Approve')
  await dialog.getByLabel('Reason').fill('Seen in person')
  await dialog.getByRole('button', { name: 'Approve' }).click()
  await checkAuditLink(page)
  expect(await getVerification(client, id)).toMatchObject({
    status: 'approved',
    decided_by: 'manual',
    decision_reason: 'Seen in person',
  })
  await expect.poll(() => page.getByRole('button', { name: /^(Approve|Reject)$/ }).count()).toBe(0)
})

test('the overview compares complete days, shows all currencies, and offers only permitted actions', async () => {
  const { world } = dashboard
  const shop = await world.clientOf()
  const { tenant_id } = shop
  for (const currency of ['USD', 'EUR', 'GBP', 'JPY', 'HUF']) await fund(shop, 123_456, currency)
  const authorized = [
    await authorizedPayment(shop),
    await authorizedPayment(shop),
    await authorizedPayment(shop),
  ]
  await world.sql`
    update payments set capture_before = now() + interval '5 hours'
    where tenant_id = ${tenant_id} and id in (${authorized[0].id}, ${authorized[1].id})`
  await warnOfExpiry(world.sql, 100)
  // The captures of today, of yesterday, of the same two days one week ago, and of a day of the previous period.
  await world.sql`
    insert into payment_days (tenant_id, day, currency, kind, count, amount_minor)
    select ${tenant_id}, (now() at time zone 'UTC')::date - ago, 'CHF', 'captured', 1000, minor
    from (values (0, 1), (1, 2000), (7, 900000), (8, 1000), (31, 7700)) d(ago, minor)`
  const owner = await createPerson(world, { role: 'owner', tenant_id })
  const page = await dashboard.open('/?currency=chf', { as: owner })
  await page.getByText('100% more than last week, without today').waitFor()
  const balance = page.getByRole('region', { name: 'Balance' })
  await balance.getByText('and').waitFor()
  const note = balance.getByText(/^and /)
  for (const money of ['$1,234.56', '€1,234.56', '£1,234.56', '¥123,456', /HUF\s1,234\.56/])
    await expect.poll(() => note.innerText()).toMatch(money)
  expect(await note.evaluate((it: any) => it.scrollWidth <= it.clientWidth)).toBe(true)
  await balance.getByRole('img', { name: 'Balance, last 7 days' }).waitFor()
  // The chart shows yesterday and the same day of the previous period.
  const chart = page.getByRole('region', { name: 'Volume by day, CHF' })
  await chart.getByText(/^Last 30 days\s*CHF\s9,030\.01$/).waitFor()
  await chart.getByRole('img', { name: /^Volume by day, CHF: / }).focus()
  await page.keyboard.press('ArrowLeft')
  await chart.getByText(/^Last 30 days\s*CHF\s20\.00$/).waitFor()
  await chart.getByText(/^30 days before\s*CHF\s77\.00$/).waitFor()
  await chart.getByRole('img', { name: /^Volume by day, CHF: / }).hover({ position: { x: 60, y: 60 } })
  await chart.getByText(/^Last 30 days\s*CHF\s0\.00$/).waitFor()

  const attention = page.getByRole('list', { name: 'Needs attention' }).getByRole('listitem')
  await expect.poll(() => attention.innerText()).toMatch(/2\s+holds lapse within a day[^]*Capture or cancel/)
  const reader = await createPerson(world, { role: 'read-only', tenant_id })
  const other = await dashboard.open('/', { as: reader })
  const reader_attention = other.getByRole('list', { name: 'Needs attention' }).getByRole('listitem')
  await reader_attention.getByRole('link').waitFor()
  expect(await reader_attention.innerText()).not.toContain('Capture')

  await attention.getByRole('link').click()
  await page.getByRole('columnheader', { name: 'Capture before' }).waitFor()
  const rows = page.getByRole('table', { name: 'Payments' }).getByRole('row')
  await expect.poll(() => rows.count()).toBe(3)
  await page.getByRole('button', { name: /^Remove filter Hold lapses: before / }).click()
  await expect.poll(() => rows.count()).toBe(4)
})

test('the overview shows that no payout is possible if the balance is zero', async () => {
  const { world } = dashboard
  const shop = await world.clientOf()
  const { id } = await capturedPayment(shop)
  await shop.post(`/v1/payments/${id}/refunds`, { idempotency_key: freshKey() })
  const owner = await createPerson(world, { role: 'owner', tenant_id: shop.tenant_id })
  const page = await dashboard.open('/', { as: owner })
  const balance = page.getByRole('region', { name: 'Balance' })
  await balance.getByText('$0.00').waitFor()
  expect(await balance.innerText()).toContain('Nothing can be paid out')
})

const focused = (page: Page) => page.evaluate<string>('document.activeElement.textContent.trim()')

// Every page of the dashboard with hostile text in every field: accessibility, layout, escaping, filters.
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { Page, Request } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import {
  BROWSER_TIMEOUT_MS,
  checkAccessible,
  checkContrast,
  checkPageWidth,
  createDashboard,
  PHONE,
  type Dashboard,
} from '#test/browser.ts'
import { freshKey } from '#test/client.ts'
import { LOOPBACK } from '#test/deliveries.ts'
import { dashboardRoutes } from '#test/dashboard-routes.ts'
import { fillDemo } from '#test/demo-data.ts'
import { readDocument, routesOf } from '#test/documentation.ts'
import { MERCHANT } from '#test/parties.ts'
import { eventually } from '#test/payments.ts'
import { createPerson } from '#test/people.ts'
import { listening } from '#test/receiver.ts'

const HOSTILE = `'><img src=x onerror=alert(1)><b data-hostile>`
/** Pages to which the navigation has no link. */
const UNLINKED_PATHS = [
  '/disputes',
  '/wallet/top-ups',
  '/messages/templates',
  '/messages/suppressions',
  '/settings/members',
  '/settings/email',
  '/settings/profile',
  '/settings/audit',
]
/** A receiver of webhooks whose response has a hostile body. The page of a delivery shows an excerpt of this body. */
const receiver = createServer((request, response) => {
  request.resume().on('end', () => response.writeHead(request.url === '/well' ? 204 : 500).end(HOSTILE))
})

let dashboard: Dashboard
/** The paths of the resource pages that show hostile text. */
let resource_paths: string[]
type ListParameters = { route: RegExp; values: Record<string, string[]> }
let parameters: ListParameters[]
/** Text styles whose contrast is already checked, in light and dark. */
const checked_styles = new Set<string>()
/** The filters whose options the test has compared with the values of the route's parameters. */
const checked_filters: string[] = []
beforeAll(async () => {
  dashboard = await createDashboard({ env: LOOPBACK })
  const { world } = dashboard
  const url = `http://127.0.0.1:${await listening(receiver)}`
  await fillDemo(world.client, {
    stripe: world.provider('stripe'),
    receivers: { well: `${url}/well`, failing: `${url}/failing` },
    customers: 6,
    payments: 24,
  })
  resource_paths = await fillHostile(url)
  parameters = await parametersOfLists()
}, BROWSER_TIMEOUT_MS)
afterAll(async () => {
  await dashboard?.close()
  receiver.close()
})

test('each page has a title and a heading, is accessible in light and dark mode, fits a phone, and escapes texts', async () => {
  const pages = await Promise.all([1, 2].map(() => dashboard.open('/settings', { as: 'operator' })))
  // A page moves the focus to its heading only after a navigation from another page.
  await Promise.all(pages.map((page) => page.locator('main h1').waitFor()))
  const [first] = pages
  const links = first!.getByRole('navigation', { name: 'Main' }).getByRole('link')
  await links.first().waitFor()
  const [job] = await dashboard.world.sql`select id from jobs limit 1`
  const paths = [...(await hrefs(links)), ...UNLINKED_PATHS, ...resource_paths, `/ops/jobs/${job!['id']}`]
  expect(paths.length).toBeGreaterThan(35)
  const visited = new Set<string>()
  async function checkPages(page: Page): Promise<void> {
    for (let path = paths.shift(); path !== undefined; path = paths.shift()) {
      if (visited.has(path)) continue
      visited.add(path)
      await checkPage(page, path)
    }
  }
  await Promise.all(pages.map((page) => checkPages(page)))
  expect(checked_filters.length).toBeGreaterThan(19)
})

test('the list of messages is filtered by sender, and the exported list has sender and channel', async () => {
  const { world } = dashboard
  const client = await world.clientOf()
  const owner = await createPerson(world, { role: 'owner', tenant_id: client.tenant_id })
  const person = '+14155552671'
  const sent = await client.post('/v1/messages/sms', {
    idempotency_key: freshKey(),
    to: person,
    body: 'Hello',
  })
  const { from: ours } = sent.body
  await world.provider('twilio').control('POST', '/inbound', { from: person, to: ours, body: 'Is it blue?' })
  await eventually(async () =>
    expect((await client.get('/v1/messages?status=received')).body).toHaveLength(1),
  )
  const page = await dashboard.open('/messages', { as: owner })
  const rows = page.getByRole('table', { name: 'Messages' }).locator('tbody tr')
  await expect.poll(() => rows.count()).toBe(2)
  await page.getByLabel('From', { exact: true }).fill(person)
  await page.getByLabel('From', { exact: true }).press('Enter')
  await expect.poll(() => rows.count()).toBe(1)
  expect(await rows.locator('td[data-title="From"]').textContent()).toBe(person)
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export CSV' }).click(),
  ])
  const [head, line] = (await readFile(await file.path(), 'utf8')).split('\r\n')
  expect(head).toBe('\u{FEFF}Message,From,To,Status,Failure,Id,Created,Channel')
  expect(line).toMatch(new RegExp(`^,${RegExp.escape(`${person},${ours}`)},received,,.*,sms$`))
})

test('the link of a row has an accessible name even before the name of its customer or recipient is loaded', async () => {
  const page = await dashboard.open('/settings', { as: 'operator' })
  await page.route('**/api/v1/customers/*', () => {})
  await page.goto(`${dashboard.url}/compliance`)
  await page
    .getByRole('main')
    .locator('a')
    .filter({ has: page.locator('.skeleton') })
    .first()
    .waitFor()
  await checkAccessible(page, { only: 'link-name' })
})

/** Records every line that a chart draws after this call, in `drawn_lines`. */
const RECORD_LINES = `
  window.drawn_lines = new Set()
  const record = () => {
    for (const line of document.querySelectorAll('.chart-line')) window.drawn_lines.add(line.getAttribute('d'))
  }
  new MutationObserver(record).observe(document.body, { subtree: true, childList: true, attributes: true })`

test('a chart is never drawn before its width is known, even if its data are already there', async () => {
  const page = await dashboard.open('/', { as: 'operator' })
  const chart = page.getByRole('region', { name: /^Volume by day/ })
  await chart.locator('.chart-line').first().waitFor()
  await page.evaluate(RECORD_LINES)
  const main = page.getByRole('navigation', { name: 'Main' })
  await main.getByRole('link', { name: 'Payments', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Payments' }).waitFor()
  await main.getByRole('link', { name: 'Overview', exact: true }).click()
  await chart.locator('.chart-line').first().waitFor()
  const lines = await page.evaluate<string[]>('Array.from(window.drawn_lines)')
  const widths = lines.map((path) => {
    const positions = Array.from(path.matchAll(/[ML]([\d.]+)/g), ([, x]) => Number(x))
    return Math.max(...positions) - Math.min(...positions)
  })
  expect(widths.length).toBeGreaterThan(0)
  expect(Math.min(...widths)).toBeGreaterThan(200)
})

test('a section of a page that fails to load shows the error in place of its content', async () => {
  const failing = /\/(stats|hours|timeline)(\?|$)/
  const page = await dashboard.open('/settings', { as: 'operator', expects: [/status of 500/] })
  const error = { code: 'internal_error', message: 'It broke.', request_id: 'broken-1' }
  await page.route(failing, (route) => route.fulfill({ status: 500, json: { error } }))
  const parts = resource_paths.filter((path) => /^\/(webhooks|messages|payouts)\/[0-9a-f-]{36}$/.test(path))
  expect(parts.length).toBeGreaterThan(1)
  for (const path of parts) {
    await page.goto(`${dashboard.url}${path}`)
    const alert = page.getByRole('main').getByRole('alert').filter({ hasText: 'It broke.' })
    await alert.getByText('broken-1').waitFor()
    await alert.getByRole('button', { name: 'Try again' }).waitFor()
    await page.waitForFunction(
      () => (globalThis as any).document.querySelector('main .figures-row .bone') === null,
    )
  }
})

test('on a phone the filters of a list are behind a button with the number of active filters', async () => {
  const page = await dashboard.open('/payments?status=captured', { as: 'support', viewport: PHONE })
  const status = page.getByLabel('Status', { exact: true })
  await page.getByRole('table', { name: 'Payments' }).waitFor()
  expect(await status.isVisible()).toBe(false)
  await page.getByRole('button', { name: 'Filters (1)' }).click()
  await status.selectOption('failed')
  await page.waitForURL(/status=failed/)
  await page.getByRole('button', { name: 'Hide filters' }).click()
  await page.getByRole('button', { name: 'Remove filter Status: Failed' }).click()
  await page.getByRole('button', { name: 'Filters', exact: true }).waitFor()
  expect(await status.isVisible()).toBe(false)
})

test('an unset filter names the default of the list, and `Any` excludes nothing', async () => {
  const { client } = dashboard.world
  const archived = await client.post('/v1/merchants', {
    idempotency_key: freshKey(),
    ...MERCHANT,
    display_name: 'Closed Shop',
  })
  expect(archived.status).toBe(201)
  expect((await client.delete(`/v1/merchants/${archived.body.id}`)).status).toBe(200)
  const page = await dashboard.open('/merchants', { as: 'support' })
  for (const [path, label, unset] of [
    ['/merchants', 'Archived', 'Not archived'],
    ['/recipients', 'Archived', 'Not archived'],
    ['/customers', 'Deleted', 'Not deleted'],
  ] as const) {
    await page.goto(`${dashboard.url}${path}`)
    const field = page.getByLabel(label, { exact: true })
    await field.waitFor()
    expect([path, await field.locator('option:checked').innerText()]).toEqual([path, unset])
  }
  await page.goto(`${dashboard.url}/merchants`)
  await page.getByRole('table', { name: 'Merchants' }).getByRole('row').nth(1).waitFor()
  expect(await page.getByText('Closed Shop').count()).toBe(0)
  await page.getByLabel('Archived', { exact: true }).selectOption('Only archived')
  await page.getByText('Closed Shop', { exact: true }).first().waitFor()
})

async function checkPage(page: Page, path: string): Promise<void> {
  const requests: string[] = []
  const listen = (request: Request) => void requests.push(new URL(request.url()).pathname)
  page.on('request', listen)
  // Navigates with the history API, as a link does, because a full load of each page is slow.
  await page.evaluate((to) => {
    const { document, history } = globalThis as any
    document.activeElement?.blur()
    history.pushState({}, '', to)
  }, path)
  // After the navigation the heading has the focus.
  await page.locator('main h1:focus').waitFor()
  await page.waitForFunction(
    () => (globalThis as any).document.querySelector('main [aria-busy=true]') === null,
  )
  page.off('request', listen)
  await checkFilters(page, { path, requests })
  if (resource_paths.includes(path)) await checkShown(page, HOSTILE)
  expect.soft(await page.title(), `title of ${path}`).toMatch(/^.+ · Sluice$/)
  expect.soft(await page.locator('[data-hostile], img[src=x]').count(), `elements of ${path}`).toBe(0)
  await checkAccessible(page, { without: ['color-contrast'] })
  await checkContrast(page, checked_styles)
  await page.emulateMedia({ colorScheme: 'dark' })
  await checkContrast(page, checked_styles)
  const desktop_size = page.viewportSize()!
  await page.setViewportSize(PHONE)
  await checkPageWidth(page)
  // On a phone a list begins with its rows: the filters are behind a button.
  expect.soft(await page.locator('.filter-bar > .filters:visible').count(), `filters of ${path}`).toBe(0)
  await page.setViewportSize(desktop_size)
  await page.emulateMedia({ colorScheme: 'light' })
}

/** The options of a filter are exactly the values of the route's parameter. */
async function checkFilters(
  page: Page,
  { path, requests }: { path: string; requests: string[] },
): Promise<void> {
  for (const select of await page.locator('.filter-bar select').all()) {
    const label = await select.evaluate((element: any) => element.labels[0].textContent as string)
    const name = label.toLowerCase().replaceAll(' ', '_')
    const accepted = parameters.find(
      ({ route, values }) => requests.some((one) => route.test(one)) && values[name],
    )
    if (accepted === undefined) continue
    const options: string[] = await select
      .locator('option')
      .evaluateAll((all: any[]) => all.map(({ value }) => value))
    const offered = options.filter((value) => value !== '').toSorted()
    expect.soft(offered, `${label} of ${path}`).toEqual(accepted.values[name]!.toSorted())
    checked_filters.push(`${path} ${name}`)
  }
}

/** The enumerated parameters of the lists, by route, each with its values except the default. */
async function parametersOfLists(): Promise<ListParameters[]> {
  const document = await readDocument(dashboard.world.client)
  const pattern = (path: string) => new RegExp(`^${path.replaceAll(/\{\w+\}|:\w+/g, '[^/]+')}$`)
  const resolved = (root: any, one: any = {}): any =>
    one.$ref === undefined
      ? one
      : one.$ref
          .slice(2)
          .split('/')
          .reduce((at: any, key: string) => at[key], root)
  const valuesOf = (root: any, schemas: [name: string, schema: any][]) =>
    Object.fromEntries(
      schemas.flatMap(([name, schema = {}]) => {
        const values: string[] | undefined = resolved(root, schema).enum
        return values === undefined ? [] : [[name, values.filter((value) => value !== schema.default)]]
      }),
    )
  const api = routesOf(document)
    .filter(({ method }) => method === 'GET')
    .map(({ path, operation: { parameters: all = [] } }) => ({
      route: pattern(`/api${path}`),
      values: valuesOf(
        document,
        all.map((one: any) => resolved(document, one)).map(({ name, schema }: any) => [name, schema]),
      ),
    }))
  const own = (await dashboardRoutes()).flatMap(({ url, schema }) => {
    if (schema?.querystring === undefined) return []
    const query = z.toJSONSchema(schema.querystring as z.ZodType, { io: 'input', unrepresentable: 'any' })
    return [{ route: pattern(url), values: valuesOf(query, Object.entries(query.properties ?? {})) }]
  })
  return [...api, ...own]
}

/** Checks that the page shows the text as text, not as markup. */
async function checkShown(page: Page, text: string): Promise<void> {
  const found = page.getByRole('main').getByText(text).first()
  await found
    .waitFor({ timeout: 3_000 })
    .catch(() => expect.soft(page.url(), 'does not show the text').toBe(''))
}

async function hrefs(links: ReturnType<Page['getByRole']>): Promise<string[]> {
  const found = await Promise.all((await links.all()).map((link) => link.getAttribute('href')))
  return found.filter((href) => href !== null)
}

/** Writes the hostile text into every field that accepts it. Returns the paths of the pages that show it. */
async function fillHostile(receiver_url: string): Promise<string[]> {
  const { world } = dashboard
  const { client, sql, tenant_id } = world
  const post = async (path: string, body: object) => {
    const response = await client.post(path, { idempotency_key: freshKey(), ...body })
    expect([response.status, response.text]).toEqual([expect.toBeOneOf([200, 201, 202]), expect.anything()])
    return response.body
  }
  const metadata = { note: HOSTILE }
  const customer = await post('/v1/customers', {
    name: HOSTILE,
    email: `"${HOSTILE}"@people.example`,
    external_id: HOSTILE,
    metadata,
  })
  const merchant = await post('/v1/merchants', {
    legal_name: HOSTILE,
    display_name: HOSTILE,
    country: 'GB',
    support_email: 'help@shop.example',
    metadata,
  })
  const recipient = await post('/v1/recipients', {
    name: HOSTILE,
    type: 'account',
    currency: 'usd',
    country: 'US',
    destination: 'acct_success',
    metadata,
  })
  const payment = await post('/v1/payments', {
    amount_minor: 5000,
    currency: 'USD',
    method: 'card',
    payment_method: 'pm_card_visa',
    customer_id: customer.id,
    merchant_id: merchant.id,
    description: HOSTILE,
    metadata,
  })
  await post(`/v1/payments/${payment.id}/capture`, {})
  const refund = await post(`/v1/payments/${payment.id}/refunds`, { amount_minor: 100, metadata })
  const payout = await post('/v1/payouts', {
    amount_minor: 100,
    currency: 'usd',
    recipient_id: recipient.id,
    description: HOSTILE,
    metadata,
  })
  await client.post(`/v1/payouts/${payout.id}/fail`, { reason: HOSTILE })
  const top_up = await post('/v1/wallet/top_ups', {
    amount_minor: 100,
    currency: 'usd',
    description: HOSTILE,
    metadata,
  })
  const kyc = await post('/v1/compliance/kyc', {
    subject_type: 'customer',
    subject_id: customer.id,
    metadata,
  })
  await post(`/v1/compliance/kyc/${kyc.id}/decide`, { decision: 'approved', reason: HOSTILE })
  const email = await post('/v1/messages/email', {
    to: ['ada@people.example'],
    subject: HOSTILE,
    text: HOSTILE,
    html: HOSTILE,
    tags: ['plain'],
    metadata,
  })
  const sms = await post('/v1/messages/sms', { to: '+14155550132', body: HOSTILE, metadata })
  await post('/v1/messages/templates', {
    name: 'hostile',
    channel: 'email',
    subject: HOSTILE,
    html: HOSTILE,
    metadata,
  })
  const task = await post('/v1/ai/tasks', { kind: 'generate', input: { prompt: HOSTILE }, metadata })
  const endpoint = await post('/v1/webhook_endpoints', {
    url: `${receiver_url}/failing?hostile`,
    types: ['customer.*'],
    description: HOSTILE,
    headers: { 'x-note': HOSTILE },
    metadata,
  })
  await client.patch(`/v1/customers/${customer.id}`, { phone: '+14155550132' })
  const delivery = await eventually(async () => {
    const { body } = await client.get(`/v1/webhook_endpoints/${endpoint.id}/deliveries`)
    expect(body[0]).toMatchObject({ last_status_code: 500 })
    return body[0]
  })
  await dashboard.person('operator')
  await sql`update tenants set name = ${HOSTILE} where id = ${tenant_id}`
  await sql`update users set name = ${HOSTILE}`
  await sql`update api_keys set name = ${HOSTILE} where tenant_id = ${tenant_id}`
  return [
    `/customers/${customer.id}`,
    `/merchants/${merchant.id}`,
    `/recipients/${recipient.id}`,
    `/payments/${payment.id}`,
    `/refunds/${refund.id}`,
    `/payouts/${payout.id}`,
    `/wallet/top-ups/${top_up.id}`,
    `/compliance/${kyc.id}`,
    `/messages/${email.id}`,
    `/messages/${sms.id}`,
    `/ai-tasks/${task.id}`,
    `/events/${delivery.event_id}`,
    `/webhooks/${endpoint.id}`,
    `/webhooks/deliveries/${delivery.id}`,
    `/customers?email=${encodeURIComponent(HOSTILE)}`,
  ]
}

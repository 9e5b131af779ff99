// Tests the settings pages in a browser: members, roles, sessions, two-factor, the audit log, templates and disabled
// areas.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fetchInPage, BROWSER_TIMEOUT_MS, createDashboard, type Dashboard } from '#test/browser.ts'
import { authorizedPayment } from '#test/payments.ts'
import { codeOf, createBrowser, createPerson, PASSWORD, signIn, tryPassword } from '#test/people.ts'

let dashboard: Dashboard
beforeAll(async () => {
  // Without email the page shows the inviter the link of an invitation.
  dashboard = await createDashboard({ env: { EMAIL_FROM: '', DISABLED_AREAS: 'ai' } })
}, BROWSER_TIMEOUT_MS)
afterAll(() => dashboard?.close())

const clickButton = (page: Page, name: string) =>
  page.getByRole('main').getByRole('button', { name, exact: true }).click()

/** Confirms the open dialog with the button `name` and waits for the link to the audit entry. */
async function confirm(page: Page, name: string): Promise<void> {
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name, exact: true }).click()
  await dialog.getByRole('link', { name: /^Audit entry/ }).waitFor()
}

async function closeDialog(page: Page): Promise<void> {
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await dialog.waitFor({ state: 'hidden' })
}

test('a person is invited by a link, joins, gets another role, and is removed', async () => {
  const { world } = dashboard
  const person = await createPerson(world)
  const page = await dashboard.open('/settings/members', { as: 'owner' })
  const dialog = page.getByRole('dialog')
  await clickButton(page, 'Invite')
  await dialog.getByLabel('Email').fill(person.email)
  await dialog.getByLabel('Role').selectOption('support')
  await confirm(page, 'Send invitation')
  const link = await dialog.getByLabel('Invitation link').inputValue()
  await closeDialog(page)
  const invitations = page.getByRole('table', { name: 'Open invitations' }).getByRole('row')
  await invitations.filter({ hasText: person.email }).waitFor()

  // After the removal, requests of the person's page are refused.
  const person_page = await dashboard.open(link, { as: person, expects: [/status of 409 .*\/api\//] })
  const fetchSession = async () => (await fetchInPage(person_page, 'GET', '/api/session')).body
  await person_page.getByRole('heading', { name: 'Join acme' }).waitFor()
  await person_page.getByRole('button', { name: 'Accept invitation' }).click()
  await person_page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  expect(await fetchSession()).toMatchObject({ role: 'support', tenant: { name: 'acme' } })

  await page.reload()
  const member = page
    .getByRole('table', { name: 'Members' })
    .getByRole('row')
    .filter({ hasText: person.email })
  await clickButton(page, `Change role of ${person.email}`)
  await dialog.getByLabel('Role').selectOption('developer')
  await confirm(page, 'Change role')
  await closeDialog(page)
  await member.getByText('developer').waitFor()
  expect(await fetchSession()).toMatchObject({ role: 'developer' })
  expect(await invitations.count()).toBe(0)

  await clickButton(page, `Remove ${person.email}`)
  await confirm(page, 'Remove')
  await closeDialog(page)
  await member.waitFor({ state: 'hidden' })
  expect(await fetchSession()).toMatchObject({ tenant: null })
  await person_page.getByText('you no longer have access to this one').first().waitFor()
})

test("a user's other sessions can be ended singly or all at once", async () => {
  const { url, world } = dashboard
  const person = await createPerson(world, { role: 'support' })
  const others = [await signIn(url, person), await signIn(url, person), await signIn(url, person)]
  const countActive = async () => {
    const answers = await Promise.all(others.map((other) => other.get('/api/session')))
    return answers.filter(({ status }) => status === 200).length
  }
  const page = await dashboard.open('/settings/profile', { as: person })
  const dialog = page.getByRole('dialog')
  const rows = page.getByRole('table', { name: 'Sessions' }).getByRole('row')
  const end_buttons = rows.getByRole('button', { name: 'End session' })
  await rows.filter({ hasText: 'this one' }).waitFor()
  expect([await end_buttons.count(), await countActive()]).toEqual([3, 3])
  await end_buttons.first().click()
  await dialog.getByRole('button', { name: 'End session' }).click()
  await expect.poll(() => end_buttons.count()).toBe(2)
  expect(await countActive()).toBe(2)
  await clickButton(page, 'End all other sessions')
  await dialog.getByText('2 sessions are signed out at once').waitFor()
  await dialog.getByRole('button', { name: 'End all other sessions' }).click()
  await expect.poll(() => end_buttons.count()).toBe(0)
  expect(await countActive()).toBe(0)
  expect((await fetchInPage(page, 'GET', '/api/session')).body.user.email).toBe(person.email)
})

test('a second factor is enabled and disabled', async () => {
  const { url, world } = dashboard
  const person = await createPerson(world, { role: 'support' })
  /** True if the person can sign in with the password alone. */
  const passwordSuffices = async () => {
    const { status, body } = await tryPassword(createBrowser(url), person.email)
    expect(status).toBe(200)
    return body.twoFactorRedirect !== true
  }
  const page = await dashboard.open('/settings/profile', { as: person, expects: [/status of 401 .*\/api\//] })
  const dialog = page.getByRole('dialog')
  const password = dialog.getByLabel('Password', { exact: true })
  await clickButton(page, 'Enable two-factor')
  await password.fill(PASSWORD)
  await dialog.getByRole('button', { name: 'Continue' }).click()
  await dialog.getByRole('img', { name: 'QR code for your app' }).waitFor()
  const secret = await dialog.getByLabel('Secret').inputValue()
  await dialog.getByLabel('Code', { exact: true }).fill(codeOf(`otpauth://totp/Sluice?secret=${secret}`))
  expect(await passwordSuffices()).toBe(true)
  // Before the page gets the new session cookie, it sends a request with the old cookie. That request is refused.
  const answer = Promise.withResolvers<void>()
  await page.route('**/api/auth/two-factor/verify-totp', async (route, request) => {
    // Node fetches the response, because the browser would store the new session cookie at once.
    const { status, headers } = await fetch(request.url(), {
      method: 'POST',
      headers: await request.allHeaders(),
      body: request.postData(),
    })
    await answer.promise
    await route.fulfill({ status, headers: Object.fromEntries(headers), body: '{}' })
  })
  const refused = page.waitForResponse(
    (response) => response.url().endsWith('/api/session') && response.status() === 401,
  )
  await dialog.getByRole('button', { name: 'Confirm code' }).click()
  await (await refused).finished()
  answer.resolve()
  const codes = await dialog.getByLabel('backup codes', { exact: true }).textContent()
  expect(codes!.split('\n').length).toBeGreaterThan(5)
  await closeDialog(page)
  expect(await passwordSuffices()).toBe(false)

  await clickButton(page, 'Disable two-factor')
  await password.fill(PASSWORD)
  await dialog.getByRole('button', { name: 'Disable two-factor' }).click()
  await page.getByRole('main').getByRole('button', { name: 'Enable two-factor' }).waitFor()
  expect(await passwordSuffices()).toBe(true)
})

test('what the role of a user does not include is refused on the pages and in direct requests', async () => {
  const { client, sql, tenant_id } = dashboard.world
  const { id } = await authorizedPayment(client, { amount_minor: 6000 })
  const before = await sql`select from api_keys where tenant_id = ${tenant_id}`
  const requests: [path: string, body: object, roles: string[]][] = [
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
    const can_capture = role === 'support' || role === 'admin'
    expect(await page.getByRole('button', { name: 'Capture', exact: true }).count(), role).toBe(
      can_capture ? 1 : 0,
    )
    expect(await page.getByRole('link', { name: 'Queues' }).count(), role).toBe(0)
    for (const [path, body, roles] of requests) {
      if (roles.includes(role)) continue
      const { status } = await fetchInPage(page, 'POST', path, body)
      expect(status, `${role} at ${path}`).toBe(403)
    }
    await page.goto(`${dashboard.url}/settings/api-keys`)
    await page.getByRole('table', { name: 'API keys' }).waitFor()
    const create_buttons = await page.getByRole('button', { name: 'Create key' }).count()
    expect(create_buttons > 0, role).toBe(role === 'developer' || role === 'admin')
    if (create_buttons === 0) await page.getByText('owner, admin, or developer').waitFor()
  }
  expect((await client.get(`/v1/payments/${id}`)).body.status).toBe('authorized')
  expect(await sql`select from api_keys where tenant_id = ${tenant_id}`).toHaveLength(before.length)
})

test('the audit log shows the actor, the action and the outcome of each entry', async () => {
  const { client } = dashboard.world
  const { id } = await authorizedPayment(client)
  const { email } = await dashboard.person('support')
  const page = await dashboard.open('/', { as: 'support', expects: [/status of 409/] })
  const statuses = []
  for (const _ of [1, 2])
    statuses.push((await fetchInPage(page, 'POST', `/api/v1/payments/${id}/capture`, {})).status)
  expect(statuses).toEqual([200, 409])

  await page.goto(`${dashboard.url}/settings/audit`)
  await page.getByRole('searchbox', { name: 'Who' }).fill(email)
  await page.keyboard.press('Enter')
  const rows = page
    .getByRole('table', { name: 'Audit entries' })
    .getByRole('row')
    .filter({ hasText: 'Capture payment' })
  await rows.filter({ hasText: 'Refused, 409' }).getByText(email).waitFor()
  await rows.filter({ hasText: 'Done' }).getByText(email).waitFor()
  await rows.filter({ hasText: 'Refused' }).getByRole('link', { name: 'Capture payment' }).click()
  const entry = page.getByRole('dialog')
  for (const text of [email, id, 'Refused, 409']) await entry.getByText(text, { exact: true }).waitFor()
  await page.getByRole('dialog').press('Escape')

  // An act without a recorded outcome is not shown as done.
  const { sql, tenant_id } = dashboard.world
  const [user] = await sql`select id as actor_id from users where email = ${email}`
  const details = { expects_outcome: true }
  await sql`
    select append_audit_entry(${sql.json({ ...user, tenant_id, action: 'profile.rename', details })}::jsonb)`
  await page.reload()
  const renamed = page.getByRole('row').filter({ hasText: 'Profile: rename' })
  await renamed.getByText('Not on record').waitFor()
  await renamed.getByText(email).waitFor()
  expect(await renamed.getByText('Done').count()).toBe(0)
  // A filter for an unknown actor finds no rows.
  await page.getByRole('searchbox', { name: 'Who' }).fill('nobody@people.example')
  await page.keyboard.press('Enter')
  await page.getByText('No rows match these filters').waitFor()
})

test('the audit log shows the time up to which it was searched, and searches further on request', async () => {
  const { sql, tenant_id } = dashboard.world
  const { email } = await dashboard.person('support')
  const page = await dashboard.open('/', { as: 'support' })
  await sql`
    insert into audit_entries (seq, at, tenant_id, actor, action, details, previous, hash)
    select 1000000000 + n, now(), ${tenant_id}, 'somebody', 'getPayment', '{}', '', '' from generate_series(1, 10000) n`
  await page.goto(`${dashboard.url}/settings/audit?actor=${encodeURIComponent(email)}&action=Sign+in`)
  await page.getByText('No matches so far').waitFor()
  await page.getByRole('status').filter({ hasText: 'Searched back to' }).waitFor()
  await clickButton(page, 'Search further')
  await page.getByRole('table', { name: 'Audit entries' }).getByText(email).first().waitFor()
  expect(await page.getByText('Searched back to').count()).toBe(0)
})

test('a template is created, changed and previewed as a message', async () => {
  const { client } = dashboard.world
  const page = await dashboard.open('/messages/templates', { as: 'developer' })
  const dialog = page.getByRole('dialog')
  // An empty list shows this button a second time.
  await page.getByRole('button', { name: 'Create template' }).first().click()
  await dialog.getByLabel('Name').fill('welcome')
  await dialog.getByLabel('Subject').fill('Welcome')
  await dialog.getByLabel('Text').fill('It is good to have you.')
  await dialog.getByRole('button', { name: 'Create template' }).click()
  await page.waitForURL(/\/messages\/templates\/[\w-]{36}$/)
  await page.getByRole('heading', { level: 1, name: 'welcome' }).waitFor()
  const id = page.url().split('/').at(-1)!
  const save = page.getByRole('button', { name: 'Save template' })
  await page.getByLabel('Text', { exact: true }).fill('It is good to have you, {{ name }}.')
  await save.click()
  await page.getByText('Template saved.').waitFor()
  await expect.poll(() => save.isDisabled()).toBe(true)
  expect((await client.get(`/v1/messages/templates/${id}`)).body).toMatchObject({
    subject: 'Welcome',
    text: 'It is good to have you, {{ name }}.',
  })
  await page.getByLabel('Variables').fill('{ "name": "Ada" }')
  await page.getByRole('button', { name: 'Preview template' }).click()
  await page.getByText('It is good to have you, Ada.').waitFor()
})

test('pages of a disabled area show that it is switched off', async () => {
  const page = await dashboard.open('/ai-tasks', { as: 'owner' })
  await page.getByRole('heading', { level: 1, name: 'AI tasks' }).waitFor()
  await page.getByRole('heading', { level: 2, name: 'This area is switched off' }).waitFor()
  await page.goto(`${dashboard.url}/ai-tasks/0198`)
  await page.getByRole('heading', { level: 2, name: 'This area is switched off' }).waitFor()
  const link = page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'AI tasks' })
  expect(await link.getAttribute('aria-description')).toBe('off')
})

// Sign-in with a browser (invitations, passwords, one-time codes, passkeys), API keys on the dashboard, and requests of
// other sites.
import { createServer } from 'node:http'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import {
  fetchInPage,
  BROWSER_TIMEOUT_MS,
  checkAccessible,
  createDashboard,
  signInByPage,
  type Dashboard,
} from '#test/browser.ts'
import { createClient } from '#test/client.ts'
import { codeOf, createBrowser, createPerson, PASSWORD, signIn, tryPassword } from '#test/people.ts'
import { eventually } from '#test/payments.ts'
import { listening } from '#test/receiver.ts'

let dashboard: Dashboard
beforeAll(async () => {
  dashboard = await createDashboard()
}, BROWSER_TIMEOUT_MS)
afterAll(() => dashboard?.close())

/** The browser's console message for a session request without a session. */
const NO_SESSION = /status of 401 .*\/api\/session$/

test('an invited person signs up with the link and is signed in', async () => {
  const { url, world } = dashboard
  const owner = await signIn(url, await dashboard.person('owner'))
  const email = 'new@people.example'
  expect((await owner.post('/api/members/invitations', { email, role: 'support' })).body).toMatchObject({
    sent: true,
  })
  const path = await eventually(async () => {
    const [sent] = await world.provider('smtp').control('GET', `/messages?to=${email}`)
    expect(sent).toBeDefined()
    return /\/invitation\/[\w-]{43}/.exec(sent.text)![0]
  })
  const page = await dashboard.open(path, { expects: [NO_SESSION] })
  await page.getByRole('heading', { name: 'Join acme' }).waitFor()
  await checkAccessible(page)
  await page.getByLabel('Name').fill('New Person')
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD)
  await page.getByRole('button', { name: 'Accept invitation' }).click()
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.getByRole('button', { name: 'Account' }).click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('button', { name: 'Sign in', exact: true }).waitFor()
  expect((await fetchInPage(page, 'GET', '/api/session')).status).toBe(401)
  await signInByPage(page, { email })
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
})

test('a wrong password shows an error, and the right password opens the requested page', async () => {
  const developer = await dashboard.person('developer')
  const page = await dashboard.open('/customers?email=ada%40example.com', {
    expects: [NO_SESSION, /status of 401 .*\/sign-in\/email$/],
  })
  await signInByPage(page, developer, 'not the password')
  await expect
    .poll(() => page.getByRole('alert').textContent())
    .toContain('The email address or the password is wrong.')
  await checkAccessible(page)
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Customers' }).waitFor()
  expect(new URL(page.url()).search).toBe('?email=ada%40example.com')
  expect(await page.getByRole('searchbox', { name: 'Email' }).inputValue()).toBe('ada@example.com')
})

test('after too many wrong passwords the page shows the time to wait', async () => {
  const { url, world } = dashboard
  const person = await createPerson(world, { role: 'support' })
  const browser = createBrowser(url)
  for (let nth = 0; nth < 10; nth++) await tryPassword(browser, person.email, 'not the password')
  const page = await dashboard.open('/sign-in', { expects: [/status of 429 .*\/sign-in\/email$/] })
  await signInByPage(page, person, 'not the password')
  await expect
    .poll(() => page.getByRole('alert').textContent())
    .toMatch(/^Too many attempts\. Try again in \d+ (s|min)\.$/)
  await page.getByText(/an operator of this installation/).waitFor()
})

test('a person with one-time codes signs in with a password and a code', async () => {
  const { url, world } = dashboard
  const person = await createPerson(world, { role: 'admin' })
  const browser = await signIn(url, person)
  const { totpURI } = (await browser.post('/api/auth/two-factor/enable', { password: PASSWORD })).body
  expect((await browser.post('/api/auth/two-factor/verify-totp', { code: codeOf(totpURI) })).status).toBe(200)

  const page = await dashboard.open('/sign-in', { expects: [/status of 401 .*verify-totp/] })
  await signInByPage(page, person)
  await page.getByRole('heading', { name: 'Enter your code' }).waitFor()
  const code = codeOf(totpURI, 1)
  await page.getByLabel('Code').fill(code === '123456' ? '654321' : '123456')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').waitFor()
  await page.getByLabel('Code').fill(code)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
})

test('after a used one-time code the page asks for the password again, and the next code signs in', async () => {
  const { url, world } = dashboard
  const person = await createPerson(world, { role: 'admin' })
  const browser = await signIn(url, person)
  const { totpURI } = (await browser.post('/api/auth/two-factor/enable', { password: PASSWORD })).body
  const used = codeOf(totpURI)
  expect((await browser.post('/api/auth/two-factor/verify-totp', { code: used })).status).toBe(200)

  const page = await dashboard.open('/sign-in', { expects: [/status of 401 .*verify-totp/] })
  await signInByPage(page, person)
  await page.getByLabel('Code').fill(used)
  await page.keyboard.press('Enter')
  await page.getByText('This code was used before. Sign in again with the next one.').waitFor()
  expect(await page.getByLabel('Email').inputValue()).toBe(person.email)
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD)
  await page.keyboard.press('Enter')
  await page.getByLabel('Code').fill(codeOf(totpURI, 1))
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
})

test('a new passkey signs in without a password', async () => {
  const person = await createPerson(dashboard.world, { role: 'admin' })
  const page = await dashboard.open('/settings/profile', { as: person })
  const session = await page.context().newCDPSession(page)
  await session.send('WebAuthn.enable')
  await session.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
    },
  })
  await page.getByRole('button', { name: 'Add passkey' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('Laptop')
  await dialog.getByLabel('Password', { exact: true }).fill(PASSWORD)
  await dialog.getByRole('button', { name: 'Add passkey' }).click()
  await page.getByRole('row').filter({ hasText: 'Laptop' }).waitFor()
  // The profile page may still send requests that fail after the sign-out.
  await page.goto(`${dashboard.url}/customers`)
  await page.getByText('No customers yet').waitFor()
  await page.getByRole('button', { name: 'Account' }).click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  expect((await fetchInPage(page, 'GET', '/api/session')).body.user.email).toBe(person.email)
})

test('an API key is created, used, rotated and revoked', async () => {
  const api_url = dashboard.world.client.url
  const status = async (key: string, path = '/v1/payments') =>
    (await createClient(api_url, key).get(path)).status
  const page = await dashboard.open('/', { as: 'developer' })
  await page.getByRole('link', { name: 'Settings', exact: true }).click()
  await page.getByRole('tab', { name: 'API Keys', selected: true }).waitFor()
  await page.getByRole('button', { name: 'Create key' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').waitFor()
  expect(await dialog.getByText('It needs').count()).toBe(0)
  await dialog.getByLabel('Name').fill('Shop')
  await dialog.getByText('Choose at least one scope.').waitFor()
  // A key has no scope that the role of its creator lacks.
  expect(await dialog.getByRole('checkbox', { name: 'payments:write' }).isDisabled()).toBe(true)
  expect(await dialog.getByRole('checkbox', { name: 'webhooks:write' }).isDisabled()).toBe(false)
  await dialog.getByRole('checkbox', { name: 'payments:read' }).check()
  await checkAccessible(page)
  await dialog.getByRole('button', { name: 'Create', exact: true }).click()
  const field = dialog.getByLabel('API key')
  const secret = await field.inputValue()
  expect(secret).toMatch(/^sk_/)
  expect(await field.getAttribute('readonly')).not.toBeNull()
  await dialog.getByText('not shown again').waitFor()
  await dialog.getByRole('button', { name: 'Copy' }).waitFor()
  expect([await status(secret), await status(secret, '/v1/payouts')]).toEqual([200, 403])
  expect(await field.evaluate((each: any) => each.scrollWidth <= each.clientWidth)).toBe(true)
  await page.keyboard.press('Escape')
  await page.mouse.click(5, 5)
  // Waits longer than a dialog takes to close: Escape and the click outside must not have closed this dialog.
  await page.waitForTimeout(500)
  expect(await field.inputValue()).toBe(secret)
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await dialog.waitFor({ state: 'hidden' })
  expect(await page.content()).not.toContain(secret)

  const rows = page.getByRole('row').filter({ hasText: 'Shop' })
  await rows.getByRole('button', { name: 'Rotate' }).click()
  await dialog.getByLabel('The old key still works').selectOption({ label: 'Not at all' })
  await dialog.getByRole('button', { name: 'Rotate' }).click()
  const second = await dialog.getByLabel('API key').inputValue()
  await expect.poll(() => status(secret)).toBe(401)
  expect(await status(second)).toBe(200)
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await dialog.waitFor({ state: 'hidden' })

  await rows
    .filter({ hasText: second.slice(-4) })
    .getByRole('button', { name: 'Revoke' })
    .click()
  await dialog.getByRole('button', { name: 'Back' }).click()
  await dialog.waitFor({ state: 'hidden' })
  expect(await status(second)).toBe(200)
  await rows.getByRole('button', { name: 'Revoke' }).click()
  await dialog.getByRole('button', { name: 'Revoke' }).click()
  await dialog.getByRole('link', { name: /^Audit entry/ }).waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'hidden' })
  await expect.poll(() => status(second)).toBe(401)
  await expect.poll(() => rows.getByRole('button').count()).toBe(0)
})

test('a page of another site can neither act nor read with the session of a signed-in person', async () => {
  const { url, world } = dashboard
  const other = createServer((_request, response) =>
    response.writeHead(200, { 'content-type': 'text/html' }).end(`<!doctype html><title>Other</title>
      <form method="post" action="${url}/api/auth/sign-out"><button>Post</button></form>
      <form method="post" enctype="text/plain" action="${url}/api/keys">
        <input name='{"name":"stolen","scopes":["payments:read"],"x":"' value='"}'><button>Make a key</button></form>`),
  )
  const port = await listening(other)
  onTestFinished(() => void other.close())
  const owner = await dashboard.person('owner')
  const before = await world.sql`select from api_keys`
  for (const host of ['127.0.0.1', 'localhost']) {
    const from = `http://${host}:${port}`
    const page = await dashboard.open('/customers', { as: owner, others: [from], expects: [/./] })
    for (const name of ['Post', 'Make a key']) {
      await page.goto(from)
      const [answer] = await Promise.all([
        page.waitForResponse((response) => response.request().method() === 'POST'),
        page.getByRole('button', { name }).click(),
      ])
      expect(answer.status()).toBe(403)
    }
    await page.goto(from)
    const fetched = await page.evaluate(async (to) => {
      const tries = [
        { method: 'POST', credentials: 'include' },
        { method: 'POST', credentials: 'include', mode: 'no-cors', body: '{}' },
        { credentials: 'include' },
      ] as const
      const request = async (init: RequestInit) => {
        try {
          return (await fetch(`${to}/api/session`, init)).type
        } catch {
          return 'refused'
        }
      }
      return await Promise.all(tries.map((each) => request(each)))
    }, url)
    expect(fetched).toEqual(['refused', expect.stringMatching(/^(?:refused|opaque)$/), 'refused'])
    await page.goto(`${url}/customers`)
    await page.getByRole('heading', { level: 1, name: 'Customers' }).waitFor()
    expect((await fetchInPage(page, 'GET', '/api/session')).body.user.email).toBe(owner.email)
  }
  expect(await world.sql`select from api_keys`).toHaveLength(before.length)
})

test('a page of a tenant that is no longer selected in the session shows a notice and changes nothing', async () => {
  const { world } = dashboard
  const other = await world.clientOf({ tenant: 'second' })
  const person = await createPerson(world, { role: 'owner' })
  await world.sql`insert into members (tenant_id, user_id, role) values (${other.tenant_id}, ${person.user_id}, 'owner')`
  const page = await dashboard.open('/settings/profile', { as: person, expects: [/409/] })
  await page.getByRole('button', { name: 'Tenant: acme' }).waitFor()
  const chosen = await fetchInPage(page, 'POST', '/api/session/tenant', { tenant_id: other.tenant_id })
  expect(chosen.status).toBe(200)
  await page.getByRole('link', { name: 'Customers', exact: true }).click()
  await page.getByRole('status', { name: 'Notices' }).getByText('Another tenant was chosen').waitFor()
  await page.getByRole('button', { name: 'Reload page' }).click()
  await page.getByRole('button', { name: 'Tenant: second' }).waitFor()
  // After a switch by the menu, the page shows no notice.
  await page.getByRole('button', { name: 'Tenant: second' }).click()
  await page.getByRole('menuitem', { name: /acme/ }).click()
  await page.getByRole('button', { name: 'Tenant: acme' }).waitFor()
  await world.sql`delete from members where tenant_id = ${world.tenant_id} and user_id = ${person.user_id}`
  await page.goto(`${dashboard.url}/payments`)
  await page.getByRole('heading', { name: 'Choose a tenant' }).waitFor()
  await page
    .getByRole('main')
    .getByRole('button', { name: /second/ })
    .click()
  await page.getByRole('button', { name: 'Tenant: second' }).waitFor()
})

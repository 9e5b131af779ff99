// The dashboard process over real sockets: sign-in, allowed origins and hosts, refused requests.
import { pino } from 'pino'
import { afterAll, expect, onTestFinished } from 'vitest'
import { createLog } from '#core/log.ts'
import type { Service } from '#core/service.ts'
import { createPasskey } from '#test/passkeys.ts'
import { startInThisProcess } from '#test/parts.ts'
import {
  codeOf,
  createBrowser,
  createPerson,
  entriesOf,
  PASSWORD,
  signedInAs,
  signIn,
  tryPassword,
} from '#test/people.ts'
import { until } from '#test/process.ts'
import { requestBytes, sendBytes } from '#test/raw.ts'
import { testIn } from '#test/world.ts'

const HTTPS = 'https://dash.example'
const HTTPS_HEADERS = { host: 'dash.example', origin: HTTPS, 'content-type': 'application/json' }

let url: string
/** As in production: the dashboard has its own https URL and an untrusted proxy. */
let strict: Service
const log = createLog('silent', 'test')

const test = testIn({
  parts: ['api', 'webhooks', 'worker', 'dashboard'],
  env: { TRUSTED_PROXIES: '127.0.0.1/32' },
})
test.beforeAll(async ({ world }) => {
  url = world.dashboard_url
  strict = await startInThisProcess(
    'dashboard',
    { ...world.env, TRUSTED_PROXIES: '', DASHBOARD_URL: HTTPS },
    log,
  )
})
afterAll(async () => {
  await strict?.close()
})

test('a request of a page writes one log line with its route and user', async ({ world }) => {
  const lines: string[] = []
  const memory_log = pino({}, { write: (line: string) => void lines.push(line) })
  const logged = await startInThisProcess('dashboard', { ...world.env, LOG_REQUESTS: '1' }, memory_log)
  onTestFinished(() => logged.close())
  const person = await createPerson(world, { role: 'developer' })
  const browser = await signIn(logged.url!, person)
  await browser.get('/api/v1/customers', { 'x-request-id': 'page-4711' })
  await browser.get('/api/keys', { 'x-request-id': 'page-4712' })
  await browser.get('/api/session', { 'x-request-id': 'page-4713' })
  const request_lines = await until('all lines are written', () => {
    const found = lines.filter((line) => /page-471[123]/.test(line)).map((line) => JSON.parse(line) as object)
    return found.some((line) => Object.values(line).includes('page-4713')) && found
  })
  const { user_id, tenant_id } = { ...person, ...world }
  expect(request_lines).toMatchObject([
    { request_id: 'page-4711', route: '/v1/customers', status: 200, user_id, tenant_id },
    { request_id: 'page-4712', route: '/api/keys', status: 200, user_id, tenant_id },
    { request_id: 'page-4713', route: '/api/session', status: 200, user_id, tenant_id },
  ])
  expect(request_lines[0]).not.toHaveProperty('key_id')
})

test('resources are found by email, text, id and reference, and the results state the type of the resource', async ({
  world,
}) => {
  const browser = await signedInAs(world, { role: 'support' })
  const find = async (q: string) => (await browser.get(`/api/find?q=${encodeURIComponent(q)}`)).body
  const key = { idempotency_key: 'found-1' }
  const email = 'augusta@find.example'
  const customer = await world.client.post('/v1/customers', { ...key, email, name: 'Augusta Lovelace' })
  const payment = await world.client.post('/v1/payments', {
    ...key,
    amount_minor: 1234,
    currency: 'USD',
    method: 'card',
    payment_method: 'pm_card_visa',
    description: 'Order 17, 100% cotton',
  })
  const customer_hit = {
    resource: 'customer',
    id: customer.body.id,
    name: 'Augusta Lovelace',
    amount_minor: null,
  }
  const payment_hit = { resource: 'payment', id: payment.body.id, amount_minor: 1234, currency: 'USD' }
  expect(await find(email)).toMatchObject([{ ...customer_hit, by: 'email' }])
  const mixed_case = { idempotency_key: 'found-2', email: 'Grace@Find.Example', name: 'Grace Hopper' }
  const grace = (await world.client.post('/v1/customers', mixed_case)).body
  for (const typed of ['Grace@Find.Example', 'grace@find.example', 'GRACE@FIND.EXAMPLE'])
    expect([typed, await find(typed)]).toMatchObject([
      typed,
      [{ resource: 'customer', id: grace.id, by: 'email' }],
    ])
  expect(await find('AUGUSTA@find.example')).toMatchObject([{ ...customer_hit, by: 'email' }])
  expect(await find('race@find.example')).toEqual([])
  expect(await find('lovelace')).toMatchObject([{ ...customer_hit, by: 'words' }])
  expect(await find('100% COTTON')).toMatchObject([{ ...payment_hit, by: 'words' }])
  expect(await find('1%cotton')).toEqual([])
  for (const id of [payment.body.id, `…${payment.body.id.slice(-8)}`, payment.body.id.slice(-8)])
    expect(await find(id)).toMatchObject([{ ...payment_hit, by: 'id' }])
  expect(await find(payment.body.processor_reference)).toMatchObject([{ ...payment_hit, by: 'reference' }])
})

test("a user signs in, reads the user's own session and signs out", async ({ world }) => {
  const person = await createPerson(world, { role: 'developer' })
  const browser = createBrowser(url)
  expect((await browser.get('/api/session')).body.error).toMatchObject({ code: 'unauthorized' })
  const answer = await tryPassword(browser, person.email.toUpperCase())
  expect(answer.status).toBe(200)
  const cookie = answer.headers.getSetCookie().find((each) => each.startsWith('sluice.session_token='))!
  expect(cookie).toMatch(/; HttpOnly/)
  expect(cookie).toMatch(/; SameSite=Strict/)
  expect(cookie).not.toMatch(/; (Secure|Domain)/)

  const { body } = await browser.get('/api/session')
  expect(body).toMatchObject({
    user: { id: person.user_id, email: person.email, two_factor_enabled: false },
    is_operator: false,
    tenant: { id: world.tenant_id, slug: 'acme' },
    role: 'developer',
    tenants: [{ id: world.tenant_id, slug: 'acme', role: 'developer' }],
    areas: expect.arrayContaining([{ name: 'payments', state: 'deployed' }]),
    api_url: world.client.url,
    version: expect.stringMatching(/^\d/),
  })
  expect(body.may).toEqual(expect.arrayContaining(['keys.manage', 'createWebhookEndpoint']))
  expect(body.may).not.toContain('createPayment')

  const stored_cookies = new Map(browser.cookies)
  expect((await browser.post('/api/auth/sign-out')).status).toBe(200)
  expect((await browser.get('/api/session')).status).toBe(401)
  // The server has ended the session: the stored cookies do not restore it.
  for (const [name, value] of stored_cookies) browser.cookies.set(name, value)
  expect((await browser.get('/api/session')).status).toBe(401)
  expect(await entriesOf(world, person)).toMatchObject([
    { action: 'sign_in', details: { by: 'password' } },
    { action: 'sign_out' },
    { action: 'sign_out', details: { status: 200 } },
  ])
})

test('sign-in creates a new session, and an altered cookie is invalid', async ({ world }) => {
  const person = await createPerson(world, { role: 'support' })
  const browser = await signIn(url, person)
  const name = 'sluice.session_token'
  const token = browser.cookies.get(name)!
  // Session fixation: the browser has this session before another user signs in with the browser.
  const attacked_browser = createBrowser(url)
  attacked_browser.cookies.set(name, token)
  await tryPassword(attacked_browser, (await createPerson(world, { role: 'owner' })).email)
  expect(attacked_browser.cookies.get(name)).not.toBe(token)
  expect((await browser.get('/api/session')).body.user.email).toBe(person.email)
  for (const forged of [
    token.replace(/^./, (letter) => (letter === 'a' ? 'b' : 'a')),
    token.split('.')[0]!,
  ]) {
    browser.cookies.set(name, forged)
    expect((await browser.get('/api/session')).status).toBe(401)
  }
})

test('the sign-in with an unknown address gets the response of a wrong password', async ({ world }) => {
  const person = await createPerson(world, { role: 'owner' })
  const wrong = await tryPassword(createBrowser(url), person.email, 'wrong password here')
  const unknown = await tryPassword(createBrowser(url), 'no-such@people.example', 'wrong password here')
  const summary = ({ status, body: { error } }: typeof wrong) => [status, error.code, error.message]
  expect(summary(wrong)).toEqual([401, 'unauthorized', 'The email address or the password is wrong.'])
  expect(summary(unknown)).toEqual(summary(wrong))
})

test('ten wrong passwords lock only their account, even if they are concurrent', async ({ world }) => {
  const [victim, bystander] = [
    await createPerson(world, { role: 'owner' }),
    await createPerson(world, { role: 'owner' }),
  ]
  const attempts = await Promise.all(
    Array.from({ length: 14 }, () => tryPassword(createBrowser(url), victim.email, 'wrong password here')),
  )
  const counts = [401, 429].map((code) => attempts.filter(({ status }) => status === code).length)
  expect(counts).toEqual([10, 4])
  const refused = await tryPassword(createBrowser(url), victim.email)
  expect([refused.status, refused.body.error.code]).toEqual([429, 'rate_limited'])
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(200)
  await signIn(url, bystander)
  // The count starts again after five minutes.
  await world.sql`update sign_in_failures set window_start = now() - interval '301 seconds' where scope = 'account'`
  await signIn(url, victim)
})

test("fifty wrong passwords lock the client's address, and a forged forwarded address does not evade the lock", async ({
  world,
}) => {
  const person = await createPerson(world, { role: 'owner' })
  const browser = createBrowser(url, '198.51.100.7')
  const attempts = await Promise.all(
    Array.from({ length: 54 }, (_, index) => tryPassword(browser, `not-an-address-${index}`, 'x')),
  )
  expect(attempts.filter(({ status }) => status === 429)).toHaveLength(4)
  expect((await tryPassword(browser, person.email)).status).toBe(429)
  await signIn(url, person)

  // A forwarded address from an untrusted proxy is ignored.
  const headers = { ...HTTPS_HEADERS, 'x-forwarded-for': '198.51.100.8' }
  await world.sql`
    insert into sign_in_failures (scope, key, count) values ('address', '127.0.0.1', 50)
    on conflict (scope, key) do update set count = 50, window_start = now()`
  const credentials = JSON.stringify({ email: person.email, password: PASSWORD })
  const { body } = await sendBytes(
    strict.url!,
    requestBytes('POST', '/api/auth/sign-in/email', headers, credentials),
  )
  expect(body.error.code).toBe('rate_limited')
  await world.sql`delete from sign_in_failures`
})

test('a one-time code is required after the password, and wrong guesses are limited', async ({ world }) => {
  const person = await createPerson(world, { role: 'admin' })
  const [browser, stolen] = [await signIn(url, person), await signIn(url, person)]
  const enable = '/api/auth/two-factor/enable'
  expect((await browser.post(enable, { password: 'wrong password here' })).body.error).toMatchObject({
    code: 'invalid_request',
    message: 'The password is wrong.',
  })
  const { totpURI, backupCodes } = (await browser.post(enable, { password: PASSWORD })).body
  const verify = (by: typeof browser, code: string, fields: object = {}) =>
    by.post('/api/auth/two-factor/verify-totp', { code, ...fields })
  const refusal = ({ status, body }: Awaited<ReturnType<typeof verify>>) => [
    status,
    body.error.message,
    body.error.context?.restart_required,
  ]
  expect(refusal(await verify(browser, '000000'))).toEqual([
    401,
    'The code is wrong. Enter the one that your app shows now.',
    undefined,
  ])
  const before = browser.cookies.get('sluice.session_token')
  expect((await verify(browser, codeOf(totpURI))).status).toBe(200)
  expect(browser.cookies.get('sluice.session_token')).not.toBe(before)
  expect((await browser.get('/api/session')).body.user.two_factor_enabled).toBe(true)
  expect((await stolen.get('/api/session')).status).toBe(401)

  const partial = createBrowser(url)
  expect((await tryPassword(partial, person.email)).body).toMatchObject({ twoFactorRedirect: true })
  expect((await partial.get('/api/session')).status).toBe(401)
  expect((await partial.post('/api/auth/two-factor/disable', { password: PASSWORD })).status).toBe(401)
  // `trustDevice` does not skip the code of the next sign-in.
  const next_code = codeOf(totpURI, 1)
  expect((await verify(partial, next_code, { trustDevice: true })).status).toBe(200)
  expect((await partial.get('/api/session')).status).toBe(200)
  await partial.post('/api/auth/sign-out')
  expect((await tryPassword(partial, person.email)).body).toMatchObject({ twoFactorRedirect: true })

  // A used code and all earlier codes are refused.
  expect(refusal(await verify(partial, next_code))).toEqual([
    401,
    'This code was used before. Sign in again with the next one.',
    true,
  ])
  // The refusal ends the sign-in.
  expect(refusal(await verify(partial, codeOf(totpURI, 1)))).toEqual([
    401,
    'This sign-in has expired. Sign in again.',
    true,
  ])
  await tryPassword(partial, person.email)
  expect((await verify(partial, codeOf(totpURI))).status).toBe(401)
  expect((await partial.get('/api/session')).status).toBe(401)
  await tryPassword(partial, person.email)

  const backup = (by: typeof browser) =>
    by.post('/api/auth/two-factor/verify-backup-code', { code: backupCodes[0] })
  expect((await backup(partial)).status).toBe(200)
  const second = createBrowser(url)
  await tryPassword(second, person.email)
  expect((await backup(second)).status).toBe(401)

  for (let guessed = 0, cycle = 0; guessed < 10 && cycle < 5; cycle += 1) {
    const guesser = createBrowser(url)
    await tryPassword(guesser, person.email)
    for (let n = 0; n < 5; n += 1) {
      const { status } = await verify(guesser, '000000')
      if (status === 401) guessed += 1
    }
  }
  const locked = createBrowser(url)
  await tryPassword(locked, person.email)
  expect((await verify(locked, codeOf(totpURI))).body.error.code).toBe('rate_limited')

  const disable = '/api/auth/two-factor/disable'
  expect((await browser.post(disable, {})).status).toBe(400)
  expect((await browser.post(disable, { password: 'wrong password here' })).status).toBe(400)
  expect((await browser.get('/api/session')).body.user.two_factor_enabled).toBe(true)
  expect((await browser.post(disable, { password: PASSWORD })).status).toBe(200)
  expect((await partial.get('/api/session')).status).toBe(401)
  expect((await browser.get('/api/session')).status).toBe(200)
  const entries = await entriesOf(world, person)
  expect(entries.map(({ action, details }) => [action, details['by'] ?? details['status']])).toEqual([
    ['sign_in', 'password'],
    ['sign_in', 'password'],
    ['two_factor.enable', undefined],
    ['sign_in', 'one-time code'],
    ['sign_out', undefined],
    ['sign_out', 200],
    ['sign_in', 'backup code'],
    ...[400, 400, 200].flatMap((status) => [
      ['two_factor.disable', undefined],
      ['two_factor.disable', status],
    ]),
  ])
  const audit_entries = JSON.stringify(await world.sql`select * from audit_entries`)
  for (const secret of [PASSWORD, backupCodes[0], new URL(totpURI).searchParams.get('secret')!])
    expect(audit_entries).not.toContain(secret)
})

test('a passkey that verifies its user signs the user in without a password', async ({ world }) => {
  const origin = url.replace('127.0.0.1', 'localhost')
  const person = await createPerson(world, { role: 'developer' })
  const browser = await signIn(origin, person)
  const register = async (passkey: ReturnType<typeof createPasskey>) => {
    const { body } = await browser.post('/api/auth/passkey/generate-register-options', { password: PASSWORD })
    const response = passkey.register(body)
    return await browser.post('/api/auth/passkey/verify-registration', {
      response,
      name: 'Mine',
      password: PASSWORD,
    })
  }
  const unverified = await register(createPasskey(origin, { asks: false }))
  expect([unverified.status, await world.sql`select from user_passkeys`]).toMatchObject([400, []])
  expect(unverified.body.error.message).toBe('The passkey must ask for a PIN, a fingerprint or a face.')
  const passkey = createPasskey(origin)
  // A session without the password cannot add or remove a passkey, not even with a challenge for sign-in.
  for (const password of [undefined, 'wrong password here'])
    expect(
      (await browser.post('/api/auth/passkey/generate-register-options', { password })).body.error.code,
    ).toBe('invalid_request')
  const challenge = await browser.post('/api/auth/passkey/generate-register-options', { password: PASSWORD })
  const unproven = { response: passkey.register(challenge.body), name: 'Mine' }
  expect((await browser.post('/api/auth/passkey/verify-registration', unproven)).status).toBe(400)
  expect((await register(passkey)).status).toBe(200)

  const other = createBrowser(origin)
  const { body: options } = await other.get('/api/auth/passkey/generate-authenticate-options')
  const response = passkey.signIn(options)
  const verify = (by: typeof other) => by.post('/api/auth/passkey/verify-authentication', { response })
  // A signature is valid once, in one browser.
  expect((await verify(createBrowser(origin))).status).toBe(400)
  expect((await verify(other)).status).toBe(200)
  expect((await other.get('/api/session')).body.user.email).toBe(person.email)
  await other.post('/api/auth/sign-out')
  expect((await verify(other)).status).toBe(400)

  const [{ id }] = (await browser.get('/api/auth/passkey/list-user-passkeys')).body
  const stranger = await signedInAs(world, { role: 'owner' })
  expect((await browser.post('/api/auth/passkey/delete-passkey', { id })).status).toBe(400)
  expect(
    (await stranger.post('/api/auth/passkey/delete-passkey', { id, password: PASSWORD })).status,
  ).not.toBe(200)
  expect((await browser.post('/api/auth/passkey/delete-passkey', { id, password: PASSWORD })).status).toBe(
    200,
  )
  expect(
    (await entriesOf(world, person)).map(({ action, details }) => [action, ...Object.values(details)]),
  ).toEqual([
    ['sign_in', 'password'],
    ...[400, 400, 200].flatMap((status) => [['passkeys.add'], ['passkeys.add', status]]),
    ['sign_in', 'passkey'],
    ['sign_out'],
    ['sign_out', 200],
    ...[400, 200].flatMap((status) => [['passkeys.remove'], ['passkeys.remove', status]]),
  ])
})

test('a stolen session cannot be used to guess the password, and ends when the password changes', async ({
  world,
}) => {
  const person = await createPerson(world, { role: 'owner' })
  const [own, stolen] = [await signIn(url, person), await signIn(url, person)]
  await world.sql`
    insert into user_passkeys (id, user_id, name, public_key, credential_id, counter, device_type, backed_up)
    values (${person.user_id}, ${person.user_id}, 'Theirs', 'x', 'theirs', 0, 'singleDevice', false)`
  const change = (browser: typeof own, currentPassword: string, fields: object = {}) =>
    browser.post('/api/auth/change-password', {
      currentPassword,
      newPassword: 'another long password',
      ...fields,
    })
  const guesses = await Promise.all(Array.from({ length: 12 }, () => change(stolen, 'wrong password here')))
  expect(guesses.filter(({ status }) => status === 429)).toHaveLength(2)
  // Each guess is recorded with its outcome, even if the limit refused the guess.
  const { body: entries } = await own.get(`/api/audit?action=profile.change_password&actor=${person.email}`)
  const outcomes = entries.map((entry: any) => `${entry.expects_outcome} ${entry.outcome?.status}`)
  expect(outcomes.toSorted()).toEqual(guesses.map(({ status }) => `true ${status}`).toSorted())
  await world.sql`delete from sign_in_failures`
  expect((await change(own, PASSWORD)).body.passkeys).toEqual(['Theirs'])
  expect((await stolen.get('/api/session')).status).toBe(401)
  expect((await own.get('/api/session')).status).toBe(200)
  expect((await tryPassword(createBrowser(url), person.email)).status).toBe(401)
  await signIn(url, person, 'another long password')
  const second_change = await change(own, 'another long password', { remove_passkeys: true })
  expect(second_change.body.passkeys).toEqual([])
  expect(await world.sql`select from user_passkeys where user_id = ${person.user_id}`).toEqual([])
})

test('repeated password hashing by one user does not delay other users', async ({ world }) => {
  const flooder = await signedInAs(world, { role: 'read-only' })
  const victim = await createPerson(world, { role: 'owner' })
  // At most five requests are open at a time, and all have the right password, so no request counts as a failure.
  const statuses: number[] = []
  const hashRepeatedly = async () => {
    for (let n = 0; n < 9; n += 1)
      statuses.push((await flooder.post('/api/auth/two-factor/enable', { password: PASSWORD })).status)
  }
  await Promise.all([...Array.from({ length: 5 }, hashRepeatedly), signIn(url, victim)])
  // The limit is twenty requests, and one more request every two seconds.
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(15)
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(5)
  await world.sql`delete from sign_in_failures`
})

test('challenges of passkeys are limited per address', async () => {
  const browser = createBrowser(url, '198.51.100.77')
  const requestChallenge = () => browser.get('/api/auth/passkey/generate-authenticate-options')
  const statuses = (await Promise.all(Array.from({ length: 60 }, requestChallenge))).map(
    ({ status }) => status,
  )
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(30)
  expect((await createBrowser(url).get('/api/auth/passkey/generate-authenticate-options')).status).toBe(200)
})

test('users can change only their own name', async ({ world }) => {
  const browser = await signedInAs(world, { role: 'read-only' })
  const update = (body: object) => browser.post('/api/auth/update-user', body)
  const protected_fields = {
    isOperator: true,
    is_operator: true,
    twoFactorEnabled: true,
    emailVerified: false,
    image: 'x',
  }
  const updated = await update({ name: 'Ada', ...protected_fields })
  expect(updated.status).toBe(200)
  const entries = await world.sql`
    select action from audit_entries where seq = ${updated.headers.get('x-audit-entry')} and answers is null`
  expect(entries).toEqual([{ action: 'profile.rename' }])
  expect(
    await world.sql`select name, is_operator, two_factor_enabled, email_verified, image from users
    where id = ${browser.user_id}`,
  ).toEqual([
    { name: 'Ada', is_operator: false, two_factor_enabled: false, email_verified: true, image: null },
  ])
  for (const body of [{}, { name: '' }, { name: 'x'.repeat(256) }, { name: 7 }])
    expect((await update(body)).body.error).toMatchObject({ code: 'invalid_request', param: 'name' })
})

test('the sign-in never redirects, and authentication routes that the dashboard does not use do not exist', async ({
  world,
}) => {
  const person = await createPerson(world, { role: 'owner' })
  const browser = createBrowser(url)
  const credentials = { callbackURL: 'https://evil.example/', email: person.email, password: PASSWORD }
  const answer = await browser.post('/api/auth/sign-in/email', credentials)
  expect([answer.status, answer.headers.get('location'), answer.body.url]).toEqual([200, null, undefined])
  const paths = [
    'sign-up/email',
    'delete-user',
    'change-email',
    'update-session',
    'sign-in/social',
    'verify-email',
  ]
  const password_paths = [
    'request-password-reset',
    'reset-password',
    'set-password',
    'revoke-sessions',
    'two-factor/send-otp',
  ]
  for (const path of [
    ...paths,
    ...password_paths,
    'two-factor/get-totp-uri',
    'link-social',
    'unlink-account',
    'sign-out/',
  ]) {
    const { status, body } = await browser.post(`/api/auth/${path}`, {})
    expect([path, status, body.error.code]).toEqual([path, 404, 'route_not_found'])
  }
  for (const path of ['get-session', 'ok', 'error', 'callback/google', 'list-accounts', 'verify-email'])
    expect([path, (await browser.get(`/api/auth/${path}`)).status]).toEqual([path, 404])
  expect((await browser.get('/api/session')).status).toBe(200)
})

test('requests from other sites and hosts are refused and change nothing', async ({ world }) => {
  const browser = await signedInAs(world, { role: 'owner' })
  const { port } = new URL(url)
  const refused: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: `http://127.0.0.1:${Number(port) + 1}` },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'none' },
  ]
  for (const headers of refused)
    for (const path of ['/api/auth/sign-out', '/api/v1/customers', '/api/members/invitations', '/api/nope']) {
      const { status, body } = await browser.post(path, {}, headers)
      expect([headers, path, status, body.error.code]).toEqual([headers, path, 403, 'forbidden'])
    }
  for (const host of ['evil.example', `evil.example:${port}`, 'localhost.evil.example', '127.0.0.1.nip.io'])
    for (const method of ['GET', 'POST']) {
      const bytes = requestBytes(method, '/api/session', { host })
      expect([host, (await sendBytes(url, bytes)).status]).toEqual([host, 403])
    }
  expect((await browser.get('/api/session', { 'sec-fetch-site': 'cross-site' })).status).toBe(200)
  // A program other than a browser does not send `sec-fetch-site`, and sends a cookie only if its author adds the
  // cookie.
  const bare = requestBytes('POST', '/api/auth/sign-out', {
    host: `localhost:${port}`,
    cookie: Array.from(browser.cookies, ([name, value]) => `${name}=${value}`).join('; '),
  })
  expect((await sendBytes(url, bare)).status).toBe(200)
})

test('with an https URL the session cookie is secure, and the dashboard accepts requests only at its URL', async ({
  world,
}) => {
  const person = await createPerson(world, { role: 'owner' })
  const request = (method: string, path: string, headers: Record<string, string>, body = '{}') =>
    sendBytes(strict.url!, requestBytes(method, path, headers, body))
  const credentials = JSON.stringify({ email: person.email, password: PASSWORD })
  const signed_in = await request('POST', '/api/auth/sign-in/email', HTTPS_HEADERS, credentials)
  const set_cookie = signed_in.headers.get('set-cookie')!
  expect(set_cookie).toMatch(/^__Secure-sluice\.session_token=.*; HttpOnly; Secure; SameSite=Strict/)
  const cookie = set_cookie.split(';')[0]!
  expect((await request('GET', '/api/session', { ...HTTPS_HEADERS, cookie }, '')).body.user.email).toBe(
    person.email,
  )
  // HSTS makes browsers use only https after this response.
  expect(signed_in.headers.get('strict-transport-security')).toBe('max-age=31536000')
  for (const changed_headers of [
    { host: '127.0.0.1' },
    { host: 'dash.example:444' },
    { origin: 'http://dash.example' },
  ])
    expect(
      (await request('POST', '/api/auth/sign-out', { ...HTTPS_HEADERS, cookie, ...changed_headers })).body
        .error.code,
    ).toBe('forbidden')
})

test('responses carry the security headers for browsers', async () => {
  for (const path of ['/', '/payments', '/api/session', '/api/nope']) {
    const { headers } = await createBrowser(url).get(path)
    expect(Object.fromEntries(headers)).toMatchObject({
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'same-origin',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'content-security-policy': expect.stringMatching(/default-src 'none'.*frame-ancestors 'none'/),
    })
    expect([path, headers.get('cache-control')]).toEqual([path, 'no-store'])
    expect([path, headers.get('strict-transport-security')]).toEqual([path, null])
  }
  for (const path of ['/api', '/api/nope', '/assets/nope.js'])
    expect([path, (await createBrowser(url).get(path)).status]).not.toEqual([path, 200])
})

test('request bodies are limited, and bodies for the API have the same limits with a session as with an API key', async ({
  world,
}) => {
  const browser = await signedInAs(world, { role: 'owner' })
  const large = { idempotency_key: 'large', name: 'x'.repeat(200), padding: 'x'.repeat(70_000) }
  const own = await browser.post('/api/keys', large)
  expect([own.status, own.body.error.code]).toEqual([413, 'payload_too_large'])
  const text = { name: 'long', channel: 'email', subject: 'S', text: 'x'.repeat(200_000) }
  const [with_session, with_key] = [
    await browser.post('/api/v1/messages/templates', text),
    await world.client.post('/v1/messages/templates', { ...text, name: 'long-2' }),
  ]
  expect(with_session.status).toBe(with_key.status)
  expect(with_session.status).not.toBe(413)
  const form = await browser.post('/api/auth/sign-in/email', 'email=a', {
    'content-type': 'application/x-www-form-urlencoded',
  })
  expect(form.status).toBe(415)
  for (const body of ['[]', 'null', '"x"', '{"email":{"$ne":1},"password":["x"]}'])
    expect((await browser.post('/api/auth/sign-in/email', body)).status).toBeLessThan(500)
  // The error names the missing field, and the audit log stays unchanged.
  const before = await entriesOf(world, browser)
  for (const [path, param] of [
    ['sign-in/email', 'email'],
    ['two-factor/verify-totp', 'code'],
    ['passkey/delete-passkey', 'id'],
  ])
    expect((await browser.post(`/api/auth/${path}`, {})).body.error).toMatchObject({ param })
  expect(await entriesOf(world, browser)).toEqual(before)
})

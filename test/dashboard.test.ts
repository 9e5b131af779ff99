// The dashboard's process over real sockets: signing in, who is let in from where, and what is refused.
import { pino } from 'pino'
import { afterAll, expect, onTestFinished } from 'vitest'
import { createLog } from '#core/log.ts'
import type { Service } from '#core/service.ts'
import { createPasskey } from '#test/passkeys.ts'
import { startHere } from '#test/parts.ts'
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
const OURS = { host: 'dash.example', origin: HTTPS, 'content-type': 'application/json' }

let url: string
/** As in production: behind a proxy that is not named, under an address of its own. */
let strict: Service
const log = createLog('silent', 'test')

const test = testIn({
  parts: ['api', 'webhooks', 'worker', 'dashboard'],
  env: { TRUSTED_PROXIES: '127.0.0.1/32' },
})
test.beforeAll(async ({ world }) => {
  url = world.dashboard_url
  strict = await startHere('dashboard', { ...world.env, TRUSTED_PROXIES: '', DASHBOARD_URL: HTTPS }, log)
})
afterAll(async () => {
  await strict?.close()
})

test('a request of a page is one line of the log, with its own route and who asked', async ({ world }) => {
  const lines: string[] = []
  const memory = pino({}, { write: (line: string) => void lines.push(line) })
  const logged = await startHere('dashboard', { ...world.env, LOG_REQUESTS: '1' }, memory)
  onTestFinished(() => logged.close())
  const person = await createPerson(world, { role: 'developer' })
  const browser = await signIn(logged.url!, person)
  await browser.get('/api/v1/customers', { 'x-request-id': 'page-4711' })
  await browser.get('/api/keys', { 'x-request-id': 'page-4712' })
  await browser.get('/api/session', { 'x-request-id': 'page-4713' })
  const answered = await until('all lines', () => {
    const found = lines.filter((line) => /page-471[123]/.test(line)).map((line) => JSON.parse(line) as object)
    return found.some((line) => Object.values(line).includes('page-4713')) && found
  })
  const { user_id, tenant_id } = { ...person, ...world }
  expect(answered).toMatchObject([
    { request_id: 'page-4711', route: '/v1/customers', status: 200, user_id, tenant_id },
    { request_id: 'page-4712', route: '/api/keys', status: 200, user_id, tenant_id },
    { request_id: 'page-4713', route: '/api/session', status: 200, user_id, tenant_id },
  ])
  expect(answered[0]).not.toHaveProperty('key_id')
})

test('rows are found by what people know of them, and say what they are', async ({ world }) => {
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
  const of_customer = {
    resource: 'customer',
    id: customer.body.id,
    name: 'Augusta Lovelace',
    amount_minor: null,
  }
  const of_payment = { resource: 'payment', id: payment.body.id, amount_minor: 1234, currency: 'USD' }
  expect(await find(email)).toMatchObject([{ ...of_customer, by: 'email' }])
  const mixed = { idempotency_key: 'found-2', email: 'Grace@Find.Example', name: 'Grace Hopper' }
  const grace = (await world.client.post('/v1/customers', mixed)).body
  for (const typed of ['Grace@Find.Example', 'grace@find.example', 'GRACE@FIND.EXAMPLE'])
    expect([typed, await find(typed)]).toMatchObject([
      typed,
      [{ resource: 'customer', id: grace.id, by: 'email' }],
    ])
  expect(await find('AUGUSTA@find.example')).toMatchObject([{ ...of_customer, by: 'email' }])
  expect(await find('race@find.example')).toEqual([])
  expect(await find('lovelace')).toMatchObject([{ ...of_customer, by: 'words' }])
  expect(await find('100% COTTON')).toMatchObject([{ ...of_payment, by: 'words' }])
  expect(await find('1%cotton')).toEqual([])
  for (const id of [payment.body.id, `…${payment.body.id.slice(-8)}`, payment.body.id.slice(-8)])
    expect(await find(id)).toMatchObject([{ ...of_payment, by: 'id' }])
  expect(await find(payment.body.processor_reference)).toMatchObject([{ ...of_payment, by: 'reference' }])
})

test('somebody signs in, sees who they are, and signs out', async ({ world }) => {
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

  const kept = new Map(browser.cookies)
  expect((await browser.post('/api/auth/sign-out')).status).toBe(200)
  expect((await browser.get('/api/session')).status).toBe(401)
  // The session is over, not only forgotten by the browser.
  for (const [name, value] of kept) browser.cookies.set(name, value)
  expect((await browser.get('/api/session')).status).toBe(401)
  expect(await entriesOf(world, person)).toMatchObject([
    { action: 'sign_in', details: { by: 'password' } },
    { action: 'sign_out' },
    { action: 'sign_out', details: { status: 200 } },
  ])
})

test('a session is made anew at sign-in, and a cookie that was changed is none', async ({ world }) => {
  const person = await createPerson(world, { role: 'support' })
  const browser = await signIn(url, person)
  const name = 'sluice.session_token'
  const first = browser.cookies.get(name)!
  // Somebody else's browser was given this session before its owner signs in there.
  const other = createBrowser(url)
  other.cookies.set(name, first)
  await tryPassword(other, (await createPerson(world, { role: 'owner' })).email)
  expect(other.cookies.get(name)).not.toBe(first)
  expect((await browser.get('/api/session')).body.user.email).toBe(person.email)
  for (const forged of [
    first.replace(/^./, (letter) => (letter === 'a' ? 'b' : 'a')),
    first.split('.')[0]!,
  ]) {
    browser.cookies.set(name, forged)
    expect((await browser.get('/api/session')).status).toBe(401)
  }
})

test('an address without a user is answered like a wrong password', async ({ world }) => {
  const person = await createPerson(world, { role: 'owner' })
  const wrong = await tryPassword(createBrowser(url), person.email, 'wrong password here')
  const unknown = await tryPassword(createBrowser(url), 'no-such@people.example', 'wrong password here')
  const shown = ({ status, body: { error } }: typeof wrong) => [status, error.code, error.message]
  expect(shown(wrong)).toEqual([401, 'unauthorized', 'The email address or the password is wrong.'])
  expect(shown(unknown)).toEqual(shown(wrong))
})

test('ten wrong passwords of an account lock it, also all at once, and nobody else', async ({ world }) => {
  const [victim, bystander] = [
    await createPerson(world, { role: 'owner' }),
    await createPerson(world, { role: 'owner' }),
  ]
  const tries = await Promise.all(
    Array.from({ length: 14 }, () => tryPassword(createBrowser(url), victim.email, 'wrong password here')),
  )
  const counts = [401, 429].map((code) => tries.filter(({ status }) => status === code).length)
  expect(counts).toEqual([10, 4])
  const refused = await tryPassword(createBrowser(url), victim.email)
  expect([refused.status, refused.body.error.code]).toEqual([429, 'rate_limited'])
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(200)
  await signIn(url, bystander)
  // When the five minutes are over, the account counts anew.
  await world.sql`update sign_in_failures set window_start = now() - interval '301 seconds' where scope = 'account'`
  await signIn(url, victim)
})

test('fifty wrong passwords from an address lock it, whatever it says of where it comes from', async ({
  world,
}) => {
  const person = await createPerson(world, { role: 'owner' })
  const browser = createBrowser(url, '198.51.100.7')
  const all = await Promise.all(
    Array.from({ length: 54 }, (_, index) => tryPassword(browser, `not-an-address-${index}`, 'x')),
  )
  expect(all.filter(({ status }) => status === 429)).toHaveLength(4)
  expect((await tryPassword(browser, person.email)).status).toBe(429)
  await signIn(url, person)

  // An address that no trusted proxy told counts for nothing: all of these come from one.
  const host = { ...OURS, 'x-forwarded-for': '198.51.100.8' }
  await world.sql`
    insert into sign_in_failures (scope, key, count) values ('address', '127.0.0.1', 50)
    on conflict (scope, key) do update set count = 50, window_start = now()`
  const credentials = JSON.stringify({ email: person.email, password: PASSWORD })
  const { body } = await sendBytes(
    strict.url!,
    requestBytes('POST', '/api/auth/sign-in/email', host, credentials),
  )
  expect(body.error.code).toBe('rate_limited')
  await world.sql`delete from sign_in_failures`
})

test('a one-time code is asked for after the password, and guesses are few', async ({ world }) => {
  const person = await createPerson(world, { role: 'admin' })
  const [browser, stolen] = [await signIn(url, person), await signIn(url, person)]
  const enable = '/api/auth/two-factor/enable'
  expect((await browser.post(enable, { password: 'wrong password here' })).body.error).toMatchObject({
    code: 'invalid_request',
    message: 'The password is wrong.',
  })
  const { totpURI, backupCodes } = (await browser.post(enable, { password: PASSWORD })).body
  const verify = (by: typeof browser, code: string, more: object = {}) =>
    by.post('/api/auth/two-factor/verify-totp', { code, ...more })
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

  const half = createBrowser(url)
  expect((await tryPassword(half, person.email)).body).toMatchObject({ twoFactorRedirect: true })
  expect((await half.get('/api/session')).status).toBe(401)
  expect((await half.post('/api/auth/two-factor/disable', { password: PASSWORD })).status).toBe(401)
  // Nobody can say that this machine needs no code the next time.
  const next = codeOf(totpURI, 1)
  expect((await verify(half, next, { trustDevice: true })).status).toBe(200)
  expect((await half.get('/api/session')).status).toBe(200)
  await half.post('/api/auth/sign-out')
  expect((await tryPassword(half, person.email)).body).toMatchObject({ twoFactorRedirect: true })

  // A code that was taken is not taken again, nor one before it.
  expect(refusal(await verify(half, next))).toEqual([
    401,
    'This code was used before. Sign in again with the next one.',
    true,
  ])
  // With that the sign-in is over.
  expect(refusal(await verify(half, codeOf(totpURI, 1)))).toEqual([
    401,
    'This sign-in has expired. Sign in again.',
    true,
  ])
  await tryPassword(half, person.email)
  expect((await verify(half, codeOf(totpURI))).status).toBe(401)
  expect((await half.get('/api/session')).status).toBe(401)
  await tryPassword(half, person.email)

  const backup = (by: typeof browser) =>
    by.post('/api/auth/two-factor/verify-backup-code', { code: backupCodes[0] })
  expect((await backup(half)).status).toBe(200)
  const again = createBrowser(url)
  await tryPassword(again, person.email)
  expect((await backup(again)).status).toBe(401)

  for (let guessed = 0, round = 0; guessed < 10 && round < 5; round += 1) {
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

  const off = '/api/auth/two-factor/disable'
  expect((await browser.post(off, {})).status).toBe(400)
  expect((await browser.post(off, { password: 'wrong password here' })).status).toBe(400)
  expect((await browser.get('/api/session')).body.user.two_factor_enabled).toBe(true)
  expect((await browser.post(off, { password: PASSWORD })).status).toBe(200)
  expect((await half.get('/api/session')).status).toBe(401)
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
  const told = JSON.stringify(await world.sql`select * from audit_entries`)
  for (const secret of [PASSWORD, backupCodes[0], new URL(totpURI).searchParams.get('secret')!])
    expect(told).not.toContain(secret)
})

test('a passkey signs in without a password, if it asks who uses it', async ({ world }) => {
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
  const careless = await register(createPasskey(origin, { asks: false }))
  expect([careless.status, await world.sql`select from user_passkeys`]).toMatchObject([400, []])
  expect(careless.body.error.message).toBe('The passkey must ask for a PIN, a fingerprint or a face.')
  const passkey = createPasskey(origin)
  // Whoever has only the session adds none and removes none, also by a challenge that is for signing in.
  for (const password of [undefined, 'wrong password here'])
    expect(
      (await browser.post('/api/auth/passkey/generate-register-options', { password })).body.error.code,
    ).toBe('invalid_request')
  const asked = await browser.post('/api/auth/passkey/generate-register-options', { password: PASSWORD })
  const unproven = { response: passkey.register(asked.body), name: 'Mine' }
  expect((await browser.post('/api/auth/passkey/verify-registration', unproven)).status).toBe(400)
  expect((await register(passkey)).status).toBe(200)

  const other = createBrowser(origin)
  const { body: options } = await other.get('/api/auth/passkey/generate-authenticate-options')
  const response = passkey.signIn(options)
  const verify = (by: typeof other) => by.post('/api/auth/passkey/verify-authentication', { response })
  // What was signed for one browser is of no use in another, and of no use twice.
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

test('a session that was stolen cannot find out the password, and ends when that changes', async ({
  world,
}) => {
  const person = await createPerson(world, { role: 'owner' })
  const [mine, stolen] = [await signIn(url, person), await signIn(url, person)]
  await world.sql`
    insert into user_passkeys (id, user_id, name, public_key, credential_id, counter, device_type, backed_up)
    values (${person.user_id}, ${person.user_id}, 'Theirs', 'x', 'theirs', 0, 'singleDevice', false)`
  const change = (by: typeof mine, currentPassword: string, more: object = {}) =>
    by.post('/api/auth/change-password', { currentPassword, newPassword: 'another long password', ...more })
  const guesses = await Promise.all(Array.from({ length: 12 }, () => change(stolen, 'wrong password here')))
  expect(guesses.filter(({ status }) => status === 429)).toHaveLength(2)
  // Each is on record with what came of it, also where nobody looked at the password.
  const { body: entries } = await mine.get(`/api/audit?action=profile.change_password&actor=${person.email}`)
  const outcomes = entries.map((entry: any) => `${entry.expects_outcome} ${entry.outcome?.status}`)
  expect(outcomes.toSorted()).toEqual(guesses.map(({ status }) => `true ${status}`).toSorted())
  await world.sql`delete from sign_in_failures`
  expect((await change(mine, PASSWORD)).body.passkeys).toEqual(['Theirs'])
  expect((await stolen.get('/api/session')).status).toBe(401)
  expect((await mine.get('/api/session')).status).toBe(200)
  expect((await tryPassword(createBrowser(url), person.email)).status).toBe(401)
  await signIn(url, person, 'another long password')
  const again = await change(mine, 'another long password', { remove_passkeys: true })
  expect(again.body.passkeys).toEqual([])
  expect(await world.sql`select from user_passkeys where user_id = ${person.user_id}`).toEqual([])
})

test('somebody who is signed in and has passwords hashed again and again holds up nobody', async ({
  world,
}) => {
  const hog = await signedInAs(world, { role: 'read-only' })
  const victim = await createPerson(world, { role: 'owner' })
  // Five at once: all are right, so that none counts as wrong for long.
  const statuses: number[] = []
  const lane = async () => {
    for (let n = 0; n < 9; n += 1)
      statuses.push((await hog.post('/api/auth/two-factor/enable', { password: PASSWORD })).status)
  }
  await Promise.all([...Array.from({ length: 5 }, lane), signIn(url, victim)])
  // Twenty, and one more every two seconds.
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(15)
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(5)
  await world.sql`delete from sign_in_failures`
})

test('challenges of passkeys are made for an address as often as people ask', async () => {
  const browser = createBrowser(url, '198.51.100.77')
  const ask = () => browser.get('/api/auth/passkey/generate-authenticate-options')
  const statuses = (await Promise.all(Array.from({ length: 60 }, ask))).map(({ status }) => status)
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(30)
  expect((await createBrowser(url).get('/api/auth/passkey/generate-authenticate-options')).status).toBe(200)
})

test('people change their name, and nothing else of themselves', async ({ world }) => {
  const browser = await signedInAs(world, { role: 'read-only' })
  const update = (body: object) => browser.post('/api/auth/update-user', body)
  const more = {
    isOperator: true,
    is_operator: true,
    twoFactorEnabled: true,
    emailVerified: false,
    image: 'x',
  }
  const updated = await update({ name: 'Ada', ...more })
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

test('sign-in leads nowhere else, and what we do not serve is not there', async ({ world }) => {
  const person = await createPerson(world, { role: 'owner' })
  const browser = createBrowser(url)
  const elsewhere = { callbackURL: 'https://evil.example/', email: person.email, password: PASSWORD }
  const answer = await browser.post('/api/auth/sign-in/email', elsewhere)
  expect([answer.status, answer.headers.get('location'), answer.body.url]).toEqual([200, null, undefined])
  const paths = [
    'sign-up/email',
    'delete-user',
    'change-email',
    'update-session',
    'sign-in/social',
    'verify-email',
  ]
  const more = [
    'request-password-reset',
    'reset-password',
    'set-password',
    'revoke-sessions',
    'two-factor/send-otp',
  ]
  for (const path of [
    ...paths,
    ...more,
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

test('other sites and other hosts are refused, and change nothing', async ({ world }) => {
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
  // A program has none of these headers, and no cookie either unless it was given one.
  const bare = requestBytes('POST', '/api/auth/sign-out', {
    host: `localhost:${port}`,
    cookie: Array.from(browser.cookies, ([name, value]) => `${name}=${value}`).join('; '),
  })
  expect((await sendBytes(url, bare)).status).toBe(200)
})

test('under an https address the cookie is secure, and only that address counts', async ({ world }) => {
  const person = await createPerson(world, { role: 'owner' })
  const ask = (method: string, path: string, headers: Record<string, string>, body = '{}') =>
    sendBytes(strict.url!, requestBytes(method, path, headers, body))
  const credentials = JSON.stringify({ email: person.email, password: PASSWORD })
  const signed = await ask('POST', '/api/auth/sign-in/email', OURS, credentials)
  const set = signed.headers.get('set-cookie')!
  expect(set).toMatch(/^__Secure-sluice\.session_token=.*; HttpOnly; Secure; SameSite=Strict/)
  const cookie = set.split(';')[0]!
  expect((await ask('GET', '/api/session', { ...OURS, cookie }, '')).body.user.email).toBe(person.email)
  // Whose address is https is asked over nothing else from then on.
  expect(signed.headers.get('strict-transport-security')).toBe('max-age=31536000')
  for (const more of [{ host: '127.0.0.1' }, { host: 'dash.example:444' }, { origin: 'http://dash.example' }])
    expect((await ask('POST', '/api/auth/sign-out', { ...OURS, cookie, ...more })).body.error.code).toBe(
      'forbidden',
    )
})

test('answers carry the headers that keep browsers in their place', async () => {
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

test('bodies are bounded, and those of the API as with a key', async ({ world }) => {
  const browser = await signedInAs(world, { role: 'owner' })
  const large = { idempotency_key: 'large', name: 'x'.repeat(200), padding: 'x'.repeat(70_000) }
  const own = await browser.post('/api/keys', large)
  expect([own.status, own.body.error.code]).toEqual([413, 'payload_too_large'])
  const text = { name: 'long', channel: 'email', subject: 'S', text: 'x'.repeat(200_000) }
  const [here, there] = [
    await browser.post('/api/v1/messages/templates', text),
    await world.client.post('/v1/messages/templates', { ...text, name: 'long-2' }),
  ]
  expect(here.status).toBe(there.status)
  expect(here.status).not.toBe(413)
  const form = await browser.post('/api/auth/sign-in/email', 'email=a', {
    'content-type': 'application/x-www-form-urlencoded',
  })
  expect(form.status).toBe(415)
  for (const body of ['[]', 'null', '"x"', '{"email":{"$ne":1},"password":["x"]}'])
    expect((await browser.post('/api/auth/sign-in/email', body)).status).toBeLessThan(500)
  // What is missing is named, and nothing of it is on record.
  const before = await entriesOf(world, browser)
  for (const [path, param] of [
    ['sign-in/email', 'email'],
    ['two-factor/verify-totp', 'code'],
    ['passkey/delete-passkey', 'id'],
  ])
    expect((await browser.post(`/api/auth/${path}`, {})).body.error).toMatchObject({ param })
  expect(await entriesOf(world, browser)).toEqual(before)
})

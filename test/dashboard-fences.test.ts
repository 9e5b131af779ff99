// The protections of the dashboard over real sockets: the tenant of a request, records of operators' access, limits,
// malformed requests.
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import { expect, onTestFinished } from 'vitest'
import { auditedParameters, subjectOfPath, AUDITED_FIELDS } from '#dashboard/audited-parameters.ts'
import { freshKey, type Answer, type Client } from '#test/client.ts'
import { dashboardRoutes } from '#test/dashboard-routes.ts'
import { readDocument, routesOf } from '#test/documentation.ts'
import { lockTable } from '#test/locks.ts'
import { authorizedPayment } from '#test/payments.ts'
import { createBrowser, createPerson, entriesOf, signedInAs, signIn, type Browser } from '#test/people.ts'
import { openUnfinished, requestBytes, sendBytes } from '#test/raw.ts'
import { testIn } from '#test/world.ts'

const MISSING_ID = '0198f6f0-1234-7000-8000-123456789abc'

let url: string
let host: string

const test = testIn({
  parts: ['api', 'webhooks', 'worker', 'dashboard'],
  env: { TRUSTED_PROXIES: '127.0.0.1/32' },
})
test.beforeAll(async ({ world }) => {
  url = world.dashboard_url
  host = new URL(url).host
})

const cookieOf = ({ cookies }: Browser) =>
  Array.from(cookies, ([name, value]) => `${name}=${value}`).join('; ')
const selectTenant = async (browser: Browser, tenant_id: string) =>
  expect((await browser.post('/api/session/tenant', { tenant_id })).status).toBe(200)

test('a request from a page of one tenant never runs in another tenant', async ({ world }) => {
  const other = await world.clientOf({ tenant: 'second' })
  const person = await createPerson(world, { role: 'owner' })
  await world.sql`insert into members (tenant_id, user_id, role) values (${other.tenant_id}, ${person.user_id}, 'owner')`
  const browser = await signIn(url, person)
  const shown_tenant = { 'x-sluice-tenant': (await browser.get('/api/session')).body.tenant.id }
  const createCustomer = (headers: Record<string, string>, key: string) =>
    browser.post('/api/v1/customers', { name: 'Ada' }, { 'idempotency-key': key, ...headers })
  expect((await createCustomer(shown_tenant, 'first')).status).toBe(201)
  await selectTenant(browser, other.tenant_id)
  const refused = [
    await createCustomer(shown_tenant, 'second'),
    await browser.post('/api/keys', { name: 'x', scopes: ['events:read'] }, shown_tenant),
    await browser.get('/api/v1/payments', shown_tenant),
    await browser.get('/api/overview', shown_tenant),
    await browser.get('/api/session', shown_tenant),
  ]
  for (const { status, body } of refused)
    expect([status, body.error.code, body.error.message]).toEqual([
      409,
      'conflict',
      'This page shows acme, but your session has selected another one. Reload the page.',
    ])
  // A write without the tenant header is ambiguous and is refused; the response to a read states the tenant.
  for (const { status, body } of [
    await createCustomer({}, 'third'),
    await browser.post('/api/keys', { name: 'x', scopes: ['events:read'] }),
  ])
    expect([status, body.error.param]).toEqual([400, 'x-sluice-tenant'])
  expect((await browser.get('/api/v1/payments')).status).toBe(200)
  expect(await world.sql`select from customers where tenant_id = ${other.tenant_id}`).toEqual([])
  expect((await createCustomer({ 'x-sluice-tenant': other.tenant_id }, 'fourth')).status).toBe(201)

  // A member who is removed from the selected tenant has no tenant until the member selects another tenant.
  await world.sql`delete from members where tenant_id = ${other.tenant_id} and user_id = ${person.user_id}`
  expect((await browser.get('/api/session')).body).toMatchObject({ tenant: null, role: null, may: [] })
  const keys = await world.sql`select from api_keys where tenant_id = ${world.tenant_id}`
  expect((await browser.post('/api/keys', { name: 'x', scopes: ['events:read'] })).status).toBe(403)
  expect(await world.sql`select from api_keys where tenant_id = ${world.tenant_id}`).toHaveLength(keys.length)
  await selectTenant(browser, world.tenant_id)
  // A user with a single tenant may omit the header.
  expect((await createCustomer({}, 'fifth')).status).toBe(201)
})

/** Queries of routes that require one. */
const QUERIES: Record<string, string> = {
  '/api/find': '?q=private-person@shop.example',
  '/api/sandbox/kyc': '?session=vs_1',
}

test('every route that returns tenant data records the access of an operator', async ({ world }) => {
  const operator = await signedInAs(world, { is_operator: true })
  await selectTenant(operator, world.tenant_id)
  const paths = (await dashboardRoutes())
    .filter(({ method }) => method === 'GET')
    .map(({ url: path }) => path)
    .filter((path) => /^\/api\/(?!auth\/|ops\/|session(?:\/pauses)?$|invitations\/)/.test(path))
  expect(paths.length).toBeGreaterThanOrEqual(10)
  for (const path of paths) {
    const before = await entriesOf(world, operator)
    const query = QUERIES[path] ?? ''
    await operator.get(`${path.replace(':id', MISSING_ID)}${query}`)
    const after = await entriesOf(world, operator)
    expect([path, after.length - before.length]).toEqual([path, 1])
    // The action is a name that people can read, not a path.
    expect(after.at(-1)!.action).not.toContain('/')
  }
  // The record of an access has no outcome.
  const { body } = await operator.get(`/api/ops/audit?actor=${operator.email}&limit=100`)
  expect(body.length).toBeGreaterThan(paths.length)
  for (const { action, expects_outcome } of body) expect([action, expects_outcome]).toEqual([action, false])
  await authorizedPayment(world.client)
  const [job] = await world.sql`select id from all_jobs where name = 'payment.authorize' limit 1`
  for (const nth of [1, 2])
    expect([nth, (await operator.get(`/api/ops/jobs/${job!['id']}`)).status]).toEqual([nth, 200])
  const access_entries = await world.sql`
    select action, details::text as details from audit_entries
    where actor_id = ${operator.user_id} and tenant_id = ${world.tenant_id}`
  expect(access_entries.filter(({ action }) => action === 'readJob')).toHaveLength(1)
  expect(JSON.stringify(access_entries)).not.toContain('private-person')
})

test('the audit log shows only the values of filters on an allowlist', async ({ world }) => {
  const operator = await signedInAs(world, { is_operator: true })
  await selectTenant(operator, world.tenant_id)
  await operator.get('/api/v1/payments?status=captured&processor_reference=private-words&limit=5')
  await operator.get('/api/audit?action=sign_in&actor=private-words&before=7')
  const queries = (await entriesOf(world, operator)).slice(-2).map(({ details }) => details['query'])
  expect(queries).toEqual([
    '{"limit":5,"status":"captured","processor_reference":"..."}',
    '{"before":7,"action":"sign_in","actor":"...","limit":50}',
  ])
  const request = {
    params: {},
    routeOptions: { config: {} },
    query: { 'metadata[a]': 'b', new: 'x', state: {} },
  }
  const { details } = auditedParameters(request as unknown as FastifyRequest)
  expect(details).toEqual({ query: '{"metadata[a]":"...","new":"...","state":"..."}' })
})

test('the allowlist of the audit log contains every filter of the API except filters for personal data or free text', async ({
  world,
}) => {
  const { body: document } = await world.client.get('/openapi.json')
  const filters = new Set<string>()
  for (const item of Object.values<object>(document.paths))
    for (const { parameters = [] } of Object.values<any>(item))
      for (const { name, in: place } of parameters) if (place === 'query') filters.add(name)
  expect([...filters].filter((name) => !AUDITED_FIELDS.has(name)).toSorted()).toEqual([
    'address',
    'email',
    'external_id',
    'from',
    'metadata',
    'name',
    'processor_reference',
    'subject',
    'tag',
    'to',
  ])
})

test('requests with an unusual spelling of the path, an absolute URL or two hosts are refused', async ({
  world,
}) => {
  const person = await signedInAs(world, { role: 'read-only' })
  const cookie = cookieOf(person)
  const before = await entriesOf(world, person)
  for (const path of [
    '/%61pi/session',
    `http://${host}/api/session`,
    '//api/session',
    '/api//session',
    '/api/v1/../session',
    '/%61pi/%zz',
    '/api/v1/%2e%2e/session',
    '/api/%76%31/customers',
    '/ops/%62ull-board',
  ]) {
    const { status, headers } = await sendBytes(url, requestBytes('GET', path, { host, cookie }))
    expect([path, status, headers.get('content-security-policy')]).toEqual([
      path,
      404,
      expect.stringContaining('default-src'),
    ])
  }
  const json = { host, cookie, 'content-type': 'application/json' }
  for (const path of ['/%61pi/auth/update-user', '/api/auth/update%2Duser'])
    expect((await sendBytes(url, requestBytes('POST', path, json, '{"name":"x"}'))).status).toBe(404)
  expect(await entriesOf(world, person)).toEqual(before)
  for (const hosts of [`${host}\r\nhost: evil.example`, `${host}\r\nhost: ${host}`])
    expect((await sendBytes(url, requestBytes('GET', '/api/session', { host: hosts, cookie }))).status).toBe(
      400,
    )
})

test('every request under /api and bull-board counts against the limit of its address', async ({ world }) => {
  const operator = await signedInAs(world, { is_operator: true })
  const address = { 'x-forwarded-for': '198.51.100.7' }
  const get = (path: string) => operator.get(path, address)
  // The flood continues until each path is refused. Otherwise a slow machine could permit requests again.
  const stop = new AbortController()
  const flood = Array.from({ length: 100 }, async () => {
    const statuses: number[] = []
    while (!stop.signal.aborted) statuses.push((await get('/api/nope')).status)
    return statuses
  })
  const untilRefused = async (path: string) => {
    while ((await get(path)).status !== 429);
  }
  try {
    await Promise.all(['/%61pi/session', '/ops/bull-board', '/api/session'].map(untilRefused))
  } finally {
    stop.abort()
  }
  expect((await Promise.all(flood)).flat()).toContain(429)
  expect((await get('/payments')).status).not.toBe(429)
})

test('lookups of ended sessions are limited and do not delay live sessions', async ({ world }) => {
  const ended = await signedInAs(world, { role: 'read-only' })
  await world.sql`delete from user_sessions where user_id = ${ended.user_id}`
  const live = await signedInAs(world, { role: 'read-only' })
  const address = { 'x-forwarded-for': '198.51.100.77' }
  const listCustomers = (browser: Browser, headers = address) => browser.get('/api/v1/customers', headers)
  expect((await listCustomers(live)).status).toBe(200)
  const answers: Answer[] = []
  const withStatus = (status: number) => answers.filter((each) => each.status === status)
  // A slow machine answers `overloaded` after a long wait for a lookup; `overloaded` does not count against the limit.
  do answers.push(...(await Promise.all(Array.from({ length: 150 }, () => listCustomers(ended)))))
  while (withStatus(429).length === 0 && withStatus(401).length < 60)
  expect(withStatus(401).length).toBeLessThan(60)
  expect(withStatus(401).length + withStatus(429).length + withStatus(503).length).toBe(answers.length)
  expect(Number(withStatus(429)[0]!.headers.get('retry-after'))).toBeGreaterThan(0)
  // A live session at the same address and a session at another address are answered.
  expect((await listCustomers(live)).status).toBe(200)
  expect((await listCustomers(ended, { 'x-forwarded-for': '198.51.100.78' })).status).toBe(401)
  // A request without a cookie needs no lookup and is answered with 401.
  expect((await fetch(`${url}/api/v1/customers`, { headers: address })).status).toBe(401)
})

test('all spellings of one session cookie share one limit', async ({ world }) => {
  const [person, live] = [
    await signedInAs(world, { role: 'read-only' }),
    await signedInAs(world, { role: 'read-only' }),
  ]
  const address = { 'x-forwarded-for': '198.51.100.79' }
  expect((await live.get('/api/session', address)).status).toBe(200)
  const statuses: number[] = []
  for (let batch = 0; batch < 15; batch += 1)
    statuses.push(
      ...(await Promise.all(
        Array.from({ length: 10 }, async (_, nth) => {
          const cookie = `${cookieOf(person)}; x=${batch * 10 + nth}`
          return (await fetch(`${url}/api/v1/customers`, { headers: { ...address, cookie } })).status
        }),
      )),
    )
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(40)
  expect((await live.get('/api/session', address)).status).toBe(200)
})

test('lookups of ended sessions are limited on every route', async ({ world }) => {
  const ended = await signedInAs(world, { role: 'read-only' })
  await world.sql`delete from user_sessions where user_id = ${ended.user_id}`
  let host_number = 100
  for (const path of [
    '/api/session',
    '/api/session/pauses',
    '/api/overview',
    '/api/ops/queues',
    '/api/ops/stream',
    '/api/auth/list-sessions',
  ]) {
    const address = { 'x-forwarded-for': `198.51.100.${(host_number += 1)}` }
    const answers = await Promise.all(Array.from({ length: 80 }, () => ended.get(path, address)))
    const count = (...statuses: number[]) => answers.filter(({ status }) => statuses.includes(status)).length
    // A slow machine does not look up all sessions in time.
    expect([path, count(401) < 60, count(401, 429, 503)]).toEqual([path, true, 80])
  }
  // A sign-in in progress has a cookie and no session yet.
  const signing_in = { 'x-forwarded-for': '198.51.100.99', cookie: 'sluice.two_factor=x' }
  const signing_in_statuses = await Promise.all(
    Array.from(
      { length: 80 },
      async () => (await fetch(`${url}/api/session`, { headers: signing_in })).status,
    ),
  )
  expect(new Set(signing_in_statuses)).toEqual(new Set([401]))
})

test('expensive searches of some tenants do not delay other tenants or operators', async ({ world }) => {
  const [second, third] = [
    await world.clientOf({ tenant: 'slow' }),
    await world.clientOf({ tenant: 'slower' }),
  ]
  const slow = [
    await signedInAs(world, { role: 'read-only', tenant_id: second.tenant_id }),
    await signedInAs(world, { role: 'read-only', tenant_id: third.tenant_id }),
  ]
  const [other, operator] = [
    await signedInAs(world, { role: 'read-only' }),
    await signedInAs(world, { is_operator: true }),
  ]
  const { locked, unlock } = lockTable(world.sql, 'merchants')
  await locked
  const search = (browser: Browser) => browser.get('/api/find?q=zzz')
  // After an expensive search, a tenant's searches do not use the quick lane for a while.
  await Promise.all(slow.map(search))
  const stop = new AbortController()
  const flood = slow.flatMap((browser) =>
    Array.from({ length: 40 }, async () => {
      const statuses: number[] = []
      for (; !stop.signal.aborted; await sleep(200)) statuses.push((await search(browser)).status)
      return statuses
    }),
  )
  await sleep(100)
  for (const [browser, path] of [
    [other, '/api/overview'],
    [other, '/api/audit'],
    [other, '/api/session/pauses'],
    [operator, '/api/ops/queues'],
    [operator, '/api/ops/jobs'],
  ] as const)
    // A slow machine may briefly refuse a request; a later request succeeds while the searches continue.
    await expect.poll(async () => [path, (await browser.get(path)).status]).toEqual([path, 200])
  stop.abort()
  await unlock()
  expect([200, 429, 503]).toEqual(expect.arrayContaining([...new Set((await Promise.all(flood)).flat())]))
})

test('a search whose client has disconnected does not run', async ({ world }) => {
  const { tenant_id } = await world.clientOf({ tenant: 'leaving' })
  const person = await signedInAs(world, { role: 'read-only', tenant_id })
  await lockTable(world.sql, 'merchants').locked
  const disconnect = new AbortController()
  const requests = Array.from({ length: 40 }, () =>
    fetch(`${url}/api/find?q=zzz`, { headers: { cookie: cookieOf(person) }, signal: disconnect.signal }),
  )
  await sleep(300)
  disconnect.abort()
  await Promise.allSettled(requests)
  await sleep(4_000)
  const running = await world.sql`
    select from pg_stat_activity
    where datname = current_database() and application_name = 'sluice-dashboard-lists' and wait_event_type = 'Lock'`
  expect(running).toHaveLength(0)
})

test('previews by read-only users have the limits of API keys, and abandoned previews do not delay other tenants', async ({
  world,
}) => {
  const flooded = await world.clientOf({ tenant: 'flooded' })
  const text = '{% for i in (1..50000) %}{% assign a = mark %}{% endfor %}Hello'
  const previewOf = async (client: Client, fields: object) => {
    const template = { name: freshKey(), channel: 'email', subject: 'x', ...fields }
    const { id } = (await client.post('/v1/messages/templates', template)).body
    return `/api/v1/messages/templates/${id}/preview`
  }
  const [slow, quick] = [await previewOf(flooded, { text }), await previewOf(world.client, { text: 'Hello' })]
  const read_only = { role: 'read-only', tenant_id: flooded.tenant_id } as const
  const [reader, another] = [await signedInAs(world, read_only), await signedInAs(world, read_only)]
  const other = await signedInAs(world, { role: 'read-only' })
  const request = { variables: { mark: 1, rest: 'x'.repeat(60_000) } }
  // Each user has at most a hundred concurrent requests.
  const flood = () =>
    Array.from({ length: 190 }, (_, nth) => (nth % 2 ? reader : another).post(slow, request))
  const refusalsOf = async (requests: ReturnType<typeof flood>) =>
    (await Promise.all(requests)).filter(({ status }) => status !== 200).map(({ body }) => body.error.message)
  const requests = flood()
  await Promise.race(requests)
  // A slow machine may briefly refuse a preview.
  const previewOfOther = async () => (await other.post(quick, { variables: {} })).body.text
  await expect.poll(previewOfOther).toBe('Hello')
  const refusals = await refusalsOf(requests)
  // On a busy machine, the lookups of sessions may refuse the requests before their templates wait.
  while (!refusals.some((message) => /your templates wait/.test(message)))
    refusals.push(...(await refusalsOf(flood())))
  for (const message of refusals)
    expect(message).toMatch(/ wait | are waiting|cannot be rendered now|is too busy|took too long/)

  const headers = { host, origin: url, cookie: cookieOf(reader), 'content-type': 'application/json' }
  const bytes = requestBytes('POST', slow, headers, JSON.stringify({ variables: { mark: 1 } }))
  const abandoned = openUnfinished(url, 300, bytes)
  for (let n = 0; n < 5; n += 1) await expect.poll(previewOfOther).toBe('Hello')
  await abandoned.reset()
  // On a slow machine the current rendering may take longer than the maximum wait of the next preview.
  const previewAgain = async () => (await reader.post(slow, { variables: { mark: 1 } })).body.text
  await expect.poll(previewAgain, { timeout: 60_000 }).toBe('Hello')
})

test('requests that change nothing are not recorded as acts, and the number of recorded acts is limited', async ({
  world,
}) => {
  const [reader, operator] = [
    await signedInAs(world, { role: 'read-only' }),
    await signedInAs(world, { is_operator: true }),
  ]
  await selectTenant(operator, world.tenant_id)
  const preview = (browser: Browser) =>
    browser.post(
      `/api/v1/messages/templates/${MISSING_ID}/preview`,
      { variables: {} },
      { 'x-sluice-tenant': world.tenant_id },
    )
  for (const browser of [reader, operator, reader, operator])
    expect((await preview(browser)).status).toBe(404)
  const actionsOf = async (person: { email: string }) =>
    (await entriesOf(world, person)).map(({ action }) => action)
  expect(await actionsOf(reader)).toEqual(['sign_in'])
  expect(await actionsOf(operator)).toEqual(['sign_in', 'show_tenant', 'previewMessageTemplate'])
  const { body: accesses } = await operator.get(`/api/ops/audit?actor=${operator.email}&limit=1`)
  expect(accesses).toMatchObject([
    { action: 'previewMessageTemplate', subject: 'template', expects_outcome: false },
  ])
  const support = await signedInAs(world, { role: 'support' })
  const answers: { status: number; headers: Headers }[] = []
  // The batches are small, so that no request is refused because of overload.
  for (let batch = 0; batch < 20; batch += 1) {
    const cancel = () => support.post(`/api/v1/payments/${MISSING_ID}/cancel`, {})
    answers.push(...(await Promise.all(Array.from({ length: 10 }, cancel))))
  }
  const refused = answers.filter(({ status }) => status === 429)
  expect(refused.length).toBeGreaterThan(40)
  expect(Number(refused[0]!.headers.get('retry-after'))).toBeGreaterThan(0)
  // Refused requests are not recorded, and other users are not limited.
  expect(await actionsOf(support)).toHaveLength(1 + 2 * answers.filter(({ status }) => status === 404).length)
  const other = await signedInAs(world, { role: 'support' })
  expect((await other.post(`/api/v1/payments/${MISSING_ID}/cancel`, {})).status).toBe(404)
})

test("changes of a user's own profile and requests for keys are limited in number and size", async ({
  world,
}) => {
  const person = await signedInAs(world, { role: 'developer' })
  const rename = (nth: number) => person.post('/api/auth/update-user', { name: `Ada ${nth}` })
  const scopes = Array<string>(3_000).fill('payments:read')
  expect((await person.post('/api/keys', { name: 'Large', scopes })).status).toBe(400)
  const statuses: number[] = []
  for (let batch = 0; batch < 20; batch += 1)
    statuses.push(
      ...(await Promise.all(Array.from({ length: 10 }, (_, nth) => rename(batch * 10 + nth)))).map(
        ({ status }) => status,
      ),
    )
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(40)
  expect((await person.post('/api/keys', { name: 'One more', scopes: ['payments:read'] })).status).toBe(429)
  const other = await signedInAs(world, { role: 'developer' })
  expect((await other.post('/api/keys', { name: 'Mine', scopes: ['payments:read'] })).status).toBe(201)
  expect((await other.post('/api/auth/update-user', { name: 'Ada \u202eevil' })).status).toBe(400)
})

test('names and reasons with control characters are refused, and the error names the field', async ({
  world,
}) => {
  const operator = await signedInAs(world, { role: 'developer', is_operator: true })
  for (const [path, field, more, texts] of [
    ['/api/auth/update-user', 'name', {}, ['x\u001b[2J', 'x\u009b2J', 'x\ny', 'x\u2028y']],
    ['/api/keys', 'name', { scopes: ['payments:read'] }, ['x\u001b[2J', 'x\ny']],
    ['/api/ops/pauses', 'reason', { queue: 'ai' }, ['x\u001b[2J', 'x\u009b2J']],
  ] as const)
    for (const text of texts) {
      const { status, body } = await operator.post(path, { ...more, [field]: text })
      expect([path, status, body.error]).toMatchObject([
        path,
        400,
        { param: field, message: expect.stringContaining('control characters') },
      ])
    }
})

test('the size of an audit log entry is limited', async ({ world }) => {
  const { sql } = world
  const append = (details: unknown) =>
    sql`select append_audit_entry(${sql.json({ actor: 'test', action: 'test', details } as never)}::jsonb)`
  await expect(Promise.resolve(append([1]))).rejects.toThrow('audit_entries_bounded')
  await expect(Promise.resolve(append({ much: 'x'.repeat(20_000) }))).rejects.toThrow('audit_entries_bounded')
})

test('API responses to sessions carry the security headers of the dashboard', async ({ world }) => {
  const person = await signedInAs(world, { role: 'read-only' })
  for (const path of ['/api/v1/customers', '/api/v1/nope'])
    expect(Object.fromEntries((await person.get(path)).headers)).toMatchObject({
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
      'cache-control': 'no-store',
    })
})

test('an origin with another scheme counts as another site, and a trusted proxy can report the scheme', async ({
  world,
}) => {
  const person = await signedInAs(world, { role: 'owner' })
  const statusOf = async (origin: string, extra_headers: Record<string, string> = {}) =>
    (
      await sendBytes(
        url,
        requestBytes(
          'POST',
          '/api/auth/update-user',
          {
            host,
            origin,
            cookie: cookieOf(person),
            'content-type': 'application/json',
            ...extra_headers,
          },
          '{"name":"Ada"}',
        ),
      )
    ).status
  for (const origin of [`https://${host}`, `ftp://${host}`, `http://x@${host}`, `http://${host}/`, ''])
    expect([origin, await statusOf(origin)]).toEqual([origin, 403])
  expect(await statusOf(`http://${host}`)).toBe(200)
  const proxy_headers = { 'x-forwarded-for': '203.0.113.9', 'x-forwarded-proto': 'https' }
  expect(await statusOf(`https://${host}`, proxy_headers)).toBe(200)
  expect(await statusOf(`http://${host}`, proxy_headers)).toBe(403)
})

test('no text in a query or a body causes a server error', async ({ world }) => {
  const operator = await signedInAs(world, { is_operator: true })
  await selectTenant(operator, world.tenant_id)
  for (const path of [
    '/api/find?q=%00',
    '/api/audit?actor=%00',
    '/api/audit?action=a%00',
    '/api/ops/audit?actor=%00',
    '/api/ops/tenants?search=%00',
    '/api/ops/parked?reason=%00',
    '/api/find?q=%ff',
    '/api/find?q=a%0ab',
  ])
    expect([path, (await operator.get(path)).status]).toEqual([path, 400])
  // With one of the two prefixes, the truncation of the text splits a surrogate pair.
  const emoji = '😀'.repeat(600)
  const support = await signedInAs(world, { role: 'support' })
  for (const start of ['', 'x']) {
    const read = await operator.get(
      `/api/v1/payments?processor_reference=${encodeURIComponent(start + emoji)}`,
    )
    const canceled = await support.post(`/api/v1/payments/${MISSING_ID}/cancel`, {
      reason: start + emoji.slice(0, 260),
    })
    expect([read.status, canceled.status].filter((status) => status >= 500)).toEqual([])
  }
})

test('an entry of the audit log names the resource whose id is in the path', async ({ world }) => {
  const documented = routesOf(await readDocument(world.client)).map(({ path }) => path)
  const paths = [
    ...documented.map((path) => path.replaceAll(/\{(\w+)\}/g, ':$1')),
    ...(await dashboardRoutes()).map(({ url: path }) => path),
  ].filter((path) => path.includes('/:'))
  const subjects = new Map(paths.map((path) => [path.replace(/\/:.*/, ''), subjectOfPath(path).subject]))
  expect(Object.fromEntries(subjects)).toStrictEqual({
    '/v1/ai/tasks': 'ai_task',
    '/v1/compliance/kyc': 'kyc',
    '/v1/customers': 'customer',
    '/v1/disputes': 'dispute',
    '/v1/events': 'event',
    '/v1/idempotency_keys': 'idempotency_key',
    '/v1/merchants': 'merchant',
    '/v1/messages': 'message',
    '/v1/messages/suppressions': 'suppression',
    '/v1/messages/templates': 'template',
    '/v1/payments': 'payment',
    '/v1/payouts': 'payout',
    '/v1/recipients': 'recipient',
    '/v1/refunds': 'refund',
    '/v1/wallet/top_ups': 'top_up',
    '/v1/webhook_deliveries': 'webhook_delivery',
    '/v1/webhook_endpoints': 'webhook_endpoint',
    '/v1/webhook_recoveries': 'webhook_recovery',
    '/api/events': 'event',
    '/api/invitations': 'invitation',
    '/api/keys': 'key',
    '/api/members': 'member',
    '/api/members/invitations': 'invitation',
    '/api/ops/acts': 'act',
    '/api/ops/jobs': 'job',
    '/api/ops/proposals': 'proposal',
    '/api/ops/queues': 'queue',
    '/api/ops/switches': 'switch',
    '/api/sandbox/kyc': 'kyc',
    '/api/sandbox/messages': 'message',
    '/api/sandbox/payments': 'payment',
    '/api/sandbox/payouts': 'payout',
    '/api/timelines': 'timeline',
    '/api/webhook_endpoints': 'webhook_endpoint',
  })

  const operator = await signedInAs(world, { is_operator: true })
  await selectTenant(operator, world.tenant_id)
  for (const path of [`/api/v1/payments/${MISSING_ID}/refunds`, `/api/timelines/${MISSING_ID}`])
    await operator.get(path)
  const { body } = await operator.get(`/api/ops/audit?actor=${operator.email}&limit=2`)
  expect(body).toMatchObject([
    { action: 'readTimeline', subject: 'timeline', subject_id: MISSING_ID },
    { action: 'listRefunds', subject: 'payment', subject_id: MISSING_ID },
  ])
})

test('only operators set the sender domains of a tenant, and the audit log records each change', async ({
  world,
}) => {
  const { tenant_id } = await world.clientOf({ tenant: 'writes' })
  const [operator, owner] = [
    await signedInAs(world, { is_operator: true }),
    await signedInAs(world, { role: 'owner', tenant_id }),
  ]
  await selectTenant(operator, tenant_id)
  const post = (browser: Browser, path: string, body: object = {}) =>
    browser.post(`/api/email-domains${path}`, body, { 'x-sluice-tenant': tenant_id })
  const readDomains = async (browser = operator) => (await browser.get('/api/email-domains')).body
  expect(await readDomains()).toEqual({ domains: null, of_installation: [] })
  const added = await post(operator, '', { domain: ' München.example ' })
  expect(added.status).toBe(204)
  const [entry] = (await operator.get(`/api/ops/audit?seq=${added.headers.get('x-audit-entry')}`)).body
  expect(entry).toMatchObject({
    tenant: 'writes',
    actor: operator.email,
    action: 'tenants.set_email_domains',
    subject: 'tenant',
    subject_id: tenant_id,
    details: { email_domains: ['xn--mnchen-3ya.example'] },
  })
  // Two concurrent additions are both stored.
  const both = await Promise.all(['a.example', 'b.example'].map((domain) => post(operator, '', { domain })))
  expect(both.map(({ status }) => status)).toEqual([204, 204])
  expect((await readDomains(owner)).domains.toSorted()).toEqual([
    'a.example',
    'b.example',
    'xn--mnchen-3ya.example',
  ])
  for (const [path, domain, status] of [
    ['', 'A.example', 409],
    ['', 'shop', 400],
    ['', 'shop.example.', 400],
    ['', 'a@shop.example', 400],
    ['', '*.example', 400],
    ['/remove', 'B.example', 204],
    ['/remove', 'b.example', 409],
  ] as const)
    expect([path, domain, (await post(operator, path, { domain })).status]).toEqual([path, domain, status])
  for (const path of ['', '/remove', '/default'])
    expect([path, (await post(owner, path, { domain: 'a.example' })).status]).toEqual([path, 403])
  expect((await readDomains()).domains).toEqual(['xn--mnchen-3ya.example', 'a.example'])
  for (const domain of ['xn--mnchen-3ya.example', 'a.example']) await post(operator, '/remove', { domain })
  expect((await readDomains()).domains).toEqual([])
  expect((await post(operator, '/default')).status).toBe(204)
  expect((await readDomains()).domains).toBe(null)
  await world.sql`update tenants set email_domains = array_fill('full.example'::text, array[100]) where id = ${tenant_id}`
  expect((await post(operator, '', { domain: 'a.example' })).status).toBe(409)
})

test('the audit log marks an act whose outcome is missing', async ({ world }) => {
  const person = await signedInAs(world, { role: 'owner' })
  const author = { tenant_id: world.tenant_id, actor_id: person.user_id }
  const entry = { ...author, action: 'two_factor.disable', details: { expects_outcome: true } }
  await world.sql`select append_audit_entry(${world.sql.json(entry)}::jsonb)`
  const { body } = await person.get(`/api/audit?actor=${person.email}&limit=1`)
  expect(body).toMatchObject([{ outcome: null, expects_outcome: true, details: {} }])
})

test('the dashboard cannot record an entry in the name of another user', async ({ world }) => {
  const [one, other] = [await createPerson(world), await createPerson(world)]
  const append = (entry: object) =>
    world.sql.begin(async (tx) => {
      await tx`set local role sluice_dashboard`
      await tx`select append_audit_entry(${tx.json({ action: 'forged', ...entry })}::jsonb)`
    })
  await append({ actor_id: one.user_id, actor: other.email })
  const entries = await world.sql`select actor from audit_entries where action = 'forged'`
  expect(entries).toEqual([{ actor: one.email }])
  for (const actor of [
    other.email,
    other.email.toUpperCase(),
    ` ${other.email}`,
    `${other.email}\u200b`,
    'ada',
  ])
    await expect(append({ actor })).rejects.toMatchObject({ code: '42501' })
  await expect(append({ actor_id: MISSING_ID, actor: other.email })).rejects.toThrow('no rows')
})

test('one operator cannot occupy all streams of the dashboard', async ({ world }) => {
  const [one, another] = [
    await signedInAs(world, { is_operator: true }),
    await signedInAs(world, { is_operator: true }),
  ]
  const disconnect = new AbortController()
  onTestFinished(() => disconnect.abort())
  // The garbage collector would close a stream without a reference.
  const open_responses: Response[] = []
  const open = async (browser: Browser) => {
    const { signal } = disconnect
    open_responses.push(
      await fetch(`${url}/api/ops/stream`, { headers: { cookie: cookieOf(browser) }, signal }),
    )
    return open_responses.at(-1)!.status
  }
  for (let n = 0; n < 5; n += 1) expect(await open(one)).toBe(200)
  expect(await open(one)).toBe(429)
  expect(await open(another)).toBe(200)
  expect((await createBrowser(url).get('/api/ops/stream')).status).toBe(401)
})

// This is the last test, so its entries are newer than the entries of all other tests.
test('a page of the audit log reads a limited number of entries and links to the next page', async ({
  world,
}) => {
  const { tenant_id } = await world.clientOf({ tenant: 'long' })
  const [owner, operator] = [
    await signedInAs(world, { role: 'owner', tenant_id }),
    await signedInAs(world, { is_operator: true }),
  ]
  await world.sql`
    insert into audit_entries (seq, at, tenant_id, actor, action, details, previous, hash)
    select 1000000000 + n, now() + n * interval '1 ms', ${tenant_id}, 'somebody', 'getPayment', '{}', '', ''
    from generate_series(1, 25000) n`
  for (const [browser, path] of [
    [owner, `/api/audit?action=sign_in&limit=5`],
    [owner, `/api/audit?actor=${owner.email}&limit=5`],
    [operator, `/api/ops/audit?actor=${owner.email}&limit=5`],
  ] as const) {
    let next_path: string | undefined = path
    const pages: [number, boolean][] = []
    const found: { actor: string }[] = []
    while (next_path !== undefined) {
      const { status, headers, body } = await browser.get(next_path)
      expect([next_path, status]).toEqual([next_path, 200])
      found.push(...body)
      pages.push([body.length, headers.has('x-scanned-until')])
      next_path = /^<(.*)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1]
    }
    expect([path, pages]).toEqual([
      path,
      [
        [0, true],
        [0, true],
        [1, false],
      ],
    ])
    expect(found).toMatchObject([{ actor: owner.email, action: 'sign_in' }])
  }
  // A page that is full before the limit of the scan has no `x-scanned-until` header.
  const { headers, body } = await owner.get('/api/audit?action=get')
  expect([body.length, headers.has('x-scanned-until')]).toEqual([50, false])
})

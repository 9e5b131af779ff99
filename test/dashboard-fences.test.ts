// The fences of the dashboard over real sockets: whose pages a request is for, what operators read, limits and odd requests.
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import { expect, onTestFinished } from 'vitest'
import { auditedParameters, subjectOfPath, AUDITED_FIELDS } from '#dashboard/audited-parameters.ts'
import { freshKey, type Answer, type Client } from '#test/client.ts'
import { dashboardRoutes } from '#test/dashboard-routes.ts'
import { readDocument, routesOf } from '#test/documentation.ts'
import { heldPayment } from '#test/payments.ts'
import { createBrowser, createPerson, entriesOf, signedInAs, signIn, type Browser } from '#test/people.ts'
import { openUnfinished, requestBytes, sendBytes } from '#test/raw.ts'
import { testIn, type World } from '#test/world.ts'

const NOBODY = '0198f6f0-1234-7000-8000-123456789abc'

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
/** From now on searches wait for a table, as if they had much to read; until that is called, or the test ends. */
async function slowSearches(world: World): Promise<() => Promise<void>> {
  const [locked, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const lock = world.sql.begin(async (tx) => {
    await tx`lock table merchants in access exclusive mode`
    locked.resolve()
    await over.promise
  })
  const unlock = async () => {
    over.resolve()
    await lock
  }
  onTestFinished(unlock)
  await locked.promise
  return unlock
}
const choose = async (browser: Browser, tenant_id: string) =>
  expect((await browser.post('/api/session/tenant', { tenant_id })).status).toBe(204)

test('what a page asks for its tenant never happens in another one', async ({ world }) => {
  const other = await world.clientOf({ tenant: 'second' })
  const person = await createPerson(world, { role: 'owner' })
  await world.sql`insert into members (tenant_id, user_id, role) values (${other.tenant_id}, ${person.user_id}, 'owner')`
  const tab = await signIn(url, person)
  const named = { 'x-sluice-tenant': (await tab.get('/api/session')).body.tenant.id }
  const act = (headers: Record<string, string>, key: string) =>
    tab.post('/api/v1/customers', { name: 'Ada' }, { 'idempotency-key': key, ...headers })
  expect((await act(named, 'first')).status).toBe(201)
  await choose(tab, other.tenant_id)
  const refused = [
    await act(named, 'second'),
    await tab.post('/api/keys', { name: 'x', scopes: ['events:read'] }, named),
    await tab.get('/api/v1/payments', named),
    await tab.get('/api/overview', named),
    await tab.get('/api/session', named),
  ]
  for (const { status, body } of refused)
    expect([status, body.error.code, body.error.message]).toEqual([
      409,
      'conflict',
      'This page shows acme, but your session has selected another one. Reload the page.',
    ])
  // Without the header nobody knows what was meant; what reads says itself whose it is.
  for (const { status, body } of [
    await act({}, 'third'),
    await tab.post('/api/keys', { name: 'x', scopes: ['events:read'] }),
  ])
    expect([status, body.error.param]).toEqual([400, 'x-sluice-tenant'])
  expect((await tab.get('/api/v1/payments')).status).toBe(200)
  expect(await world.sql`select from customers where tenant_id = ${other.tenant_id}`).toEqual([])
  expect((await act({ 'x-sluice-tenant': other.tenant_id }, 'fourth')).status).toBe(201)

  // Who is no member any more sees none, until they choose.
  await world.sql`delete from members where tenant_id = ${other.tenant_id} and user_id = ${person.user_id}`
  expect((await tab.get('/api/session')).body).toMatchObject({ tenant: null, role: null, may: [] })
  const keys = await world.sql`select from api_keys where tenant_id = ${world.tenant_id}`
  expect((await tab.post('/api/keys', { name: 'x', scopes: ['events:read'] })).status).toBe(403)
  expect(await world.sql`select from api_keys where tenant_id = ${world.tenant_id}`).toHaveLength(keys.length)
  await choose(tab, world.tenant_id)
  // A script by hand, with one tenant, needs no header.
  expect((await act({}, 'fifth')).status).toBe(201)
})

test('every route that answers something of a tenant puts on record that an operator reads it', async ({
  world,
}) => {
  const operator = await signedInAs(world, { is_operator: true })
  await choose(operator, world.tenant_id)
  const paths = (await dashboardRoutes())
    .filter(({ method }) => method === 'GET')
    .map(({ url: path }) => path)
    .filter((path) => /^\/api\/(?!auth\/|ops\/|session(?:\/pauses)?$|invitations\/)/.test(path))
  expect(paths.length).toBeGreaterThanOrEqual(10)
  for (const path of paths) {
    const before = await entriesOf(world, operator)
    const query = path === '/api/find' ? '?q=private-person@shop.example' : ''
    await operator.get(`${path.replace(':id', NOBODY)}${query}`)
    const after = await entriesOf(world, operator)
    expect([path, after.length - before.length]).toEqual([path, 1])
    // Each has a name for people.
    expect(after.at(-1)!.action).not.toContain('/')
  }
  // Looking has no outcome of its own, so none is missing.
  const { body } = await operator.get(`/api/ops/audit?actor=${operator.email}&limit=100`)
  expect(body.length).toBeGreaterThan(paths.length)
  for (const { action, expects_outcome } of body) expect([action, expects_outcome]).toEqual([action, false])
  await heldPayment(world.client)
  const [job] = await world.sql`select id from all_jobs where name = 'payment.authorize' limit 1`
  for (const time of [1, 2])
    expect([time, (await operator.get(`/api/ops/jobs/${job!['id']}`)).status]).toEqual([time, 200])
  const told = await world.sql`
    select action, details::text as details from audit_entries
    where actor_id = ${operator.user_id} and tenant_id = ${world.tenant_id}`
  expect(told.filter(({ action }) => action === 'readJob')).toHaveLength(1)
  expect(JSON.stringify(told)).not.toContain('private-person')
})

test('what operators read is on record without filters that nobody said may be told', async ({ world }) => {
  const operator = await signedInAs(world, { is_operator: true })
  await choose(operator, world.tenant_id)
  await operator.get('/api/v1/payments?status=captured&processor_reference=private-words&limit=5')
  await operator.get('/api/audit?action=sign_in&actor=private-words&before=7')
  const told = (await entriesOf(world, operator)).slice(-2).map(({ details }) => details['query'])
  expect(told).toEqual([
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

test('each filter of the API is told in the audit log, or is one that is not', async ({ world }) => {
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

test('other ways to write a path, whole addresses and two hosts are refused', async ({ world }) => {
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

test('everything below /api and bull-board counts for the limit of an address', async ({ world }) => {
  const operator = await signedInAs(world, { is_operator: true })
  const address = { 'x-forwarded-for': '198.51.100.7' }
  const ask = (path: string) => operator.get(path, address)
  // The flood goes on until each path was refused: in a pause a slow machine would have room again.
  const over = new AbortController()
  const flood = Array.from({ length: 100 }, async () => {
    const statuses: number[] = []
    while (!over.signal.aborted) statuses.push((await ask('/api/nope')).status)
    return statuses
  })
  const refused = async (path: string) => {
    while ((await ask(path)).status !== 429);
  }
  try {
    await Promise.all(['/%61pi/session', '/ops/bull-board', '/api/session'].map(refused))
  } finally {
    over.abort()
  }
  expect((await Promise.all(flood)).flat()).toContain(429)
  expect((await ask('/payments')).status).not.toBe(429)
})

test('sessions that have ended are looked up a few times, and hold up nobody who has one', async ({
  world,
}) => {
  const ended = await signedInAs(world, { role: 'read-only' })
  await world.sql`delete from user_sessions where user_id = ${ended.user_id}`
  const live = await signedInAs(world, { role: 'read-only' })
  const address = { 'x-forwarded-for': '198.51.100.77' }
  const ask = (browser: Browser, headers = address) => browser.get('/api/v1/customers', headers)
  expect((await ask(live)).status).toBe(200)
  const all: Answer[] = []
  const of = (status: number) => all.filter((each) => each.status === status)
  // A slow machine answers `overloaded` to those who waited for a look-up too long; these have used up nothing.
  do all.push(...(await Promise.all(Array.from({ length: 150 }, () => ask(ended)))))
  while (of(429).length === 0 && of(401).length < 60)
  expect(of(401).length).toBeLessThan(60)
  expect(of(401).length + of(429).length + of(503).length).toBe(all.length)
  expect(Number(of(429)[0]!.headers.get('retry-after'))).toBeGreaterThan(0)
  // Who is signed in at the same address is, and so is who comes from another one.
  expect((await ask(live)).status).toBe(200)
  expect((await ask(ended, { 'x-forwarded-for': '198.51.100.78' })).status).toBe(401)
  // Without a cookie nothing is looked up: who is signed out is told so.
  expect((await fetch(`${url}/api/v1/customers`, { headers: address })).status).toBe(401)
})

test('nobody makes many cookies of one', async ({ world }) => {
  const [person, live] = [
    await signedInAs(world, { role: 'read-only' }),
    await signedInAs(world, { role: 'read-only' }),
  ]
  const address = { 'x-forwarded-for': '198.51.100.79' }
  expect((await live.get('/api/session', address)).status).toBe(200)
  const statuses: number[] = []
  for (let round = 0; round < 15; round += 1)
    statuses.push(
      ...(await Promise.all(
        Array.from({ length: 10 }, async (_, nth) => {
          const cookie = `${cookieOf(person)}; x=${round * 10 + nth}`
          return (await fetch(`${url}/api/v1/customers`, { headers: { ...address, cookie } })).status
        }),
      )),
    )
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(40)
  expect((await live.get('/api/session', address)).status).toBe(200)
})

test('that is so wherever a session is looked up', async ({ world }) => {
  const ended = await signedInAs(world, { role: 'read-only' })
  await world.sql`delete from user_sessions where user_id = ${ended.user_id}`
  let last = 100
  for (const path of [
    '/api/session',
    '/api/session/pauses',
    '/api/overview',
    '/api/ops/queues',
    '/api/ops/stream',
    '/api/auth/list-sessions',
  ]) {
    const address = { 'x-forwarded-for': `198.51.100.${(last += 1)}` }
    const all = await Promise.all(Array.from({ length: 80 }, () => ended.get(path, address)))
    const count = (...statuses: number[]) => all.filter(({ status }) => statuses.includes(status)).length
    // Where the machine is slow, some are not looked up in time.
    expect([path, count(401) < 60, count(401, 429, 503)]).toEqual([path, true, 80])
  }
  // Whoever is in the middle of signing in has a cookie, and no session yet.
  const half = { 'x-forwarded-for': '198.51.100.99', cookie: 'sluice.two_factor=x' }
  const signing = await Promise.all(
    Array.from({ length: 80 }, async () => (await fetch(`${url}/api/session`, { headers: half })).status),
  )
  expect(new Set(signing)).toEqual(new Set([401]))
})

test('tenants that ask for much hold up no other tenant, and no operator', async ({ world }) => {
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
  const unlock = await slowSearches(world)
  const search = (browser: Browser) => browser.get('/api/find?q=zzz')
  // Whoever asked for much once does not ask among the quick ones for a while.
  await Promise.all(slow.map(search))
  const over = new AbortController()
  const flood = slow.flatMap((browser) =>
    Array.from({ length: 40 }, async () => {
      const statuses: number[] = []
      for (; !over.signal.aborted; await sleep(200)) statuses.push((await search(browser)).status)
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
    // A slow machine may refuse one for a moment; it is answered while the others ask on.
    await expect.poll(async () => [path, (await browser.get(path)).status]).toEqual([path, 200])
  over.abort()
  await unlock()
  expect([200, 429, 503]).toEqual(expect.arrayContaining([...new Set((await Promise.all(flood)).flat())]))
})

test('what somebody asked for who has left is not looked for', async ({ world }) => {
  const { tenant_id } = await world.clientOf({ tenant: 'leaving' })
  const person = await signedInAs(world, { role: 'read-only', tenant_id })
  await slowSearches(world)
  const leave = new AbortController()
  const asked = Array.from({ length: 40 }, () =>
    fetch(`${url}/api/find?q=zzz`, { headers: { cookie: cookieOf(person) }, signal: leave.signal }),
  )
  await sleep(300)
  leave.abort()
  await Promise.allSettled(asked)
  await sleep(4_000)
  const looking = await world.sql`
    select from pg_stat_activity
    where datname = current_database() and application_name = 'sluice-dashboard-lists' and wait_event_type = 'Lock'`
  expect(looking).toHaveLength(0)
})

test('previews of somebody who only reads are bounded as those of a key, and hold up nobody when they have left', async ({
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
  const reads = { role: 'read-only', tenant_id: flooded.tenant_id } as const
  const [reader, another] = [await signedInAs(world, reads), await signedInAs(world, reads)]
  const other = await signedInAs(world, { role: 'read-only' })
  const asked = { variables: { mark: 1, rest: 'x'.repeat(60_000) } }
  // Of one person a hundred are looked up at once.
  const all = Array.from({ length: 190 }, (_, nth) => (nth % 2 ? reader : another).post(slow, asked))
  await Promise.race(all)
  // A slow machine may refuse one for a moment.
  const theirs = async () => (await other.post(quick, { variables: {} })).body.text
  await expect.poll(theirs).toBe('Hello')
  const answers = await Promise.all(all)
  const refusals = answers.filter(({ status }) => status !== 200).map(({ body }) => body.error.message)
  expect(refusals).toContainEqual(expect.stringMatching(/your templates wait/))
  for (const message of refusals)
    expect(message).toMatch(/ wait | are waiting|cannot be rendered now|is too busy|took too long/)

  const headers = { host, origin: url, cookie: cookieOf(reader), 'content-type': 'application/json' }
  const bytes = requestBytes('POST', slow, headers, JSON.stringify({ variables: { mark: 1 } }))
  const leaving = openUnfinished(url, 300, bytes)
  for (let n = 0; n < 5; n += 1) await expect.poll(theirs).toBe('Hello')
  await leaving.reset()
  // On a slow machine the one that is rendered may take longer than the next may wait.
  const again = async () => (await reader.post(slow, { variables: { mark: 1 } })).body.text
  await expect.poll(again, { timeout: 60_000 }).toBe('Hello')
}, 180_000)

test('what changes nothing is no act on record, and nobody fills the record with acts', async ({ world }) => {
  const [reader, operator] = [
    await signedInAs(world, { role: 'read-only' }),
    await signedInAs(world, { is_operator: true }),
  ]
  await choose(operator, world.tenant_id)
  const preview = (browser: Browser) =>
    browser.post(
      `/api/v1/messages/templates/${NOBODY}/preview`,
      { variables: {} },
      { 'x-sluice-tenant': world.tenant_id },
    )
  for (const browser of [reader, operator, reader, operator])
    expect((await preview(browser)).status).toBe(404)
  const actionsOf = async (person: { email: string }) =>
    (await entriesOf(world, person)).map(({ action }) => action)
  expect(await actionsOf(reader)).toEqual(['sign_in'])
  expect(await actionsOf(operator)).toEqual(['sign_in', 'show_tenant', 'previewMessageTemplate'])
  const { body: looks } = await operator.get(`/api/ops/audit?actor=${operator.email}&limit=1`)
  expect(looks).toMatchObject([
    { action: 'previewMessageTemplate', subject: 'template', expects_outcome: false },
  ])
  const support = await signedInAs(world, { role: 'support' })
  const all: { status: number; headers: Headers }[] = []
  // Few at once: what is refused because the process is overloaded says nothing here.
  for (let round = 0; round < 20; round += 1) {
    const cancel = () => support.post(`/api/v1/payments/${NOBODY}/cancel`, {})
    all.push(...(await Promise.all(Array.from({ length: 10 }, cancel))))
  }
  const refused = all.filter(({ status }) => status === 429)
  expect(refused.length).toBeGreaterThan(40)
  expect(Number(refused[0]!.headers.get('retry-after'))).toBeGreaterThan(0)
  // What was refused is not on record either; nobody else is held up.
  expect(await actionsOf(support)).toHaveLength(1 + 2 * all.filter(({ status }) => status === 404).length)
  const other = await signedInAs(world, { role: 'support' })
  expect((await other.post(`/api/v1/payments/${NOBODY}/cancel`, {})).status).toBe(404)
})

test('nobody fills the record by changing themselves, or with large keys', async ({ world }) => {
  const person = await signedInAs(world, { role: 'developer' })
  const rename = (nth: number) => person.post('/api/auth/update-user', { name: `Ada ${nth}` })
  const scopes = Array<string>(3_000).fill('payments:read')
  expect((await person.post('/api/keys', { name: 'Large', scopes })).status).toBe(400)
  const statuses: number[] = []
  for (let round = 0; round < 20; round += 1)
    statuses.push(
      ...(await Promise.all(Array.from({ length: 10 }, (_, nth) => rename(round * 10 + nth)))).map(
        ({ status }) => status,
      ),
    )
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(40)
  expect((await person.post('/api/keys', { name: 'One more', scopes: ['payments:read'] })).status).toBe(429)
  const other = await signedInAs(world, { role: 'developer' })
  expect((await other.post('/api/keys', { name: 'Mine', scopes: ['payments:read'] })).status).toBe(201)
  expect((await other.post('/api/auth/update-user', { name: 'Ada \u202eevil' })).status).toBe(400)
})

test('an entry of the audit log is an object, and bounded', async ({ world }) => {
  const { sql } = world
  const append = (details: unknown) =>
    sql`select append_audit_entry(${sql.json({ actor: 'test', action: 'test', details } as never)}::jsonb)`
  await expect(Promise.resolve(append([1]))).rejects.toThrow('audit_entries_bounded')
  await expect(Promise.resolve(append({ much: 'x'.repeat(20_000) }))).rejects.toThrow('audit_entries_bounded')
})

test('answers of the API to sessions carry the headers of the dashboard', async ({ world }) => {
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

test('an origin of another scheme is another site; a trusted proxy says which scheme it is', async ({
  world,
}) => {
  const person = await signedInAs(world, { role: 'owner' })
  const ask = async (origin: string, more: Record<string, string> = {}) =>
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
            ...more,
          },
          '{"name":"Ada"}',
        ),
      )
    ).status
  for (const origin of [`https://${host}`, `ftp://${host}`, `http://x@${host}`, `http://${host}/`, ''])
    expect([origin, await ask(origin)]).toEqual([origin, 403])
  expect(await ask(`http://${host}`)).toBe(200)
  const behind = { 'x-forwarded-for': '203.0.113.9', 'x-forwarded-proto': 'https' }
  expect(await ask(`https://${host}`, behind)).toBe(200)
  expect(await ask(`http://${host}`, behind)).toBe(403)
})

test('no text in a query or a body breaks an answer', async ({ world }) => {
  const operator = await signedInAs(world, { is_operator: true })
  await choose(operator, world.tenant_id)
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
  // Whichever half of a character is cut off.
  const faces = '😀'.repeat(600)
  const support = await signedInAs(world, { role: 'support' })
  for (const start of ['', 'x']) {
    const read = await operator.get(
      `/api/v1/payments?processor_reference=${encodeURIComponent(start + faces)}`,
    )
    const done = await support.post(`/api/v1/payments/${NOBODY}/cancel`, {
      reason: start + faces.slice(0, 260),
    })
    expect([read.status, done.status].filter((status) => status >= 500)).toEqual([])
  }
})

test('whatever the id in a path is of, the audit log names it by one word', async ({ world }) => {
  const documented = routesOf(await readDocument(world.client)).map(({ path }) => path)
  const paths = [
    ...documented.map((path) => path.replaceAll(/\{(\w+)\}/g, ':$1')),
    ...(await dashboardRoutes()).map(({ url: path }) => path),
  ].filter((path) => path.includes('/:'))
  const words = new Map(paths.map((path) => [path.replace(/\/:.*/, ''), subjectOfPath(path).subject]))
  expect(Object.fromEntries(words)).toEqual({
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
    '/api/stories': 'story',
    '/api/webhook_endpoints': 'webhook_endpoint',
  })

  const operator = await signedInAs(world, { is_operator: true })
  await choose(operator, world.tenant_id)
  for (const path of [`/api/v1/payments/${NOBODY}/refunds`, `/api/stories/${NOBODY}`])
    await operator.get(path)
  const { body } = await operator.get(`/api/ops/audit?actor=${operator.email}&limit=2`)
  expect(body).toMatchObject([
    { action: 'readStory', subject: 'story', subject_id: NOBODY },
    { action: 'listRefunds', subject: 'payment', subject_id: NOBODY },
  ])
})

test('operators set the domains that a tenant’s email may be from, on record, and nobody else does', async ({
  world,
}) => {
  const { tenant_id } = await world.clientOf({ tenant: 'writes' })
  const [operator, owner] = [
    await signedInAs(world, { is_operator: true }),
    await signedInAs(world, { role: 'owner', tenant_id }),
  ]
  await choose(operator, tenant_id)
  const act = (by: Browser, path: string, body: object = {}) =>
    by.post(`/api/email-domains${path}`, body, { 'x-sluice-tenant': tenant_id })
  const shown = async (by = operator) => (await by.get('/api/email-domains')).body
  expect(await shown()).toEqual({ domains: null, of_installation: [] })
  const added = await act(operator, '', { domain: ' München.example ' })
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
  // Two at once: neither is lost.
  const both = await Promise.all(['a.example', 'b.example'].map((domain) => act(operator, '', { domain })))
  expect(both.map(({ status }) => status)).toEqual([204, 204])
  expect((await shown(owner)).domains.toSorted()).toEqual([
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
    expect([path, domain, (await act(operator, path, { domain })).status]).toEqual([path, domain, status])
  for (const path of ['', '/remove', '/default'])
    expect([path, (await act(owner, path, { domain: 'a.example' })).status]).toEqual([path, 403])
  expect((await shown()).domains).toEqual(['xn--mnchen-3ya.example', 'a.example'])
  for (const domain of ['xn--mnchen-3ya.example', 'a.example']) await act(operator, '/remove', { domain })
  expect((await shown()).domains).toEqual([])
  expect((await act(operator, '/default')).status).toBe(204)
  expect((await shown()).domains).toBe(null)
  await world.sql`update tenants set email_domains = array_fill('full.example'::text, array[100]) where id = ${tenant_id}`
  expect((await act(operator, '', { domain: 'a.example' })).status).toBe(409)
})

test('an act whose outcome was lost reads as such, and an old entry does not say whether one was to follow', async ({
  world,
}) => {
  const person = await signedInAs(world, { role: 'owner' })
  const by = { tenant_id: world.tenant_id, actor_id: person.user_id }
  for (const entry of [{ details: { expects_outcome: true } }, { details: { reason: 'x' } }])
    await world.sql`
      select append_audit_entry(${world.sql.json({ ...by, action: 'two_factor.disable', ...entry })}::jsonb)`
  const { body } = await person.get(`/api/audit?actor=${person.email}&limit=2`)
  expect(body).toMatchObject([
    { outcome: null, expects_outcome: null, details: { reason: 'x' } },
    { outcome: null, expects_outcome: true, details: {} },
  ])
})

test('the dashboard writes nothing on record in the name of somebody else', async ({ world }) => {
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
  await expect(append({ actor_id: NOBODY, actor: other.email })).rejects.toThrow('no rows')
})

test('one operator cannot take all streams', async ({ world }) => {
  const [one, another] = [
    await signedInAs(world, { is_operator: true }),
    await signedInAs(world, { is_operator: true }),
  ]
  const leave = new AbortController()
  onTestFinished(() => leave.abort())
  // A stream that nobody holds is closed with the garbage.
  const held: Response[] = []
  const open = async (browser: Browser) => {
    const { signal } = leave
    held.push(await fetch(`${url}/api/ops/stream`, { headers: { cookie: cookieOf(browser) }, signal }))
    return held.at(-1)!.status
  }
  for (let n = 0; n < 5; n += 1) expect(await open(one)).toBe(200)
  expect(await open(one)).toBe(429)
  expect(await open(another)).toBe(200)
  expect((await createBrowser(url).get('/api/ops/stream')).status).toBe(401)
})

// Last: what is made up here is newer than all that others put on record.
test('a page of the audit log looks at so many entries, says until when, and goes on there', async ({
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
    let at: string | undefined = path
    const pages: [number, boolean][] = []
    const found: { actor: string }[] = []
    while (at !== undefined) {
      const { status, headers, body } = await browser.get(at)
      expect([at, status]).toEqual([at, 200])
      found.push(...body)
      pages.push([body.length, headers.has('x-scanned-until')])
      at = /^<(.*)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1]
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
  // What is found at once is a page like any other.
  const { headers, body } = await owner.get('/api/audit?action=get')
  expect([body.length, headers.has('x-scanned-until')]).toEqual([50, false])
})

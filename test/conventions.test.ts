// Tests the rules for every request: ids, rate limits, authentication before routing, connections, timestamps, methods.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect, type Socket } from 'node:net'
import pino from 'pino'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, onTestFinished, vi } from 'vitest'
import { createCallerLimit, createLimit, type CallerLimit } from '#api/limit.ts'
import { startApi } from '#api/main.ts'
import { createSlowLane } from '#api/slow-lane.ts'
import { createBodyReader } from '#core/bodies.ts'
import type { AppError } from '#core/errors.ts'
import { createListener } from '#core/listener.ts'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { createLog } from '#core/log.ts'
import { serveOperations } from '#core/service.ts'
import { listenAddresses } from '#core/startup.ts'
import type { Stoppable } from '#core/run.ts'
import { createClient, freshKey } from '#test/client.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { signedInAs } from '#test/people.ts'
import { until } from '#test/process.ts'
import { memoryInUse, openUnfinished, requestBytes, sendBytes } from '#test/raw.ts'
import { postgresUrl } from '#test/suite.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

const parts: Stoppable[] = []

const test = testIn({ parts: ['api'] })
afterAll(async () => {
  for (const part of parts) await part.close()
})

test('a valid x-request-id is returned, even in errors; an invalid x-request-id is replaced', async ({
  world,
}) => {
  const accepted = await world.client.get('/v1/customers', { 'x-request-id': 'order-17.a_B' })
  expect(accepted.headers.get('x-request-id')).toBe('order-17.a_B')
  const refused = await world.client.get('/v1/nope', { 'x-request-id': 'order-18' })
  expect(refused.body.error.request_id).toBe('order-18')
  for (const invalid of ['with space', 'a'.repeat(65), '<script>', 'a,b']) {
    const answer = await world.client.get('/v1/customers', { 'x-request-id': invalid })
    expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/)
  }
  const outside = await createClient(world.client.url, '').get('/healthz')
  expect(outside.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
})

test('every response of /v1 has headers with the rate limit and its remaining requests', async ({
  world,
}) => {
  const answers = [
    await world.client.get('/v1/customers'),
    await world.client.get('/v1/nope'),
    await world.client.post('/v1/customers', {}),
    await createClient(world.client.url, '').get('/v1/customers'),
  ]
  expect(answers.map((answer) => answer.status)).toEqual([200, 404, 400, 401])
  for (const { headers } of answers) {
    expect(headers.get('ratelimit-policy')).toMatch(/^"default";q=\d+;w=\d+(, "tenant";q=\d+;w=\d+)?$/)
    expect(headers.get('ratelimit')).toMatch(/^"default";r=\d+;t=\d+(, "tenant";r=\d+;t=\d+)?$/)
  }
})

test('the refusal of a key over its rate limit states when to retry, and other keys are not limited', async ({
  world,
}) => {
  const url = await startApiWith(world, { RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 3 })
  const greedy = createClient(url, world.client.key)
  // The test reads a single resource, because the duration of a list also counts against the limit.
  const { id } = (await world.client.post('/v1/customers', { idempotency_key: freshKey() })).body
  const remaining: string[] = []
  for (let i = 0; i < 3; i++) {
    const answer = await greedy.get(`/v1/customers/${id}`)
    expect(answer.status).toBe(200)
    remaining.push(answer.headers.get('ratelimit')!)
  }
  expect(remaining[0]).toMatch(/r=2;/)
  expect(remaining[2]).toMatch(/r=[01];/)
  const refused = await untilRefused(() => greedy.get(`/v1/customers/${id}`))
  expect(refused.body.error).toMatchObject({
    code: 'rate_limited',
    message: expect.stringContaining('1 a second and 3 at once'),
  })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  expect(refused.headers.get('ratelimit')).toMatch(/^"default";r=0;t=[1-9]/)
  expect(refused.headers.get('ratelimit-policy')).toBe('"default";q=3;w=3, "tenant";q=12;w=3')
  const other = await world.clientOf()
  expect((await createClient(url, other.key).get('/v1/customers')).status).toBe(200)
})

test("all keys of a tenant share a rate limit; the tenant's people and other tenants have separate limits", async ({
  world,
}) => {
  const keys = await Promise.all(Array.from({ length: 30 }, () => world.clientOf({ tenant: 'many-keys' })))
  const url = await startApiWith(world, { RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 3 })
  const missing = '/v1/customers/0198f6f0-0000-7000-8000-000000000000'
  const answers = []
  for (const { key } of keys.slice(0, 4))
    for (let n = 0; n < 3; n++) answers.push(await createClient(url, key).get(missing))
  expect(answers[0]!.headers.get('ratelimit')).toMatch(/^"default";r=2;t=\d+, "tenant";r=11;t=\d+$/)
  expect(answers.map(({ status }) => status)).toEqual(Array(12).fill(404))
  // The tenant's limit may recover in the meantime, so several requests may be needed. Each key sends only three of
  // them, so that no key exceeds its own limit.
  let requests = 12
  const refused = await untilRefused(() =>
    createClient(url, keys[Math.floor(requests++ / 3)]!.key).get(missing),
  )
  expect(refused.body.error).toMatchObject({
    code: 'rate_limited',
    message:
      'Too many requests of all keys of the tenant: at most 4 a second and 12 at once are allowed. Large requests and answers count as several.',
  })
  expect(refused.headers.get('retry-after')).toBe('1')
  expect(refused.headers.get('ratelimit-policy')).toBe('"default";q=3;w=3, "tenant";q=12;w=3')
  expect(refused.headers.get('ratelimit')).toMatch(/, "tenant";r=0;t=1$/)
  const other = await world.clientOf()
  expect((await createClient(url, other.key).get(missing)).status).toBe(404)

  // The operator can set the limit of a tenant.
  const custom = await startApiWith(world, {
    RATE_LIMIT_RPS: 1,
    RATE_LIMIT_TENANT_RPS: 1,
    RATE_LIMIT_TENANT_BURST: 2,
  })
  const [first, second] = keys
  expect((await createClient(custom, first!.key).get(missing)).status).toBe(404)
  expect((await createClient(custom, first!.key).get(missing)).status).toBe(404)
  expect((await createClient(custom, second!.key).get(missing)).status).toBe(429)
})

test('a key that exceeds its rate limit does not limit the other keys of its tenant', async ({ world }) => {
  const [indebted, other] = await Promise.all([0, 1].map(() => world.clientOf({ tenant: 'one-in-debt' })))
  const url = await startApiWith(world, { RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 20 })
  const body = `"${'x'.repeat(250 * 1024)}`
  const headers = { 'content-type': 'application/json' }
  const flood = createClient(url, indebted!.key)
  await Promise.all(Array.from({ length: 18 }, () => flood.send('POST', '/v1/customers', { body, headers })))
  const missing = '/v1/customers/0198f6f0-0000-7000-8000-000000000000'
  expect((await flood.get(missing)).status).toBe(429)
  expect((await createClient(url, other!.key).get(missing)).status).toBe(404)
})

/** A rate limit whose clock advances only by fake timers. */
function limitWithFakeTime(world: World): CallerLimit {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  return createCallerLimit({ ...world.config, RATE_LIMIT_RPS: 500, RATE_LIMIT_BURST: 2000 })
}

/** True if a request of the key is admitted. An admitted request counts as `extra` additional requests. */
function isAdmitted(limit: CallerLimit, key_id: string, extra = 0): boolean {
  const caller = { key_id, tenant_id: 'one' }
  try {
    limit(caller)
  } catch {
    return false
  }
  limit.charge(caller, extra)
  return true
}

test.for([959, 1])(
  "all keys of a tenant together use the tenant's full rate if each request counts as %s additional requests",
  (extra, { world }) => {
    const limit = limitWithFakeTime(world)
    let cost = 0
    const seconds = 150
    for (let second = 0; second < seconds; second++) {
      for (let key = 0; key < 200; key++)
        for (let nth = 0; nth < 40 && isAdmitted(limit, `${key}`, extra); nth++) cost += 1 + extra
      vi.advanceTimersByTime(1000)
    }
    const allowed = 8000 + seconds * 2000
    expect(cost).toBeGreaterThan(allowed * 0.9)
    // The last request of each key may exceed the key's limit.
    expect(cost).toBeLessThan(allowed + 200 * (1 + extra))
  },
)

test("a key that exceeds its rate limit as far as possible causes no refusal of other keys of its tenant, and recovers at the key's rate", ({
  world,
}) => {
  const limit = limitWithFakeTime(world)
  const in_debt = { key_id: 'weak', tenant_id: 'one' }
  for (let nth = 0; nth < 2000; nth++) limit(in_debt)
  for (let nth = 0; nth < 2000; nth++) limit.charge(in_debt, 960)
  const others = ['a', 'b', 'c']
  for (let nth = 0; nth < 2000; nth++) for (const key of others) expect(isAdmitted(limit, key)).toBe(true)
  for (let second = 0; second < 20; second++) {
    vi.advanceTimersByTime(1000)
    expect(isAdmitted(limit, 'weak')).toBe(false)
    for (let nth = 0; nth < 500; nth++) for (const key of others) expect(isAdmitted(limit, key)).toBe(true)
    // The other keys use the tenant's whole rate.
    expect(isAdmitted(limit, 'd')).toBe(false)
  }
  vi.advanceTimersByTime(3_819_000)
  expect(isAdmitted(limit, 'weak')).toBe(false)
  vi.advanceTimersByTime(1100)
  expect(isAdmitted(limit, 'weak')).toBe(true)
})

test('a key that is refused because other keys exceeded their limits gets the time until capacity is free', ({
  world,
}) => {
  const limit = limitWithFakeTime(world)
  // All five keys have exceeded their limits. Until the first two keys are below their limits again, the sum of the
  // keys' rates exceeds the tenant's rate.
  for (const [nth, debt] of [5000, 5000, 20_000, 20_000, 20_000].entries())
    limit.charge({ key_id: `${nth}`, tenant_id: 'one' }, 2000 + debt)
  let retry_after_s = 0
  try {
    limit({ key_id: 'other', tenant_id: 'one' })
  } catch (error) {
    retry_after_s = (error as AppError).retry_after_s!
  }
  // The tenant is 2,000 requests over its limit. The excess grows by 500 a second for ten seconds and then shrinks by
  // 500 a second.
  expect(retry_after_s).toBe(25)
  vi.advanceTimersByTime(23_900)
  expect(isAdmitted(limit, 'other')).toBe(false)
  vi.advanceTimersByTime(1100)
  expect(isAdmitted(limit, 'other')).toBe(true)
})

test('a large response counts as several requests against the rate limit', async ({ world }) => {
  const greedy = await world.clientOf()
  const client = createClient(
    await startApiWith(world, { RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 40 }),
    greedy.key,
  )
  const metadata = 'x'.repeat(16_000)
  for (let i = 0; i < 10; i++) await greedy.post('/v1/customers', { idempotency_key: freshKey(), metadata })
  const statuses: number[] = []
  for (let i = 0; i < 6; i++) statuses.push((await client.get('/v1/customers')).status)
  expect(statuses.filter((status) => status === 200).length).toBeLessThan(6)
  expect(statuses[5]).toBe(429)

  // Concurrent requests are refused too: only a few are in progress before the first response is counted.
  const url = await startApiWith(world, { RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 100 })
  const flood = createClient(url, greedy.key)
  const answers = await Promise.all(Array.from({ length: 90 }, () => flood.get('/v1/customers')))
  expect(answers.filter(({ status }) => status === 200).length).toBeLessThan(25)
  expect((await createClient(url, world.client.key).get('/v1/customers')).status).toBe(200)
})

test('a large body counts as several requests, even if the request is refused; the body of a request without a valid key is not read', async ({
  world,
}) => {
  const greedy = await world.clientOf()
  const client = createClient(
    await startApiWith(world, { RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 50 }),
    greedy.key,
  )
  const body = `"${'x'.repeat(200 * 1024)}`
  const headers = { 'content-type': 'application/json' }
  const statuses: number[] = []
  for (let i = 0; i < 10; i++)
    statuses.push((await client.send('POST', '/v1/customers', { body, headers })).status)
  expect(new Set(statuses)).toEqual(new Set([400, 429]))
  expect((await createClient(client.url, '').send('POST', '/nowhere', { body, headers })).status).toBe(404)
})

test('the received bytes of a body count against the rate limit even if the body is incomplete or too large', async ({
  world,
}) => {
  const head =
    'POST /v1/customers HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n'
  const half = `content-length: 250000\r\n\r\n${' '.repeat(200_000)}`
  const large = `transfer-encoding: chunked\r\n\r\n${`10000\r\n${' '.repeat(0x10000)}\r\n`.repeat(5)}0\r\n\r\n`
  const url = await startApiWith(world, { RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 50 })
  for (const rest of [half, large]) {
    const { key } = await world.clientOf()
    for (let n = 0; n < 4; n++)
      await sendBytes(url, `${head}authorization: Bearer ${key}\r\n${rest}`, (socket) => {
        if (rest === half) socket.once('connect', () => socket.end())
        return () => {}
      })
    let requests = 0
    await until('the key is limited', async () => {
      requests += 1
      return (await createClient(url, key).get('/v1/nope')).status === 429
    })
    expect(requests).toBeLessThan(20)
  }
})

test('each pipelined request counts against the rate limit before the next response is sent', async ({
  world,
}) => {
  const greedy = await createLargeTenant(world)
  const url = await startApiWith(world, { RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 300 })
  const flood = sendPipelined(url, greedy.key, 200)
  const statuses = await flood.statuses()
  expect(statuses).toHaveLength(200)
  // Each response counts as a hundred requests, so three responses use up the burst. The requests that are in progress
  // at that moment are answered too.
  expect(statuses.filter((status) => status === 200).length).toBeLessThan(3 + 8)
})

test('a list counts as in progress until its response is received: a client that does not read responses is refused further lists', async ({
  world,
}) => {
  const greedy = await createLargeTenant(world)
  const flood = sendPipelined(world.client.url, greedy.key, 300)
  flood.socket.pause()
  await until('further lists are refused', async () => {
    const { status, body } = await greedy.get('/v1/customers')
    return status === 429 && body.error.message.includes('Too many lists at once')
  })
  expect((await greedy.get('/v1/payments/0198f6f0-0000-7000-8000-000000000000')).status).toBe(404)
  expect((await world.client.get('/v1/customers')).status).toBe(200)
  flood.socket.destroy()
  await until(
    'lists are accepted again',
    async () => (await greedy.get('/v1/customers?limit=1')).status === 200,
  )
})

test('lists leave connections for other requests and tenants; a slow list is aborted and its duration counts against the rate limit', async ({
  world,
}) => {
  const clients = await Promise.all(Array.from({ length: 8 }, () => world.clientOf()))
  const url = await startApiWith(world, { RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 200, DATABASE_POOL: 12 })
  const other = createClient(url, world.client.key)
  expect((await other.get('/v1/payments')).status).toBe(200)
  await world.sql.begin(async (tx) => {
    await tx`lock table customers in access exclusive mode`
    const connections = clients.flatMap(({ key }) => sendPipelined(url, key, 4))
    await until('lists wait for the table', async () => {
      const [row] = await tx<{ waiting: number }[]>`
        select count(*)::int as waiting from pg_locks where relation = 'customers'::regclass and not granted`
      return row!.waiting >= 2
    })
    // The blocked lists occupy the database connections for long lists. Quick lists of other tenants and all other
    // requests do not wait.
    expect((await other.get('/v1/payments')).status).toBe(200)
    expect((await other.get('/v1/payments/0198f6f0-0000-7000-8000-000000000000')).status).toBe(404)
    for (const { socket } of connections) socket.destroy()
  })
  // The lists whose callers have left end first.
  await until('a list is answered', async () => (await other.get('/v1/customers')).status === 200)
  const greedy = await world.clientOf()
  const client = createClient(url, greedy.key)
  await world.sql.begin(async (tx) => {
    await tx`lock table customers in access exclusive mode`
    const { socket } = sendPipelined(url, clients[0]!.key, 4)
    onTestFinished(() => void socket.destroy())
    const aborted = await client.get('/v1/customers')
    expect([aborted.status, aborted.body.error.code]).toEqual([503, 'overloaded'])
    expect(aborted.body.error.message).toContain('filter it')
  })
  expect((await client.get('/v1/idempotency_keys/none')).status).toBe(429)
})

test('requests beyond the capacity of the database are refused with few log lines, and the other requests are answered', async ({
  world,
}) => {
  const folder = await createTemporaryFolder()
  onTestFinished(() => folder.remove())
  const file = join(folder.path, 'log')
  const url = await startApiWith(world, { DATABASE_POOL: 1 }, createLog('error', 'test', openSync(file, 'a')))
  const client = createClient(url, world.client.key)
  const { id } = (await world.client.post('/v1/customers', { idempotency_key: freshKey() })).body
  const countLogged = () => readFileSync(file, 'utf8').split('a request failed').length - 1
  const refused: [status: number, code: string][] = []
  // Each update is a separate statement; reads share statements.
  const body = '{"name":"Ada"}'
  const patch = `PATCH /v1/customers/${id} HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`
  const statuses: number[] = []
  let pipelines: ReturnType<typeof sendPipelined>[] = []
  const requests: Promise<unknown>[] = []
  await world.sql.begin(async (tx) => {
    await tx`lock table customers in access exclusive mode`
    pipelines = Array.from({ length: 4 }, () =>
      sendPipelined(url, world.client.key, 124, { head: patch, body }),
    )
    const update = async () => {
      const answer = await client.patch(`/v1/customers/${id}`, { name: 'Ada' })
      statuses.push(answer.status)
      if (answer.status !== 200) refused.push([answer.status, answer.body.error.code])
    }
    // On a busy machine the pipelined requests arrive late, and the first statements time out meanwhile.
    await until('more than 20 requests are refused', () => {
      requests.push(...Array.from({ length: requests.length === 0 ? 80 : 10 }, update))
      return refused.filter(([, code]) => code === 'overloaded').length > 20
    })
  })
  await Promise.all(requests)
  // On a busy machine the lock is held for longer than a statement may take.
  const overloaded = refused.filter(([, code]) => code !== 'timeout')
  expect(overloaded.length).toBeGreaterThan(0)
  expect(overloaded).toEqual(overloaded.map(() => [503, 'overloaded']))
  for (const each of pipelines) statuses.push(...(await each.statuses()))
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(300)
  expect(countLogged()).toBeLessThan(refused.length / 4)
})

test('the log line of an error with a long message has the beginning of the message and the stack', async () => {
  const folder = await createTemporaryFolder()
  onTestFinished(() => folder.remove())
  const file = join(folder.path, 'log')
  const log = createLog('info', 'test', openSync(file, 'a'))
  log.info({ err: new Error('a request failed', { cause: new Error('long '.repeat(30_000)) }) })
  const line = await until('the log line is written', () => readFileSync(file, 'utf8') || false)
  expect(line.length).toBeLessThan(10_000)
  const { cause } = JSON.parse(line).err
  expect(cause.message).toMatch(/^long /)
  expect(cause.stack).toContain('conventions.test')
})

const LISTENER = {
  log: createLog('silent', 'test'),
  request_timeout_ms: 30_000,
  trusted_proxies: [],
  log_sample_rate: 0,
  errorBody: () => ({}),
}

test('requests that time out together cause one log line', async () => {
  const lines: { err: { code?: string; message: string } }[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const app = createListener('test', {
    log,
    request_timeout_ms: 30_000,
    trusted_proxies: [],
    log_sample_rate: 0,
    errorBody: () => ({}),
    response_timeout_ms: 1,
  })
  onTestFinished(() => app.close())
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  app.get('/answers', () => released.then(() => 'at last'))
  app.get('/fails', async () => {
    await released
    throw new Error('too late')
  })
  const url = await app.listen({ port: 0 })
  for (const path of ['/answers', '/fails']) {
    const requests = Array.from({ length: 10 }, () => fetch(url + path))
    expect(new Set((await Promise.all(requests)).map(({ status }) => status))).toEqual(new Set([503]))
  }
  lines.length = 0
  release()
  await released
  await app.close()
  expect(lines.map(({ err }) => err.code ?? err.message)).toEqual(['FST_ERR_REP_ALREADY_SENT', 'too late'])
})

test('no route matches a path without its id or with a trailing slash', async ({ world }) => {
  for (const path of [
    '/v1/customers/',
    '/v1/customers/?limit=1',
    '/v1/payments//refunds',
    '/v1/payments/x/refunds/',
  ])
    expect([path, (await world.client.get(path)).body.error]).toMatchObject([
      path,
      { code: 'route_not_found', message: `There is no route GET ${path.split('?')[0]}.` },
    ])
  const without_scopes = await world.clientOf({ scopes: [] })
  expect((await without_scopes.get('/v1/payments/')).status).toBe(404)
})

test('the time limit of a response begins when the request is complete', async () => {
  const app = createListener('test', { ...LISTENER, response_timeout_ms: 200 })
  onTestFinished(() => app.close())
  const { promise: arrival, resolve: arrived } = Promise.withResolvers<void>()
  app.addContentTypeParser('text/plain', { parseAs: 'string' }, (_request, body, done) => done(null, body))
  app.addHook('onRequest', (_request, _reply, done) => {
    arrived()
    done()
  })
  app.post('/', ({ body }) => body)
  app.get('/', () => new Promise(() => {}))
  const url = await app.listen({ port: 0 })
  const answer = sendBytes(
    url,
    'POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 8\r\n\r\nhalf',
    (socket) => {
      // Waits until a request that arrived later has been refused.
      void arrival.then(() => fetch(url)).then(({ status }) => socket.write(status === 503 ? 'half' : 'none'))
      return () => {}
    },
  )
  expect(await answer).toMatchObject({ status: 200, text: 'halfhalf' })
})

test('a request whose client disconnects gets no response and causes no error', async () => {
  const refused: string[] = []
  const app = createListener('test', { ...LISTENER, response_timeout_ms: 200 })
  onTestFinished(() => app.close())
  app.setErrorHandler((_error, request, reply) => {
    refused.push(request.url)
    return reply.code(503).send()
  })
  const { promise: arrival, resolve: arrived } = Promise.withResolvers<void>()
  app.get('/:name', ({ url }) => {
    if (url === '/leaves') arrived()
    return new Promise(() => {})
  })
  const url = await app.listen({ port: 0 })
  const disconnect = new AbortController()
  const disconnected = fetch(`${url}/leaves`, { signal: disconnect.signal }).catch(() => 'left')
  await arrival
  disconnect.abort()
  expect(await disconnected).toBe('left')
  expect((await fetch(`${url}/stays`)).status).toBe(503)
  expect(refused).toEqual(['/stays'])
})

test('an incomplete request does not prevent the server from closing', async () => {
  const app = createListener('test', { ...LISTENER, closing_ms: 200 })
  app.post('/', () => 'never')
  const { port, hostname } = new URL(await app.listen({ port: 0 }))
  const halves = ['POST / HTTP/1.1\r\nHo', 'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf']
  for (const half of halves) {
    const socket = connect(Number(port), hostname)
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => {})
    await new Promise<void>((resolve) => socket.write(half, () => resolve()))
  }
  await until('both halves are connected', async () => {
    const count = await new Promise<number>((resolve) => app.server.getConnections((_error, n) => resolve(n)))
    return count === halves.length
  })
  await app.close()
  expect(app.server.listening).toBe(false)
})

/** A connection from an address of this machine, with the text that it has received. Default address: `127.0.0.1`. */
function rawConnection(url: string, localAddress = '127.0.0.1') {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', localAddress })
  const received = { text: '', closed: once(socket, 'close') }
  socket.on('error', () => {}).on('data', (bytes) => (received.text += bytes.toString('latin1')))
  onTestFinished(() => void socket.destroy())
  return { socket, received }
}

test('requests on a refused connection are not handled', async () => {
  const app = createListener('test', {
    ...LISTENER,
    trusted_proxies: ['127.0.0.1'],
    max_connections: 2,
    errorBody: (code) => ({ code }),
  })
  const handled: string[] = []
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  app.get('/:name', ({ url }) => {
    handled.push(url)
    return released.then(() => 'at last')
  })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => app.close())
  const request = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`
  const accepted = ['/first', '/second'].map((path) => {
    const connection = rawConnection(url)
    connection.socket.write(request(path))
    return connection
  })
  await until('both requests are in progress', () => handled.length === 2)
  const refused = rawConnection(url)
  refused.socket.write(request('/third') + request('/fourth'))
  await refused.received.closed
  expect(refused.received.text).toMatch(/^HTTP\/1.1 503 [^]*"overloaded"/)
  release()
  await until('both requests are answered', () =>
    accepted.every(({ received }) => received.text.endsWith('at last')),
  )
  expect(handled.toSorted()).toEqual(['/first', '/second'])
})

test('new connections replace idle connections, the longest idle first; connections with a request stay open', async () => {
  const app = createListener('test', { ...LISTENER, max_connections: 8 })
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  app.get('/slow', () => released.then(() => 'at last'))
  app.get('/', () => 'here')
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => app.close())
  const openIdle = async (address: string) => {
    const { socket, received } = rawConnection(url, address)
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
    await until('the request is answered', () => received.text.endsWith('here'))
    return socket
  }
  const areClosed = (sockets: Socket[]) => sockets.map((socket) => socket.closed || socket.destroyed)
  const busy = rawConnection(url)
  busy.socket.write('GET /slow HTTP/1.1\r\nhost: x\r\n\r\n')
  const idle: Socket[] = []
  for (let n = 0; n < 3; n++) idle.push(await openIdle('127.0.0.1'))
  // One network may use half of the connections.
  idle.push(await openIdle('127.0.0.1'))
  await until('the longest idle connection is closed', () => areClosed(idle)[0])
  for (let n = 0; n < 4; n++) idle.push(await openIdle('127.0.0.2'))
  expect(areClosed(idle)).toEqual([true, ...Array(7).fill(false)])
  // All connections are in use; another network is accepted.
  idle.push(await openIdle('127.0.0.3'))
  await until('the next longest idle connection is closed', () => areClosed(idle)[1])
  expect(areClosed(idle)).toEqual([true, true, ...Array(7).fill(false)])
  release()
  await until('the busy connection is answered', () => busy.received.text.endsWith('at last'))
})

test('a body in chunks of one byte uses no more memory than the bytes of the body', async () => {
  const app = createListener('test', LISTENER)
  onTestFinished(() => app.close())
  const readBody = createBodyReader()
  app.addContentTypeParser('*', (request: FastifyRequest) => readBody(request))
  app.post('/', () => 'read')
  const accepted = once(app.server, 'connection') as Promise<[Socket]>
  const chunks = '1\r\nx\r\n'.repeat(200_000)
  const bytes = Buffer.from(`POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n${chunks}`)
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const before = memoryInUse().heapUsed
  const half = openUnfinished(url, 1, bytes)
  const [socket] = await accepted
  await until('all bytes have arrived', () => socket.bytesRead === bytes.length)
  expect(memoryInUse().heapUsed - before).toBeLessThan(10 * 1024 * 1024)
  await half.reset()
})

test('a body is read as it was sent, whole or in pieces, with a content length or chunked', async () => {
  const app = createListener('test', LISTENER)
  onTestFinished(() => app.close())
  const readBody = createBodyReader()
  app.addContentTypeParser('*', (request: FastifyRequest) => readBody(request))
  const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
  app.post('/', ({ body }) => hashOf(body as Buffer))
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const head = 'POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n'
  for (const [bytes, piece] of [
    [1, 1],
    [10, 3],
    [4_097, 1_000],
    [8_192, 8_191],
    [12_289, 4_096],
    [300_000, 70_000],
    [1024 * 1024, 200_000],
  ] as const) {
    const body = randomBytes(bytes)
    const pieces = Array.from({ length: Math.ceil(bytes / piece) }, (_, nth) =>
      body.subarray(nth * piece, (nth + 1) * piece),
    )
    const chunks = pieces.flatMap((each) => [`${each.length.toString(16)}\r\n`, each, '\r\n'])
    const chunked = [`${head}transfer-encoding: chunked\r\n\r\n`, ...chunks, '0\r\n\r\n']
    const with_length = `${head}content-length: ${bytes}\r\n\r\n`
    const answers = [
      await sendBytes(url, Buffer.concat(chunked.map((each) => Buffer.from(each as Buffer)))),
      await sendBytes(url, Buffer.concat([Buffer.from(with_length), body])),
      await sendBytes(url, with_length, (socket) => {
        const remaining = [...pieces]
        const timer = setInterval(() => remaining.length > 0 && socket.write(remaining.shift()!), 5)
        return () => clearInterval(timer)
      }),
    ]
    expect([bytes, ...answers.map(({ text }) => text)]).toEqual([bytes, ...Array(3).fill(hashOf(body))])
  }
})

/** Creates a tenant with 100 customers. The list of the customers has 1.6 MB. */
async function createLargeTenant(world: World): ReturnType<World['clientOf']> {
  const client = await world.clientOf()
  await world.sql`
    insert into customers (tenant_id, id, idempotency_key, metadata)
    select ${client.tenant_id}, gen_random_uuid(), 'large-' || n, jsonb_build_object('x', repeat('x', 16000)) from generate_series(1, 100) n`
  return client
}

/** Sends `count` requests over one connection without waiting for responses. Default: lists of customers. */
function sendPipelined(
  url: string,
  key: string,
  count: number,
  { head = 'GET /v1/customers?limit=100 HTTP/1.1', body = '' } = {},
): { socket: Socket; statuses(): Promise<number[]> } {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  const headers = `${head}\r\nhost: sluice.test\r\nauthorization: Bearer ${key}\r\n`
  const one = `${headers}\r\n${body}`
  socket.write(`${one.repeat(count - 1)}${headers}connection: close\r\n\r\n${body}`)
  return {
    socket,
    async statuses() {
      const chunks: string[] = []
      for await (const chunk of socket.setEncoding('latin1')) chunks.push(String(chunk))
      return Array.from(chunks.join('').matchAll(/HTTP\/1\.1 (\d+) [A-Z]/g), ([, status]) => Number(status))
    },
  }
}

test('an address has a budget for requests without a key; probes and requests with a key do not use the budget', async ({
  world,
}) => {
  const url = await startApiWith(world, {})
  const outside = createClient(url, '')
  // A large response counts as several requests.
  let answered = 0
  let refused = await outside.get('/openapi.json')
  for (; answered < 1_000 && refused.status === 200; answered += 1)
    refused = await outside.get('/openapi.json')
  expect(answered).toBeLessThan(1_000)
  expect([refused.status, refused.body.error.code]).toEqual([429, 'rate_limited'])
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  expect((await outside.get('/healthz')).status).toBe(200)
  expect((await createClient(url, world.client.key).get('/v1/customers')).status).toBe(200)
})

test('after the first request of a key exactly the rest of its burst remains, at any time', () => {
  const limit = createLimit({ rps: 1, burst: 3 })
  const remaining = new Set<string>()
  const reply = { header: (name: string, value: string) => name === 'ratelimit' && remaining.add(value) }
  for (let key = 0; key < 20_000; key++) limit(String(key), reply as unknown as FastifyReply)
  expect([...remaining].filter((value) => !value.includes('r=2;'))).toEqual([])
})

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
const guess = (n: number) => `sk_live_acme_${String(n).padStart(32, '0')}`
const countKeyLookups = async (world: World, sql: Sql) => {
  const [row] = await sql<{ calls: number }[]>`
    select coalesce(sum(calls), 0)::int as calls from pg_stat_statements s
    where s.dbid = (select oid from pg_database where datname = ${new URL(world.config.DATABASE_URL!).pathname.slice(1)})
      and query like '%from api_keys%hash =%'`
  return row!.calls
}

test('a client that guesses keys is refused after few lookups of keys; a valid key from the same address is accepted', async ({
  world,
}) => {
  const statistics = connectDatabase(await postgresUrl(), { max: 1, application_name: 'test' })
  onTestFinished(() => statistics.end())
  const url = await startApiWith(world, {})
  const owner = createClient(url, world.client.key)
  expect((await owner.get('/v1/customers')).status).toBe(200)
  const before = await countKeyLookups(world, statistics)
  const began_at = performance.now()
  const answers = await Promise.all(
    Array.from({ length: 260 }, (_, n) => createClient(url, guess(n)).get('/v1/customers')),
  )
  const seconds = (performance.now() - began_at) / 1000
  const [refused] = answers.filter(({ status }) => status === 429)
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401, 429]))
  expect(refused!.body.error).toMatchObject({
    code: 'rate_limited',
    message: expect.stringContaining('this address'),
  })
  expect(Number(refused!.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  // The terms of the maximum: 20 lookups at once and 5 a second; requests that were in progress, or began before the
  // exhausted budget took effect; lookups of the slow lane; lookups of the owner's key.
  expect(await countKeyLookups(world, statistics)).toBeLessThan(
    before + 20 + 5 * seconds + 2 * 16 + (2 + 10 * seconds) + (2 + seconds),
  )
  // The cached lookup of the owner's key expires in the meantime. Its next lookup does not use the budget of guesses.
  await sleep(900)
  expect((await owner.get('/v1/customers')).status).toBe(200)
})

test('a valid key whose lookup is not cached is accepted while guesses of keys come from its address', async ({
  world,
}) => {
  const url = await startApiWith(world, {})
  let guessed = 0
  const stop = new AbortController()
  const guessers = Array.from({ length: 50 }, async () => {
    while (!stop.signal.aborted) await createClient(url, guess(guessed++)).get('/v1/customers')
  })
  await until(
    'the address is refused',
    async () => (await createClient(url, guess(999_999)).get('/v1/customers')).status === 429,
  )
  try {
    const fresh = await Promise.all(Array.from({ length: 5 }, () => world.clientOf()))
    for (const { key } of fresh) expect((await createClient(url, key).get('/v1/customers')).status).toBe(200)
  } finally {
    stop.abort()
    await Promise.all(guessers)
  }
})

test('when too many keys of one address wait for a lookup, a random key is refused, so that later keys are looked up too', async () => {
  const first = Promise.withResolvers<void>()
  const served: number[] = []
  const slowly = createSlowLane(
    async (secrets) => {
      served.push(...secrets.map(Number))
      await first.promise
      return secrets
    },
    () => new Error('refused'),
  )
  const requests = Promise.allSettled(Array.from({ length: 2_000 }, (_, n) => slowly('192.0.2.1', `${n}`)))
  await until('the first key is looked up', () => served.length > 0)
  first.resolve()
  const answered = (await requests).flatMap(({ status }, n) => (status === 'fulfilled' ? [n] : []))
  expect(answered.toSorted((a, b) => a - b)).toEqual(served.toSorted((a, b) => a - b))
  expect(answered.some((n) => n > 1_000)).toBe(true)
})

test('a forwarded address of an untrusted proxy causes a warning that names the variable to set', async ({
  world,
}) => {
  const lines: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) })
  const api = await startApi({ ...world.config, TRUSTED_PROXIES: ['10.0.0.0/8'] }, log)
  parts.push(api)
  await fetch(`${api.url}/healthz`)
  expect(lines).toEqual([])
  for (let n = 0; n < 3; n++)
    await fetch(`${api.url}/healthz`, { headers: { 'x-forwarded-for': '192.0.2.1' } })
  expect(lines).toEqual([
    expect.stringMatching(/X-Forwarded-For from 127\.0\.0\.1 is ignored.+ TRUSTED_PROXIES=127\.0\.0\.1/),
  ])
})

test('lookups of unknown keys are limited over all addresses: a client whose lookup would wait too long receives 503', async ({
  world,
}) => {
  const url = await startApiWith(world, { TRUSTED_PROXIES: ['127.0.0.1'], DATABASE_POOL: 40 })
  const answers: string[] = []
  let requests: Promise<unknown>[] = []
  await world.sql.begin(async (tx) => {
    await tx`lock table api_keys in access exclusive mode`
    requests = Array.from({ length: 300 }, async (_, n) => {
      const headers = { ...bearer(guess(n)), 'x-forwarded-for': `192.0.2.${n % 250}` }
      const { status, body } = await createClient(url, '').get('/v1/customers', headers)
      answers.push(`${status} ${body.error.code}`)
    })
    await until('all requests except those in progress are refused', () => answers.length >= 284)
    const [row] = await tx<{ waiting: number }[]>`
      select count(*)::int as waiting from pg_locks where relation = 'api_keys'::regclass and not granted`
    expect(row!.waiting).toBe(16)
  })
  await Promise.all(requests)
  expect(answers.filter((answer) => answer === '503 overloaded')).toHaveLength(284)
  expect(answers.filter((answer) => answer === '401 unauthorized')).toHaveLength(16)
})

test('the address of a client is read from X-Forwarded-For only if the proxy is trusted', async ({
  world,
}) => {
  const [open, proxied] = [
    await startApiWith(world, {}),
    await startApiWith(world, { TRUSTED_PROXIES: ['10.0.0.0/8', '127.0.0.1'] }),
  ]
  const guesses = async (url: string, from: (n: number) => string) => {
    const requests = Array.from({ length: 60 }, (_, n) =>
      createClient(url, '').get('/v1/customers', { ...bearer(guess(n)), 'x-forwarded-for': from(n) }),
    )
    return new Set((await Promise.all(requests)).map(({ status }) => status))
  }
  expect(await guesses(open, (n) => `192.0.2.${n}`)).toEqual(new Set([401, 429]))
  expect(await guesses(proxied, (n) => `192.0.2.${n}, 10.1.2.3`)).toEqual(new Set([401]))
  // Addresses that a client adds before its own address are ignored. A network of IPv6 counts as one address.
  expect(await guesses(proxied, (n) => `192.0.2.${n}, 198.51.100.7`)).toEqual(new Set([401, 429]))
  expect(await guesses(proxied, (n) => `2001:db8:1:2::${n + 1}`)).toEqual(new Set([401, 429]))
  // The address may have a port.
  expect(await guesses(proxied, (n) => `198.51.100.9:${40_000 + n}`)).toEqual(new Set([401, 429]))
  expect(await guesses(proxied, (n) => `[2001:db8::${n + 1}]:${40_000 + n}`)).toEqual(new Set([401, 429]))
})

test('without a valid key every path under /v1 is 401, even a missing path and a path that cannot be decoded', async ({
  world,
}) => {
  const paths = [
    '/v1',
    '/v1/',
    '/v1?x',
    '/v1/customers',
    '/v1/nope',
    '/v1/../x',
    '/v1//',
    '/v1/%ff',
    '/v1/customers/%zz',
  ]
  const encoded_paths = [
    '/%76%31/customers',
    'http://elsewhere/v1/customers',
    '/v1/customers?email=%00',
    '/v1/customers?%ff',
  ]
  for (const path of [...paths, ...encoded_paths]) {
    const answer = await sendBytes(world.client.url, requestBytes('GET', path, {}))
    expect([path, answer.status, answer.body?.error.code]).toEqual([path, 401, 'unauthorized'])
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
  }
  const keys = [
    'Basic abc',
    'Bearer',
    'Bearer ',
    'Bearer sk_live_acme_short',
    `Token ${world.client.key}`,
    world.client.key,
  ]
  for (const authorization of [...keys, `Bearer ${world.client.key}x`, `Bearer ${world.client.key} x`]) {
    const answer = await createClient(world.client.url, '').get('/v1/customers', { authorization })
    expect([authorization, answer.status]).toEqual([authorization, 401])
  }
})

test('the error of a request without a valid key names the mistake in the header and never repeats the key', async ({
  world,
}) => {
  const { key } = world.client
  const SEND = 'Send `Authorization: Bearer <API_KEY>`'
  for (const [authorization, reason] of [
    [undefined, 'No API key was sent: the header `Authorization` is missing.'],
    ['Bearer', 'The header `Authorization` has no key after `Bearer`'],
    [`Basic ${Buffer.from(`${key}:`).toString('base64')}`, 'is `Basic`, not `Bearer`'],
    [`Token ${key}`, 'is `Token`, not `Bearer`'],
    [key, 'The header `Authorization` has a key without `Bearer` before it.'],
    [`Key=${key}`, 'The header `Authorization` does not begin with `Bearer`.'],
    [`Bearer "${key}"`, 'in quotes'],
    [`Bearer <${key}>`, 'in quotes or brackets'],
    ['Bearer sk_test_4eC39HqLyjWDarjtT1zdp7dc', 'does not begin with `sk_live_`'],
    [`Bearer ${key.slice(0, -1)}`, 'The API key is incomplete'],
    [`Bearer ${key.slice(0, -4)}0000`, 'The API key is unknown, revoked or expired.'],
  ] as const) {
    const headers = authorization === undefined ? {} : { authorization }
    const response = await fetch(`${world.client.url}/v1/customers`, { headers })
    const text = await response.text()
    const { error } = JSON.parse(text)
    expect([authorization, response.status, error]).toMatchObject([
      authorization,
      401,
      { code: 'unauthorized', message: expect.stringContaining(reason) },
    ])
    expect(error.message).toContain(SEND)
    expect(text).not.toContain(key.slice(-32, -4))
  }
})

test('with a valid key, a missing path is 404 and a path that cannot be decoded is 400', async ({
  world,
}) => {
  const authorization = `Bearer ${world.client.key}`
  for (const [path, status] of [
    ['/v1', 404],
    ['/v1/nope', 404],
    ['/v1/%ff', 400],
    ['/v1/customers/%ff', 400],
    ['/v1/customers/', 404],
    [`/v1/idempotency_keys/${'a'.repeat(600)}`, 400],
  ] as const) {
    const answer = await sendBytes(world.client.url, requestBytes('GET', path, { authorization }))
    expect([path, answer.status]).toEqual([path, status])
    expect(answer.body.error.message).not.toBe('')
  }
})

test('the scheme `Bearer` is accepted in upper and lower case', async ({ world }) => {
  const answer = await createClient(world.client.url, '').get('/v1/customers', {
    authorization: `bearer ${world.client.key}`,
  })
  expect(answer.status).toBe(200)
})

test('a refusal names the missing scope', async ({ world }) => {
  const reader = await world.clientOf({ tenant: 'acme', scopes: ['payments:read'] })
  const refused = await reader.post('/v1/customers', { idempotency_key: freshKey() })
  expect(refused.status).toBe(403)
  expect(refused.body.error).toMatchObject({
    code: 'missing_scope',
    message: 'Missing scope: customer:write',
  })
  expect((await reader.get('/v1/customers')).status).toBe(200)
  expect((await reader.post('/v1/payments', {})).body.error.message).toBe('Missing scope: payments:write')
})

test('timestamps are UTC with microseconds', async ({ world }) => {
  const { body } = await world.client.post('/v1/customers', { idempotency_key: freshKey() })
  for (const field of ['created_at', 'updated_at'])
    expect(body[field]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
  expect(Math.abs(Date.parse(body.created_at) - Date.now())).toBeLessThan(60_000)
})

test('an empty body with a content type is accepted where no body is required', async ({ world }) => {
  const json = { 'content-type': 'application/json' }
  const id = (await world.client.post('/v1/customers', { idempotency_key: freshKey() })).body.id
  expect((await world.client.send('GET', '/v1/customers', { headers: json })).status).toBe(200)
  expect((await world.client.send('PATCH', `/v1/customers/${id}`, { headers: json })).status).toBe(200)
  expect((await world.client.send('DELETE', `/v1/customers/${id}`, { headers: json })).status).toBe(200)
  const capture = '/v1/payments/0198f6f0-0000-7000-8000-000000000000/capture'
  for (const headers of [{}, json]) {
    expect((await world.client.send('POST', capture, { headers })).body.error.code).toBe('payment_not_found')
  }
})

test('a method without a route is 404, and a method that HTTP does not define is 400', async ({ world }) => {
  const authorization = `Bearer ${world.client.key}`
  for (const method of ['OPTIONS', 'PUT', 'TRACE', 'PROPFIND', 'M-SEARCH']) {
    const answer = await sendBytes(world.client.url, requestBytes(method, '/v1/customers', { authorization }))
    expect([method, answer.status]).toEqual([method, 404])
  }
  for (const method of ['FOO', 'get', 'GET\u0000']) {
    const answer = await sendBytes(world.client.url, requestBytes(method, '/v1/customers', { authorization }))
    expect([method, answer.status, answer.body?.error.code]).toEqual([method, 400, 'invalid_request'])
    expect(answer.headers.get('x-request-id')).toBe(answer.body.error.request_id)
  }
  const tunnel = await sendBytes(world.client.url, requestBytes('CONNECT', 'example.com:443', {}))
  expect(tunnel.status).toBeLessThan(500)
})

async function startApiWith(
  world: World,
  changes: Partial<World['config']>,
  log = createLog('silent', 'test'),
): Promise<string> {
  const api = await startApi({ ...world.config, ...changes }, log)
  parts.push(api)
  return api.url
}

// On a slow machine a token may be restored between two requests, so this function waits for the first refusal.
async function untilRefused<T extends { status: number }>(send: () => Promise<T>): Promise<T> {
  for (let i = 0; i < 100; i++) {
    const answer = await send()
    if (answer.status === 429) return answer
  }
  throw new Error('nothing was refused')
}

test('every listener answers HEAD like GET, but without a body, and answers /healthz', async () => {
  const world = await createWorld({ parts: ['api', 'webhooks', 'dashboard'] })
  onTestFinished(() => world.close())
  const operations = await serveOperations({ ...listenAddresses(world.config).metrics, port: 0 }, () =>
    Promise.resolve({}),
  )
  onTestFinished(() => operations.close())
  const operator = await signedInAs(world, { is_operator: true })
  const cookie = `cookie: ${Array.from(operator.cookies, ([name, value]) => `${name}=${value}`).join('; ')}\r\n`
  const bearer = `authorization: Bearer ${world.client.key}\r\n`
  const cases: [origin: string, paths: string[], headers?: string][] = [
    [world.client.url, ['/healthz', '/openapi.json', '/docs/', '/docs/guides']],
    [
      world.client.url,
      [
        '/v1/customers',
        '/v1/events?limit=1',
        '/v1/payments/0198f6f0-0000-7000-8000-000000000000',
        '/v1/nowhere',
      ],
      bearer,
    ],
    [world.client.url, ['/v1/customers'], ''],
    [world.config.WEBHOOKS_URL!, ['/healthz', '/stripe']],
    [world.dashboard_url, ['/healthz', '/', '/payments', '/api/session', '/assets/none.js']],
    [world.dashboard_url, ['/api/session', '/api/ops/overview'], cookie],
    [operations.url, ['/healthz', '/healthz?probe=1', '/readyz', '/metrics', '/other']],
  ]
  const probes: string[] = []
  for (const [origin, paths, headers = ''] of cases)
    for (const path of paths) {
      const send = async (method: string) => {
        const [head = '', ...body] = (await exchange(origin, `${method} ${path}`, headers)).split('\r\n\r\n')
        const type = /^content-type: .*$/im.exec(head)?.[0]
        // The metrics differ from one answer to the next.
        const length = path === '/metrics' ? undefined : /^content-length: .*$/im.exec(head)?.[0]
        return { status: /^HTTP\/1.1 (\d+)/.exec(head)?.[1], type, length, body: body.join('') }
      }
      const [get, head] = [await send('GET'), await send('HEAD')]
      expect([path, head]).toEqual([path, { ...get, body: '' }])
      if (path.startsWith('/healthz')) probes.push(`${get.status} ${get.body.includes('ok')}`)
    }
  expect(probes).toEqual(Array(5).fill('200 true'))
  for (const path of ['/metrics', '/readyz', '/healthz'])
    expect(await exchange(operations.url, `POST ${path}`, '')).toMatch(
      /^HTTP\/1.1 405 .*^allow: GET, HEAD\r$/ims,
    )
  expect((await exchange(operations.url, 'POST /other', '')).split(' ')[1]).toBe('404')
  // The response of a stream ends for HEAD, although the stream itself does not end.
  const stream = await exchange(world.dashboard_url, 'HEAD /api/ops/stream', cookie)
  expect(stream).toMatch(/^HTTP\/1.1 200 .*text\/event-stream.*\r\n\r\n$/s)
})

/** Sends a request. Returns all text that arrives until the connection is closed. */
async function exchange(origin: string, line: string, headers: string): Promise<string> {
  const { hostname, port, host } = new URL(origin)
  const socket = connect(Number(port), hostname)
  socket.write(`${line} HTTP/1.1\r\nhost: ${host}\r\n${headers}connection: close\r\n\r\n`)
  let text = ''
  for await (const chunk of socket) text += String(chunk)
  return text
}

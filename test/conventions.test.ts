// What holds for every request: ids, limits, authentication before routing, timestamps, methods.
import type { FastifyReply } from 'fastify'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLimit } from '#api/auth.ts'
import { startApi } from '#api/main.ts'
import { createLog } from '#core/log.ts'
import type { Part } from '#core/service.ts'
import { createClient, freshKey } from '#test/client.ts'
import { requestBytes, sendBytes } from '#test/raw.ts'
import { createWorld, type World } from '#test/world.ts'

let world: World
const parts: Part[] = []

beforeAll(async () => {
  world = await createWorld({ parts: ['api'] })
})
afterAll(async () => {
  for (const part of parts) await part.close()
  await world?.close()
})

test('an x-request-id that is one comes back, also in errors; any other is replaced', async () => {
  const given = await world.client.get('/v1/customers', { 'x-request-id': 'order-17.a_B' })
  expect(given.headers.get('x-request-id')).toBe('order-17.a_B')
  const refused = await world.client.get('/v1/nope', { 'x-request-id': 'order-18' })
  expect(refused.body.error.request_id).toBe('order-18')
  for (const strange of ['with space', 'a'.repeat(65), '<script>', 'a,b']) {
    const answer = await world.client.get('/v1/customers', { 'x-request-id': strange })
    expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/)
  }
  const outside = await createClient(world.client.url, '').get('/healthz')
  expect(outside.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
})

test('every answer of /v1 says what the limit is and what is left of it', async () => {
  const answers = [
    await world.client.get('/v1/customers'),
    await world.client.get('/v1/nope'),
    await world.client.post('/v1/customers', {}),
    await createClient(world.client.url, '').get('/v1/customers'),
  ]
  expect(answers.map((answer) => answer.status)).toEqual([200, 404, 400, 401])
  for (const { headers } of answers) {
    expect(headers.get('ratelimit-policy')).toMatch(/^"default";q=\d+;w=\d+$/)
    expect(headers.get('ratelimit')).toMatch(/^"default";r=\d+;t=\d+$/)
  }
})

test('a key that asks too much is told when to come back, and other keys are not', async () => {
  const url = await startedApi({ RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 3 })
  const greedy = createClient(url, world.client.key)
  const left: string[] = []
  for (let i = 0; i < 3; i++) {
    const answer = await greedy.get('/v1/customers')
    expect(answer.status).toBe(200)
    left.push(answer.headers.get('ratelimit')!)
  }
  expect(left[0]).toMatch(/r=2;/)
  expect(left[2]).toMatch(/r=[01];/)
  const refused = await untilRefused(() => greedy.get('/v1/customers'))
  expect(refused.body.error).toMatchObject({
    code: 'rate_limited',
    message: expect.stringContaining('1 a second, 3 at once'),
  })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  expect(refused.headers.get('ratelimit')).toMatch(/^"default";r=0;t=[1-9]/)
  expect(refused.headers.get('ratelimit-policy')).toBe('"default";q=3;w=3')
  const other = await world.clientOf()
  expect((await createClient(url, other.key).get('/v1/customers')).status).toBe(200)
})

test('a large answer counts as the many requests that it could have been', async () => {
  const greedy = await world.clientOf()
  const client = createClient(await startedApi({ RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 40 }), greedy.key)
  const metadata = 'x'.repeat(16_000)
  for (let i = 0; i < 10; i++) await greedy.post('/v1/customers', { idempotency_key: freshKey(), metadata })
  const statuses: number[] = []
  for (let i = 0; i < 6; i++) statuses.push((await client.get('/v1/customers')).status)
  expect(statuses.filter((status) => status === 200).length).toBeLessThan(6)
  expect(statuses[5]).toBe(429)

  // Also when they come at once: few are under way before the first is counted.
  const url = await startedApi({ RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 100 })
  const flood = createClient(url, greedy.key)
  const answers = await Promise.all(Array.from({ length: 90 }, () => flood.get('/v1/customers')))
  expect(answers.filter(({ status }) => status === 200).length).toBeLessThan(25)
  expect((await createClient(url, world.client.key).get('/v1/customers')).status).toBe(200)
})

test('what a key may ask at once is never short by one, whatever the clock says', () => {
  const limit = createLimit({ rps: 1, burst: 3 })
  const left = new Set<string>()
  const reply = { header: (name: string, value: string) => name === 'ratelimit' && left.add(value) }
  for (let key = 0; key < 20_000; key++) limit(String(key), reply as unknown as FastifyReply)
  expect([...left].filter((value) => !value.includes('r=2;'))).toEqual([])
})

test('guessing keys is slowed down by address, and does not slow down who has one', async () => {
  const url = await startedApi({})
  const guesser = createClient(url, `sk_live_acme_${'0'.repeat(32)}`)
  const answers = await Promise.all(Array.from({ length: 260 }, () => guesser.get('/v1/customers')))
  expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([401, 429]))
  expect((await createClient(url, world.client.key).get('/v1/customers')).status).toBe(200)
})

test('without a valid key every path under /v1 is 401, whether it exists, can be decoded or not', async () => {
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
  const disguised = [
    '/%76%31/customers',
    'http://elsewhere/v1/customers',
    '/v1/customers?email=%00',
    '/v1/customers?%ff',
  ]
  for (const path of [...paths, ...disguised]) {
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

test('with a valid key, a path that does not exist or cannot be decoded is 404 or 400', async () => {
  const authorization = `Bearer ${world.client.key}`
  for (const [path, status] of [
    ['/v1', 404],
    ['/v1/nope', 404],
    ['/v1/%ff', 400],
    ['/v1/customers/%ff', 400],
    ['/v1/customers/', 400],
    [`/v1/idempotency_keys/${'a'.repeat(600)}`, 400],
  ] as const) {
    const answer = await sendBytes(world.client.url, requestBytes('GET', path, { authorization }))
    expect([path, answer.status]).toEqual([path, status])
    expect(answer.body.error.message).not.toBe('')
  }
})

test('the scheme of a key is read as HTTP says, in any case', async () => {
  const answer = await createClient(world.client.url, '').get('/v1/customers', {
    authorization: `bearer ${world.client.key}`,
  })
  expect(answer.status).toBe(200)
})

test('a missing scope is named', async () => {
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

test('an area that is switched off answers 500 misconfigured_gateway, after authentication', async () => {
  const url = await startedApi({ areas: new Set(['customers']) })
  const client = createClient(url, world.client.key)
  for (const [method, path] of [
    ['GET', '/v1/payments'],
    ['POST', '/v1/payments'],
    ['GET', '/v1/refunds/0198f6f0-0000-7000-8000-000000000000'],
  ] as const) {
    const refused = await client.send(method, path)
    expect([path, refused.status, refused.body.error.code]).toEqual([path, 500, 'misconfigured_gateway'])
    expect(refused.body.error.context).toEqual({ area: 'payments' })
  }
  expect((await createClient(url, '').get('/v1/payments')).status).toBe(401)
  expect((await client.get('/v1/customers')).status).toBe(200)
  expect((await client.get(`/v1/idempotency_keys/nobody`)).status).toBe(404)
})

test('timestamps are UTC with microseconds', async () => {
  const { body } = await world.client.post('/v1/customers', { idempotency_key: freshKey() })
  for (const field of ['created_at', 'updated_at'])
    expect(body[field]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
  expect(Math.abs(Date.parse(body.created_at) - Date.now())).toBeLessThan(60_000)
})

test('an empty body with a content type is fine where nothing is required', async () => {
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

test('methods that a path does not have are 404, and those that nobody has are 400', async () => {
  const authorization = `Bearer ${world.client.key}`
  for (const method of ['HEAD', 'OPTIONS', 'PUT', 'TRACE', 'PROPFIND', 'M-SEARCH']) {
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

async function startedApi(changes: Partial<World['config']>): Promise<string> {
  const api = await startApi({ ...world.config, ...changes }, createLog('silent', 'test'))
  parts.push(api)
  return api.url
}

// A token may have come back between two requests on a slow machine, so the first refusal is waited for.
async function untilRefused<T extends { status: number }>(ask: () => Promise<T>): Promise<T> {
  for (let i = 0; i < 100; i++) {
    const answer = await ask()
    if (answer.status === 429) return answer
  }
  throw new Error('nothing was refused')
}

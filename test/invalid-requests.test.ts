// The API refuses invalid HTTP requests: too large, of another content type, unfinished or ambiguous.
import { gzipSync } from 'node:zlib'
import { pino } from 'pino'
import { expect } from 'vitest'
import { BODY_LIMIT_BYTES } from '#api/body.ts'
import { startApi } from '#api/main.ts'
import { MAX_BUFFERED_BODY_BYTES } from '#core/bodies.ts'
import { createLog } from '#core/log.ts'
import { createClient, freshKey } from '#test/client.ts'
import { startProcess, until, urlIn } from '#test/process.ts'
import { sendAndReset, openUnfinished, requestBytes, sendBytes } from '#test/raw.ts'
import { jsonHeaders, stored, testRefusals } from '#test/refusals.ts'

/** The headers of a valid request, one line each. */
let valid_headers: string

const test = testRefusals()
test.beforeAll(async ({ world }) => {
  valid_headers = Object.entries(jsonHeaders(world))
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
})

function customer(): string {
  return JSON.stringify({ idempotency_key: freshKey(), name: 'x' })
}

test('a body that is too large is refused because of its content-length or while the body is read', async ({
  world,
  accepted,
  client,
}) => {
  const large = JSON.stringify({ idempotency_key: freshKey(), name: 'x'.repeat(300 * 1024) })
  expect(await accepted([large], { status: 413 })).toEqual([])
  const before = await stored(world)
  const announced = { ...jsonHeaders(world), 'content-length': '10000000000' }
  expect((await sendBytes(client.url, requestBytes('POST', '/v1/customers', announced))).status).toBe(413)
  const chunks = `10000\r\n${'x'.repeat(0x10000)}\r\n`.repeat(5)
  const chunked = `POST /v1/customers HTTP/1.1\r\nhost: x\r\n${valid_headers}transfer-encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`
  expect((await sendBytes(client.url, chunked)).status).toBe(413)
  expect(await stored(world)).toBe(before)
})

test('a body that is not application/json is refused', async ({ world, accepted, client }) => {
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/xml',
    'application/json-patch+json',
    'application/jsonp',
    'text/json',
    'json',
  ]) {
    expect(await accepted([customer()], { status: 415, headers: { 'content-type': type } })).toEqual([])
  }
  const headers = { ...jsonHeaders(world), 'content-type': 'Application/JSON; charset=utf-8' }
  expect((await client.send('POST', '/v1/customers', { headers, body: customer() })).status).toBe(201)
})

test('a compressed body is refused, whatever its content', async ({ accepted }) => {
  for (const encoding of ['gzip', 'br', 'deflate', 'zstd', 'gzip, identity']) {
    const bodies = [gzipSync(customer()), customer()]
    expect(await accepted(bodies, { status: 415, headers: { 'content-encoding': encoding } })).toEqual([])
  }
  expect(await accepted([gzipSync(customer())])).toEqual([])
})

test('an unfinished request gets a response with 408, and its connection is closed', async ({ world }) => {
  const before = await stored(world)
  const api = await startApi({ ...world.config, REQUEST_TIMEOUT_MS: 601 }, createLog('silent', 'test'))
  const head = `POST /v1/customers HTTP/1.1\r\nhost: x\r\n${valid_headers}`
  try {
    for (const [part, first, drip] of [
      ['chunks', `${head}transfer-encoding: chunked\r\n\r\n`, '1\r\n \r\n'],
      ['a body', `${head}content-length: 1000\r\n\r\n`, ' '],
      ['headers', head, 'x-more: 1\r\n'],
    ] as const) {
      const answer = await sendBytes(api.url, first, (socket) => {
        const timer = setInterval(() => socket.write(drip), 50)
        return () => clearInterval(timer)
      })
      expect([part, answer.status, answer.body?.error.code]).toEqual([part, 408, 'request_timeout'])
      expect(answer.headers.get('connection')).toBe('close')
    }
  } finally {
    await api.close()
  }
  expect(await stored(world)).toBe(before)
})

test('unfinished bodies are refused with 503 when the buffer has no room for further bodies', async ({
  world,
  client,
}) => {
  const max_bodies = MAX_BUFFERED_BODY_BYTES / BODY_LIMIT_BYTES
  const head = `POST /v1/customers HTTP/1.1\r\nhost: x\r\n${valid_headers}`
  const announced = openUnfinished(
    client.url,
    max_bodies,
    Buffer.from(`${head}content-length: ${BODY_LIMIT_BYTES}\r\n\r\n${' '.repeat(BODY_LIMIT_BYTES - 1)}`),
  )
  const chunked = openUnfinished(
    client.url,
    20,
    Buffer.from(
      `${head}transfer-encoding: chunked\r\n\r\n${BODY_LIMIT_BYTES.toString(16)}\r\n${' '.repeat(BODY_LIMIT_BYTES)}\r\n`,
    ),
  )
  await until('20 bodies are refused', () => announced.statuses.length + chunked.statuses.length === 20)
  expect(new Set([...announced.statuses, ...chunked.statuses])).toEqual(new Set([503]))
  expect(
    (await client.send('POST', '/v1/customers', { headers: jsonHeaders(world), body: customer() })).status,
  ).toBe(201)
  await announced.reset()
  await chunked.reset()
})

test('callers that disconnect within a body or before the response cause no warning', async ({
  world,
  client,
}) => {
  const lines: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) })
  const api = await startApi(world.config, log)
  try {
    const unfinished = openUnfinished(
      api.url,
      5,
      Buffer.from(`POST /v1/customers HTTP/1.1\r\nhost: x\r\n${valid_headers}content-length: 100\r\n\r\n{`),
    )
    const other = createClient(api.url, client.key)
    expect((await other.get('/v1/customers')).status).toBe(200)
    await unfinished.reset()
    for (const path of ['/favicon.ico', '/v1/customers', '/%ff'])
      await sendAndReset(api.url, `GET ${path} HTTP/1.1\r\nhost: x\r\n${valid_headers}\r\n`)
    expect((await other.get('/v1/customers')).status).toBe(200)
    expect(lines).toEqual([])
  } finally {
    await api.close()
  }
})

test('requests with an ambiguous length are refused', async ({ world, client }) => {
  const before = await stored(world)
  const body = customer()
  for (const headers of [
    `content-length: ${body.length}\r\ntransfer-encoding: chunked\r\n`,
    `content-length: ${body.length}\r\ncontent-length: 1\r\n`,
    'content-length: -1\r\n',
    'content-length: 1e2\r\n',
    'transfer-encoding: chunked, identity\r\n',
    'content-length : 5\r\n',
  ]) {
    const head = `POST /v1/customers HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${valid_headers}${headers}\r\n`
    expect([headers, (await sendBytes(client.url, head + body)).status]).toEqual([headers, 400])
  }
  expect(await stored(world)).toBe(before)
})

test('an unknown Expect header is ignored', async ({ world, client }) => {
  const expecting = { ...jsonHeaders(world), expect: 'the unexpected' }
  const passed = await sendBytes(client.url, requestBytes('POST', '/v1/customers', expecting, customer()))
  expect(passed.status).toBe(201)
})

test('an HTTP/1.1 request without a Host header is refused with an error body; HTTP/1.0 needs no Host', async ({
  client,
}) => {
  const hostless = `GET /v1/customers HTTP/1.1\r\nconnection: close\r\n${valid_headers}\r\n`
  const refused = await sendBytes(client.url, hostless)
  expect([refused.status, refused.body.error]).toMatchObject([
    400,
    { code: 'invalid_request', param: 'Host' },
  ])
  expect(refused.headers.get('x-request-id')).toBe(refused.body.error.request_id)
  expect((await sendBytes(client.url, hostless.replace('HTTP/1.1', 'HTTP/1.0'))).status).toBe(200)
})

test('a request with two hosts is refused', async ({ client }) => {
  for (const path of ['/v1/customers', '/healthz']) {
    const twice = `GET ${path} HTTP/1.1\r\nhost: a\r\nHOST: a\r\nconnection: close\r\n${valid_headers}\r\n`
    const refused = await sendBytes(client.url, twice)
    expect([refused.status, refused.body.error]).toMatchObject([400, { param: 'Host' }])
  }
})

test('control characters are refused in all parts of a URL', async ({ world, client }) => {
  for (const path of [
    '/v1/customers/a%0ab',
    '/v1/nope%1B[31m',
    '/docs/%7f',
    '/nope%00',
    '/v1/idempotency_keys/%1f',
    '/v1/customers?email=a%0D%0Ab',
    '/v1/customers?a%09b=1',
    '/v1/payments?metadata[a%01]=1',
    '/v1/payments?metadata[a]=%7F',
  ]) {
    const refused = await sendBytes(client.url, requestBytes('GET', path, jsonHeaders(world)))
    expect([path, refused.status, refused.body?.error.code]).toEqual([path, 400, 'invalid_request'])
  }
  const valid = await sendBytes(
    client.url,
    requestBytes('GET', '/v1/customers?email=%2500%20', jsonHeaders(world)),
  )
  expect([valid.status, valid.headers.get('cache-control')]).toEqual([200, 'no-store'])
})

test('line breaks in a request cannot add headers to the request or its response', async ({
  world,
  client,
}) => {
  const answer = await client.get('/v1/customers?limit=1&email=a%0D%0Aset-cookie:%20stolen=1')
  expect([answer.status, answer.headers.get('set-cookie')]).toEqual([400, null])
  const before = await stored(world)
  for (const header of [
    'x-request-id: a\rb',
    'idempotency-key: a\nb',
    'x-request-id: a\0b',
    'bad name: 1',
    'idempotency-key: a\r\nidempotency-key: b',
  ]) {
    const request = `POST /v1/customers HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${valid_headers}${header}\r\ncontent-length: 2\r\n\r\n{}`
    expect([header, (await sendBytes(client.url, request)).status]).toEqual([header, 400])
  }
  expect(await stored(world)).toBe(before)
})

test('paths with dots, slashes or encoded separators reach no other route', async ({
  world,
  customer_id,
  client,
}) => {
  for (const path of [
    '/v1/customers/..%2f..%2fhealthz',
    '/v1/customers/%2e%2e',
    '/v1/customers/../../etc/passwd',
    '/docs/..%2f..%2fpackage.json',
    '/docs/../../../../etc/passwd',
    '/docs/%2e%2e/%2e%2e/package.json',
    '//etc/passwd',
    '/v1/customers%2f',
    '/v1/customers;a=b',
    `/v1/customers/${customer_id}/`,
    `/v1/customers/${customer_id}%00`,
    `/v1/${'a/'.repeat(3000)}`,
  ]) {
    const answer = await sendBytes(client.url, requestBytes('GET', path, jsonHeaders(world)))
    expect([path, [400, 404].includes(answer.status)]).toEqual([path, true])
    expect(answer.text).not.toMatch(/root:|"dependencies"/)
  }
})

test('the log has one JSON line for each message, without secrets and without lines that a request forges', async ({
  world,
  client,
}) => {
  const api = await startProcess('src/api/main.ts', {
    env: { ...world.env, LOG_LEVEL: 'trace' },
    ready: 'the API listens',
  })
  try {
    const url = urlIn(api.ready)
    const forged = '%0a{"level":60,"msg":"forged"}%0d%0a%1b[31m'
    const hostile = { ...jsonHeaders(world), 'x-request-id': 'x\u001b[31m', 'user-agent': '\u001b[31m' }
    for (const path of [
      `/v1/customers/${forged}`,
      `/v1/nope${forged}`,
      `/v1/customers?email=${forged}`,
      '/v1/%ff',
    ])
      await sendBytes(url, requestBytes('GET', path, hostile))
    const fields = { name: 'Secret Name', email: 'secret@example.com', metadata: { secret: 1 } }
    const body = JSON.stringify({ idempotency_key: freshKey(), ...fields })
    const last = await sendBytes(url, requestBytes('POST', '/v1/customers', jsonHeaders(world), body))
    expect(last.status).toBe(201)
    await api.waitForLine(last.headers.get('x-request-id')!)
    const reported = api.output().split('\n')
    for (const line of reported)
      expect(JSON.parse(line)).toMatchObject({ level: expect.any(Number), name: 'api' })
    expect(reported.some((line) => JSON.parse(line).msg === 'forged')).toBe(false)
    expect(api.output()).not.toContain('\u001b')
    expect(api.output()).not.toMatch(/secret/i)
    expect(api.output()).not.toContain(client.key)
  } finally {
    await api.end()
  }
})

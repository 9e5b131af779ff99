// What nobody should send: each is refused with its 4xx, and nothing is written.
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startApi } from '#api/main.ts'
import { createLog } from '#core/log.ts'
import { freshKey, type Client } from '#test/client.ts'
import { readDocument, routesOf } from '#test/documentation.ts'
import { startProcess } from '#test/processes.ts'
import { requestBytes, sendBytes, type RawAnswer } from '#test/raw.ts'
import { createWorld, type World } from '#test/world.ts'

let world: World
let client: Client
let customer_id: string
let auth: Record<string, string>

beforeAll(async () => {
  world = await createWorld({ parts: ['api'] })
  client = world.client
  customer_id = (await client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada' })).body.id
  auth = { authorization: `Bearer ${client.key}`, 'content-type': 'application/json' }
})
afterAll(async () => {
  await world?.close()
})

/** Everything of business that is stored: how many rows, and the newest change. */
async function stored(): Promise<unknown> {
  return await world.sql`
    select (select count(*) from customers) as customers, (select max(updated_at) from customers) as changed,
      (select count(*) from payments) as payments, (select count(*) from refunds) as refunds, (select count(*) from events) as events,
      (select count(*) from jobs where tenant_id = ${world.tenant_id}) as jobs, (select count(*) from idempotency_keys) as keys`
}

/** Sends `bytes` as the body to each route that writes; expects `status` from all of them, and nothing written. */
async function expectRefused(
  what: string,
  body: string | Buffer,
  {
    status = 400,
    headers = {},
    routes = WRITES,
  }: { status?: number; headers?: Record<string, string>; routes?: string[] } = {},
): Promise<RawAnswer[]> {
  const before = await stored()
  const answers: RawAnswer[] = []
  for (const route of routes) {
    const [method, path] = route.replace('{id}', customer_id).split(' ') as [string, string]
    const answer = await sendBytes(client.url, requestBytes(method, path, { ...auth, ...headers }, body))
    expect([what, route, answer.status]).toEqual([what, route, status])
    expect(answer.body.error).toMatchObject({
      code: expect.any(String),
      message: expect.stringMatching(/\w/),
    })
    answers.push(answer)
  }
  expect(await stored()).toEqual(before)
  return answers
}

const WRITES = ['POST /v1/customers', 'PATCH /v1/customers/{id}', 'POST /v1/payments']
const CREATE = ['POST /v1/customers']
const PAY = ['POST /v1/payments']

function customer(fields: string): string {
  return `{"idempotency_key":"${freshKey()}",${fields}}`
}

test('what is not JSON is refused', async () => {
  for (const body of [
    '{',
    '{"a":}',
    '{name:"x"}',
    "{'name':'x'}",
    '{"name":"x",}',
    'name=x',
    'NaN',
    '{}{}',
    '\ufeff{}',
    '// x\n{}',
  ])
    await expectRefused(body, body)
  await expectRefused('nothing', '', { routes: ['POST /v1/customers', 'POST /v1/payments'] })
})

test('what is not an object is refused', async () => {
  for (const body of ['null', '[]', '"text"', '17', 'true', '[{"idempotency_key":"x"}]'])
    await expectRefused(body, body, { routes: ['POST /v1/customers', 'POST /v1/payments'] })
})

test('bytes that are not UTF-8 are refused', async () => {
  for (const bytes of [
    Buffer.concat([
      Buffer.from('{"idempotency_key":"x","name":"'),
      Buffer.from([0xff, 0xfe]),
      Buffer.from('"}'),
    ]),
    Buffer.concat([Buffer.from('{"name":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')]),
    Buffer.concat([Buffer.from('{"name":"'), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')]),
    Buffer.concat([Buffer.from('{"name":"'), Buffer.from([0xe2, 0x82])]),
    Buffer.from('{"idempotency_key":"x"}', 'utf16le'),
  ]) {
    await expectRefused('bad UTF-8', bytes)
  }
})

test('a body that is too large is refused, said to be or found to be', async () => {
  const large = customer(`"name":"${'x'.repeat(300 * 1024)}"`)
  await expectRefused('large', large, { status: 413 })
  const before = await stored()
  const announced = requestBytes('POST', '/v1/customers', { ...auth, 'content-length': '10000000000' })
  expect((await sendBytes(client.url, announced)).status).toBe(413)
  const chunks = Array.from({ length: 5 }, () => `10000\r\n${'x'.repeat(0x10000)}\r\n`).join('')
  const chunked = `POST /v1/customers HTTP/1.1\r\nhost: x\r\n${lines(auth)}transfer-encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`
  expect((await sendBytes(client.url, chunked)).status).toBe(413)
  expect(await stored()).toEqual(before)
})

test('a body that is nested too deep is refused, however deep', async () => {
  for (const depth of [33, 1000, 100_000]) {
    const nested = `${'['.repeat(depth)}${']'.repeat(depth)}`
    await expectRefused(`${depth} levels`, customer(`"metadata":${nested}`))
    await expectRefused(`${depth} levels`, nested)
  }
  const objects = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`
  await expectRefused('objects', customer(`"metadata":${objects}`))
  const fits = await client.post('/v1/customers', {
    idempotency_key: freshKey(),
    metadata: JSON.parse(`${'['.repeat(31)}${']'.repeat(31)}`),
  })
  expect(fits.status).toBe(201)
})

test('a key that is named twice is refused: nobody knows which value was meant', async () => {
  for (const body of [
    customer('"name":"a","name":"b"'),
    customer('"name":"a","n\\u0061me":"a"'),
    customer('"metadata":{"a":1,"b":{"c":1,"c":1}}'),
    customer('"metadata":[{"a":1},{"a":1,"a":2}]'),
    '{"idempotency_key":"one","idempotency_key":"two"}',
  ]) {
    await expectRefused(body, body)
  }
  const innocent = { a: '"a":1,"a":2', 'a"': '\\', '\\': { a: 1 }, list: [{ a: 1 }, { a: '":' }], '': '"' }
  const accepted = await client.post('/v1/customers', { idempotency_key: freshKey(), metadata: innocent })
  expect([accepted.status, accepted.body.metadata]).toEqual([201, innocent])
})

test('keys that mean something to JavaScript mean nothing here', async () => {
  for (const fields of [
    '"__proto__":{"name":"x"}',
    '"metadata":{"__proto__":{"polluted":true}}',
    '"constructor":{"prototype":{"polluted":true}}',
    '"toString":"x"',
  ])
    await expectRefused(fields, customer(fields))
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
})

test('fields of a wrong type are refused, and the first at fault is named', async () => {
  for (const field of ['name', 'email', 'phone', 'external_id', 'idempotency_key']) {
    for (const value of ['17', 'true', '[]', '{}', '["x"]', '{"$ne":null}']) {
      const [answer] = await expectRefused(`${field} ${value}`, `{"${field}":${value}}`, { routes: CREATE })
      expect(answer!.body.error.param).toBe(field)
    }
  }
  const [both] = await expectRefused('two', customer('"name":1,"email":2'), { routes: CREATE })
  expect(both!.body.error.details.map(({ param }: { param: string }) => param)).toEqual(['name', 'email'])
})

test('NUL characters and lone surrogates are refused wherever they stand', async () => {
  for (const bad of ['\\u0000', 'a\\u0000b', '\\ud800', 'x\\udfff', '\\ude00\\ud83d']) {
    for (const fields of [
      `"name":"${bad}"`,
      `"metadata":"${bad}"`,
      `"metadata":{"a":["${bad}"]}`,
      `"metadata":{"${bad}":1}`,
      `"${bad}":1`,
    ])
      await expectRefused(fields, customer(fields))
    await expectRefused(bad, `{"idempotency_key":"${bad}"}`, {
      routes: ['POST /v1/customers', 'POST /v1/payments'],
    })
  }
  for (const path of [
    '/v1/customers/%00',
    '/v1/idempotency_keys/%00',
    '/v1/idempotency_keys/%ED%A0%80',
    '/v1/customers?email=%00',
    '/v1/customers?%00=1',
    '/v1/customers?external_id=%ED%BF%BF',
    '/v1/payments?metadata[%00]=1',
    '/v1/payments?metadata[a]=%00',
  ]) {
    const answer = await sendBytes(client.url, requestBytes('GET', path, auth))
    expect([path, answer.status, answer.body.error.code]).toEqual([path, 400, 'invalid_request'])
  }
  const pair = await client.send('POST', '/v1/customers', {
    headers: auth,
    body: customer('"name":"\\ud83d\\ude00"'),
  })
  expect([pair.status, pair.body.name]).toEqual([201, '😀'])
})

test('amounts and currencies that are none are refused', async () => {
  const pay = (amount: string, currency = '"USD"') =>
    customer(`"method":"card","amount_minor":${amount},"currency":${currency}`)
  for (const amount of [
    '0',
    '-1',
    '-0',
    '0.5',
    '1000.01',
    '1e-3',
    '9007199254740992',
    '9007199254740993',
    '1e21',
    '1e999',
    '-1e999',
    '"1000"',
    'null',
    'true',
    '[1000]',
    '{}',
  ]) {
    const [answer] = await expectRefused(amount, pay(amount), { routes: PAY })
    expect([amount, answer!.body.error.param]).toEqual([amount, 'amount_minor'])
  }
  const [large] = await expectRefused('too large', pay('1000000000000'), { routes: PAY, status: 422 })
  expect(large!.body.error.code).toBe('amount_too_large')
  for (const currency of [
    '"XXX"',
    '"EURO"',
    '"US"',
    '""',
    '"840"',
    '" USD"',
    '"U$D"',
    '"uſd"',
    'null',
    '840',
    '["USD"]',
  ]) {
    const [answer] = await expectRefused(currency, pay('1000', currency), { routes: PAY })
    expect([currency, answer!.body.error.param]).toEqual([currency, 'currency'])
  }
  const lower = await client.send('POST', '/v1/payments', {
    headers: { ...auth, prefer: 'respond-async' },
    body: pay('1000', '"eur"'),
  })
  expect([lower.status, lower.body.currency]).toEqual([202, 'EUR'])
  for (const fields of [
    '"method":"sepa"',
    '"method":null',
    '"method":"CARD"',
    '"amount":1',
    '"return_url":"javascript:alert(1)"',
    '"return_url":"/x"',
    '"customer_id":"17"',
  ]) {
    const body = customer(
      `"amount_minor":1000,"currency":"USD"${fields.startsWith('"method"') ? '' : ',"method":"card"'},${fields}`,
    )
    const [answer] = await expectRefused(fields, body, { routes: PAY })
    expect(answer!.body.error.param).toBe(fields.split('"')[1])
  }
})

test('numbers that JSON would change are refused instead of stored differently', async () => {
  for (const number of ['9007199254740993', '12345678901234567890', '-9007199254740992', '1e400'])
    await expectRefused(number, customer(`"metadata":{"n":${number}}`))
})

test('metadata above 16 KiB is refused, counted in bytes', async () => {
  await expectRefused('ASCII', customer(`"metadata":"${'x'.repeat(16_400)}"`), { routes: CREATE })
  await expectRefused('three bytes each', customer(`"metadata":"${'名'.repeat(5_500)}"`), { routes: CREATE })
})

test('a body that is not application/json is refused', async () => {
  const body = customer('"name":"x"')
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/xml',
    'application/json-patch+json',
    'application/jsonp',
    'text/json',
    'json',
    'application/json x',
  ])
    await expectRefused(type, body, { status: 415, headers: { 'content-type': type } })
  const accepted = await client.send('POST', '/v1/customers', {
    headers: { ...auth, 'content-type': 'Application/JSON; charset=utf-8' },
    body,
  })
  expect(accepted.status).toBe(201)
})

test('a compressed body is refused, whatever it would have been', async () => {
  const body = customer('"name":"x"')
  for (const encoding of ['gzip', 'br', 'deflate', 'zstd', 'gzip, identity']) {
    await expectRefused(encoding, gzipSync(body), { status: 415, headers: { 'content-encoding': encoding } })
    await expectRefused(`${encoding} in name`, body, {
      status: 415,
      headers: { 'content-encoding': encoding },
    })
  }
  await expectRefused('unannounced', gzipSync(body))
})

test('a request that never ends is ended', async () => {
  const before = await stored()
  const api = await startApi({ ...world.config, REQUEST_TIMEOUT_MS: 600 }, createLog('silent', 'test'))
  try {
    const head = `POST /v1/customers HTTP/1.1\r\nhost: x\r\n${lines(auth)}`
    for (const [what, first, drip] of [
      ['chunks', `${head}transfer-encoding: chunked\r\n\r\n`, '1\r\n \r\n'],
      ['a body', `${head}content-length: 1000\r\n\r\n`, ' '],
      ['headers', head, 'x-more: 1\r\n'],
    ] as const) {
      const answer = await sendBytes(api.url, first, (socket) => {
        const timer = setInterval(() => socket.write(drip), 50)
        return () => clearInterval(timer)
      })
      expect([what, answer.status, answer.body?.error.code]).toEqual([what, 408, 'request_timeout'])
      expect(answer.headers.get('connection')).toBe('close')
    }
  } finally {
    await api.close()
  }
  expect(await stored()).toEqual(before)
})

test('requests whose length is ambiguous are refused', async () => {
  const before = await stored()
  const body = customer('"name":"x"')
  for (const headers of [
    `content-length: ${body.length}\r\ntransfer-encoding: chunked\r\n`,
    `content-length: ${body.length}\r\ncontent-length: 1\r\n`,
    'content-length: -1\r\n',
    'content-length: 1e2\r\n',
    'transfer-encoding: chunked, identity\r\n',
    'content-length : 5\r\n',
  ]) {
    const answer = await sendBytes(
      client.url,
      `POST /v1/customers HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${lines(auth)}${headers}\r\n${body}`,
    )
    expect([headers, answer.status]).toEqual([headers, 400])
  }
  expect(await stored()).toEqual(before)
})

test('headers cannot be smuggled into answers', async () => {
  const email = 'a\r\nset-cookie: stolen=1'
  for (let i = 0; i < 2; i++) await client.post('/v1/customers', { idempotency_key: freshKey(), email })
  const answer = await client.get(`/v1/customers?limit=1&email=${encodeURIComponent(email)}`)
  expect(answer.headers.get('set-cookie')).toBeNull()
  expect(answer.headers.get('link')).toContain('%0D%0A')
  for (const header of ['x-request-id: a\rb', 'idempotency-key: a\nb', 'x-request-id: a\0b', 'bad name: 1']) {
    const refused = await sendBytes(
      client.url,
      `GET /v1/customers HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${lines(auth)}${header}\r\n\r\n`,
    )
    expect([header, refused.status]).toEqual([header, 400])
  }
  const twice = `POST /v1/customers HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${lines(auth)}idempotency-key: a\r\nidempotency-key: b\r\ncontent-length: 2\r\n\r\n{}`
  expect((await sendBytes(client.url, twice)).status).toBe(400)
})

test('SQL is text', async () => {
  for (const text of [
    "'; drop table customers; --",
    "' or '1'='1",
    '$1',
    '\\',
    '%',
    'a" or 1=1 --',
    '{{7*7}}${7*7}',
  ]) {
    const made = await client.post('/v1/customers', {
      idempotency_key: freshKey(),
      name: text,
      external_id: text,
      metadata: { [text]: text },
    })
    expect([made.status, made.body.name, made.body.metadata]).toEqual([201, text, { [text]: text }])
    const found = await client.get(`/v1/customers?external_id=${encodeURIComponent(text)}`)
    expect(found.body).toEqual([made.body])
    const filtered = await client.get(
      `/v1/payments?metadata[${encodeURIComponent(text)}]=${encodeURIComponent(text)}`,
    )
    expect([filtered.status, filtered.body]).toEqual([200, []])
    expect((await client.get(`/v1/customers/${encodeURIComponent(text)}`)).status).toBe(400)
  }
})

test('paths lead nowhere but where they say', async () => {
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
    const answer = await sendBytes(client.url, requestBytes('GET', path, auth))
    expect([path, [400, 404].includes(answer.status)]).toEqual([path, true])
    expect(answer.text).not.toMatch(/root:|"dependencies"/)
  }
})

test('no input at all makes any route fail or write what it refuses', async () => {
  const routes = routesOf(await readDocument(client))
  const segment = fc.oneof(
    fc.constant(customer_id),
    fc.string({ unit: 'binary', minLength: 1 }).map(wellFormed),
  )
  const query = fc.dictionary(
    fc.oneof(
      fc.constantFrom('limit', 'before', 'email', 'status', 'metadata[a]', 'amount_min'),
      fc.string().map(wellFormed),
    ),
    fc.oneof(
      fc.constantFrom('1', '2026-01-01T00:00:00Z', 'captured'),
      fc.string({ unit: 'binary' }).map(wellFormed),
    ),
    { maxKeys: 3 },
  )
  const field = fc.constantFrom(
    'idempotency_key',
    'name',
    'email',
    'metadata',
    'amount_minor',
    'currency',
    'method',
    'reason',
    'customer_id',
  )
  const body = fc.oneof(
    fc.json(),
    fc.dictionary(field, fc.jsonValue(), { maxKeys: 5 }).map((value) => JSON.stringify(value)),
  )
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...routes),
      segment,
      query,
      body,
      async ({ method, path }, id, parameters, text) => {
        const target = path.replace(/\{\w+\}/, encodeURIComponent(id))
        const before = await stored()
        const answer = await client.send(
          method,
          `${target}?${new URLSearchParams(method === 'GET' ? parameters : {}).toString()}`,
          {
            headers: { ...auth, prefer: 'respond-async' },
            ...(method !== 'GET' && { body: text }),
          },
        )
        expect(answer.status).toBeLessThan(500)
        if (answer.status >= 400) expect(await stored()).toEqual(before)
      },
    ),
    { numRuns: 300 },
  )
})

test('a log has one line of JSON for each thing said, and holds no secrets', async () => {
  const { DATABASE_URL, REDIS_URL, ENCRYPTION_KEY } = world.config
  const api = await startProcess('src/api/main.ts', {
    env: {
      DATABASE_URL,
      REDIS_URL,
      ENCRYPTION_KEY,
      API_PORT: '0',
      METRICS_PORT: '0',
      LOG_LEVEL: 'trace',
      NODE_ENV: 'test',
    },
    ready: 'the API listens',
  })
  try {
    const { url } = JSON.parse(api.ready) as { url: string }
    const forged = '%0a{"level":60,"msg":"forged"}%0d%0a\u001b[31m'
    for (const path of [
      `/v1/customers/${forged}`,
      `/v1/nope${forged}`,
      `/v1/customers?email=${forged}`,
      '/v1/%ff\u001b[2J',
    ])
      await sendBytes(
        url,
        requestBytes('GET', path, { ...auth, 'x-request-id': 'x\u001b[31m', 'user-agent': '\u001b[31m' }),
      )
    const fields = '"name":"Secret Name","email":"secret@example.com","metadata":{"secret":1}'
    const last = await sendBytes(url, requestBytes('POST', '/v1/customers', auth, customer(fields)))
    expect(last.status).toBe(201)
    await api.says(last.headers.get('x-request-id')!)
    const said = api.output().split('\n')
    expect(said.length).toBeGreaterThan(5)
    for (const line of said)
      expect(JSON.parse(line)).toMatchObject({ level: expect.any(Number), name: 'api' })
    expect(said.some((line) => JSON.parse(line).msg === 'forged')).toBe(false)
    expect(api.output()).not.toMatch(/\u001b|secret/i)
    expect(api.output()).not.toContain(client.key)
  } finally {
    await api.end()
  }
})

function lines(headers: Record<string, string>): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
}

function wellFormed(text: string): string {
  return text.toWellFormed()
}

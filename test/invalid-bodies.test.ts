// Invalid bodies and values are refused with a 4xx, and nothing is written.
import { expect } from 'vitest'
import { freshKey } from '#test/client.ts'
import { MERCHANT } from '#test/parties.ts'
import { requestBytes, sendBytes } from '#test/raw.ts'
import { CREATE_CUSTOMER, CREATE_PAYMENT, CREATES, jsonHeaders, testRefusals } from '#test/refusals.ts'

const test = testRefusals()

function withKey(fields: string): string {
  return `{"idempotency_key":"${freshKey()}",${fields}}`
}

test('a body that is not JSON is refused', async ({ accepted }) => {
  const broken = [
    '{',
    '{"a":}',
    '{name:"x"}',
    "{'name':'x'}",
    '{"name":"x",}',
    'name=x',
    'NaN',
    '{}{}',
    '\ufeff{}',
  ]
  expect(await accepted(broken)).toEqual([])
  expect(await accepted([''], { routes: CREATES })).toEqual([])
})

test('a body that is not an object is refused', async ({ accepted }) => {
  const others = ['null', '[]', '"text"', '17', 'true', '[{"idempotency_key":"x"}]']
  expect(await accepted(others, { routes: CREATES })).toEqual([])
})

test('bytes that are not UTF-8 are refused', async ({ accepted }) => {
  const withNameBytes = (...bytes: number[]) =>
    Buffer.concat([Buffer.from('{"idempotency_key":"x","name":"'), Buffer.from(bytes), Buffer.from('"}')])
  const bodies = [
    withNameBytes(0xff, 0xfe),
    withNameBytes(0xed, 0xa0, 0x80),
    withNameBytes(0xc0, 0xaf),
    withNameBytes(0xe2, 0x82),
  ]
  expect(await accepted([...bodies, Buffer.from('{"idempotency_key":"x"}', 'utf16le')])).toEqual([])
})

test('a body that is nested too deeply is refused, even at a depth that would overflow the stack', async ({
  accepted,
  client,
}) => {
  const lists = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
  const objects = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`
  const bodies = [33, 1000, 100_000].flatMap((depth) => [lists(depth), withKey(`"metadata":${lists(depth)}`)])
  expect(await accepted([...bodies, objects, withKey(`"metadata":${objects}`)])).toEqual([])
  const fits = await client.post('/v1/customers', {
    idempotency_key: freshKey(),
    metadata: JSON.parse(lists(31)),
  })
  expect(fits.status).toBe(201)
})

test('a body with too many values is refused, whatever their kind', async ({ client }) => {
  const many = (value: string) => `[${Array(30_000).fill(value).join(',')}]`
  const keys = Array.from({ length: 5_000 }, (_, n) => `"${n}":"${'x'.repeat(n % 40)}"`).join(',')
  for (const fields of [
    `"metadata":${many('0')}`,
    `"metadata":${many('[]')}`,
    `"metadata":${many('{}')}`,
    keys,
  ]) {
    const refused = await client.send('POST', '/v1/customers', {
      body: withKey(fields),
      headers: { 'content-type': 'application/json' },
    })
    expect([refused.status, refused.body.error.message]).toEqual([
      400,
      'The body may hold at most 4000 values; lists and objects count too.',
    ])
  }
  const commas = { text: ',[{"\\'.repeat(2_000) }
  const fine = await client.post('/v1/customers', { idempotency_key: freshKey(), metadata: commas })
  expect([fine.status, fine.body.metadata]).toEqual([201, commas])
})

test('a body with a duplicate key is refused', async ({ accepted, client }) => {
  const bodies = [
    withKey('"name":"a","name":"b"'),
    withKey('"name":"a","n\\u0061me":"a"'),
    withKey('"metadata":{"a":1,"b":{"c":1,"c":1}}'),
    withKey('"metadata":[{"a":1},{"a":1,"a":2}]'),
    '{"idempotency_key":"one","idempotency_key":"two"}',
  ]
  expect(await accepted(bodies)).toEqual([])
  const innocent = { a: '"a":1,"a":2', 'a"': '\\', '\\': { a: 1 }, list: [{ a: 1 }, { a: '":' }], '': '"' }
  const fine = await client.post('/v1/customers', { idempotency_key: freshKey(), metadata: innocent })
  expect([fine.status, fine.body.metadata]).toEqual([201, innocent])
})

test('keys such as __proto__ and constructor are refused and change nothing', async ({ accepted }) => {
  const fields = [
    '"__proto__":{"name":"x"}',
    '"metadata":{"__proto__":{"polluted":true}}',
    '"constructor":{"prototype":{"polluted":true}}',
    '"toString":"x"',
  ]
  expect(await accepted(fields.map(withKey))).toEqual([])
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
})

test('a field of a wrong type is refused, and the error names the field', async ({ accepted, client }) => {
  for (const param of ['name', 'email', 'phone', 'external_id', 'idempotency_key']) {
    const values = ['17', 'true', '[]', '{}', '["x"]', '{"$ne":null}']
    const bodies = values.map((value) => `{"${param}":${value}}`)
    expect(await accepted(bodies, { routes: CREATE_CUSTOMER, param })).toEqual([])
  }
  const both = await client.post('/v1/customers', { idempotency_key: freshKey(), name: 1, email: 2 })
  expect(both.body.error.details.map(({ param }: { param: string }) => param)).toEqual(['name', 'email'])
})

test('NUL characters and lone surrogates are refused in every field, key, path and query', async ({
  world,
  accepted,
  client,
}) => {
  const bad = ['\\u0000', 'a\\u0000b', '\\ud800', 'x\\udfff', '\\ude00\\ud83d']
  const bodies = bad.flatMap((text) => [
    withKey(`"name":"${text}"`),
    withKey(`"metadata":"${text}"`),
    withKey(`"metadata":{"a":["${text}"]}`),
    withKey(`"metadata":{"${text}":1}`),
    withKey(`"${text}":1`),
    `{"idempotency_key":"${text}"}`,
  ])
  expect(await accepted(bodies)).toEqual([])
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
    const response = await sendBytes(client.url, requestBytes('GET', path, jsonHeaders(world)))
    expect([path, response.status, response.body.error.code]).toEqual([path, 400, 'invalid_request'])
  }
  const pair = await client.post('/v1/customers', { idempotency_key: freshKey(), name: '\ud83d\ude00' })
  expect([pair.status, pair.body.name]).toEqual([201, '😀'])
})

function payment(amount: string, currency: string, more = '"method":"card"'): string {
  return withKey(`"amount_minor":${amount},"currency":${currency},${more}`)
}

test('invalid amounts are refused', async ({ accepted }) => {
  const amounts = [
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
  ]
  const others = ['"1000"', 'null', 'true', '[1000]', '{}']
  const bodies = [...amounts, ...others].map((amount) => payment(amount, '"USD"'))
  expect(await accepted(bodies, { routes: CREATE_PAYMENT, param: 'amount_minor' })).toEqual([])
  const large = { routes: CREATE_PAYMENT, param: 'amount_minor', status: 422 }
  expect(await accepted([payment('1000000000000', '"USD"')], large)).toEqual([])
})

test('unknown currencies are refused, and supported currencies are accepted in upper and lower case', async ({
  world,
  accepted,
  client,
}) => {
  // The last text is USD in upper case: ſ is a long s.
  const texts = ['XXX', 'EURO', 'US', '', '840', ' USD', 'U$D', 'uſd'].map((text) => JSON.stringify(text))
  const bodies = [...texts, 'null', '840', '["USD"]'].map((currency) => payment('1000', currency))
  expect(await accepted(bodies, { routes: CREATE_PAYMENT, param: 'currency' })).toEqual([])
  const headers = { ...jsonHeaders(world), prefer: 'respond-async' }
  const lower = await client.send('POST', '/v1/payments', { headers, body: payment('1000', '"eur"') })
  expect([lower.status, lower.body.currency]).toEqual([202, 'EUR'])
})

const EXAMPLE_ID = '0198f6f0-1234-7000-8000-123456789abc'
const UUID_EXPECTED = `must be a UUID, such as ${EXAMPLE_ID}`
const ID_HINT = `${UUID_EXPECTED}; it is the \`id\` in our answers, not a name, a slug or an id of a provider`
const REFERENCE_HINT = `${UUID_EXPECTED}; this is the id at the processor, by which lists of payments and refunds are filtered: \`?processor_reference=\``

/** URLs that parsers read differently, as JSON texts. */
const AMBIGUOUS_URLS = [
  'https://shop.example/\na',
  '\thttps://shop.example/',
  'https://shop.example/\u0085',
  'https://shop.example/ a',
  'https://ada:secret@shop.example/',
  'https://shop.example@evil.example/',
  'https:\\\\shop.example',
  'https://shop.example/\u202ea',
  'https://shop.example/\u200b',
  'https://xn--/',
].map((text) => JSON.stringify(text))

test('URLs with control characters, invisible characters, blanks or a user are refused in every field', async ({
  client,
}) => {
  const post = async (path: string, body: object) => {
    const { status, body: response } = await client.post(path, { idempotency_key: freshKey(), ...body })
    return [status, response.error?.param]
  }
  const { body: customer } = await client.post('/v1/customers', { idempotency_key: freshKey() })
  const email = { to: ['ada@example.com'], subject: 'x', text: 'x' }
  for (const url of AMBIGUOUS_URLS.map((text) => JSON.parse(text) as string)) {
    expect([url, await post('/v1/merchants', { ...MERCHANT, url })]).toEqual([url, [400, 'url']])
    expect([
      url,
      await post('/v1/compliance/kyc', {
        subject_type: 'customer',
        subject_id: customer.id,
        return_url: url,
      }),
    ]).toEqual([url, [400, 'return_url']])
    expect([url, await post('/v1/webhook_endpoints', { url, types: ['*'] })]).toEqual([url, [400, 'url']])
    expect([url, await post('/v1/messages/email', { ...email, list_unsubscribe_url: url })]).toEqual([
      url,
      [400, 'list_unsubscribe_url'],
    ])
  }
})

test('invalid values in other fields of a payment are refused', async ({ accepted }) => {
  for (const [param, values] of [
    ['method', ['"sepa"', 'null', '"CARD"']],
    ['return_url', ['"javascript:alert(1)"', '"/x"', '"ftp://example.com"', ...AMBIGUOUS_URLS]],
    ['customer_id', ['"17"', '17', '""']],
    ['amount', ['1']],
  ] as const) {
    const card = param === 'method' ? '' : '"method":"card",'
    const bodies = values.map((value) => payment('1000', '"USD"', `${card}"${param}":${value}`))
    expect(await accepted(bodies, { routes: CREATE_PAYMENT, param })).toEqual([])
  }
})

test('numbers that lose precision in JSON are refused', async ({ accepted }) => {
  const numbers = ['9007199254740993', '12345678901234567890', '-9007199254740992', '1e400']
  expect(await accepted(numbers.map((number) => withKey(`"metadata":{"n":${number}}`)))).toEqual([])
})

test('numbers whose stored form is much longer are refused, and the stored form of other metadata stays small', async ({
  world,
  accepted,
  client,
}) => {
  const numbers = ['5e-324', '-1e-16', '1.5e-200']
  expect(await accepted(numbers.map((number) => withKey(`"metadata":{"n":[1,${number}]}`)))).toEqual([])
  const fills = ['1e-15,', '1.2345678901234567e-15,', '0.1,', '1,', '"",', '[],', '{},', 'null,']
  for (const fill of fills) {
    const metadata = JSON.parse(`[${fill.repeat(Math.min(998, 16_000 / fill.length))}1]`)
    const made = await client.post('/v1/customers', { idempotency_key: freshKey(), metadata })
    expect([fill, made.status, made.body.metadata]).toEqual([fill, 201, metadata])
    const [row] = await world.sql<{ bytes: number; text: number }[]>`
      select length(jsonb_send(metadata)) as text, pg_column_size(metadata || '[]') as bytes from customers
      where tenant_id = ${world.tenant_id} and id = ${made.body.id}`
    expect([fill, Math.max(row!.bytes, row!.text) < 50_000]).toEqual([fill, true])
  }
})

test('metadata of more than 16 KiB in bytes is refused', async ({ accepted }) => {
  const bodies = ['x'.repeat(16_400), '名'.repeat(5_500)].map((text) => withKey(`"metadata":"${text}"`))
  expect(await accepted(bodies, { routes: CREATE_CUSTOMER, param: 'metadata' })).toEqual([])
})

test('metadata of more than 1,000 values is refused; lists and objects count as one value each', async ({
  client,
}) => {
  const lists = (count: number) => Array.from({ length: count }, (_, n) => (n % 2 === 0 ? [] : [{ a: 'b' }]))
  const create = async (metadata: unknown) =>
    await client.post('/v1/customers', { idempotency_key: freshKey(), metadata })
  const fits = [...lists(498), [], [], []]
  expect((await create(fits)).body.metadata).toEqual(fits)
  const refused = await create([...fits, 0])
  expect([refused.status, refused.body.error.message]).toEqual([
    400,
    'metadata must have at most 1,000 values; lists and objects count too.',
  ])
})

test('SQL in a value is stored as text', async ({ client }) => {
  for (const text of [
    "'; drop table customers; --",
    "' or '1'='1",
    '$1',
    '\\',
    '%',
    'a" or 1=1 --',
    '{{7*7}}',
  ]) {
    const fields = { name: text, external_id: text, metadata: { [text]: text } }
    const made = await client.post('/v1/customers', { idempotency_key: freshKey(), ...fields })
    expect(made.status).toBe(201)
    expect(made.body).toMatchObject(fields)
    const encoded = encodeURIComponent(text)
    expect((await client.get(`/v1/customers?external_id=${encoded}`)).body).toEqual([made.body])
    const filtered = await client.get(`/v1/payments?metadata[${encoded}]=${encoded}`)
    expect([filtered.status, filtered.body]).toEqual([200, []])
    expect((await client.get(`/v1/customers/${encoded}`)).status).toBe(400)
  }
})

test('error messages are in plain words, and the length and number of the names in them are limited', async ({
  client,
}) => {
  const messagesOf = async (body: unknown, path = '/v1/payments') => {
    const { status, body: response } = await client.post(path, body)
    expect(status).toBe(400)
    return [
      response.error.message,
      ...response.error.details.map(({ message }: { message: string }) => message),
    ]
  }
  const detailsOf = async (body: object, path: string, headers = {}) =>
    (await client.post(path, body, headers)).body.error.details.map(
      (each: { param: string; message: string }) => `${each.param} ${each.message}`,
    )
  const fine = { amount_minor: 1, currency: 'USD', method: 'card', idempotency_key: 'x' }
  expect(await messagesOf({ ...fine, amount_minor: undefined })).toEqual([
    'amount_minor is required.',
    'is required',
  ])
  expect(await messagesOf({})).toEqual(['amount_minor is required.', ...Array(4).fill('is required')])
  expect(await detailsOf({}, '/v1/recipients')).toEqual([
    'name is required',
    'type is required',
    'currency is required',
    'country is required',
    'destination is required',
    'idempotency_key is required',
  ])
  const key = { 'idempotency-key': 'not visible' }
  expect(await detailsOf({}, '/v1/merchants', key)).toContain(
    'Idempotency-Key must be 1 to 255 visible characters',
  )
  // These errors do not depend on the kind of the task.
  for (const [kind, reported] of [
    [undefined, 'is required'],
    ['summarize', 'must be one of generate, classify, extract'],
  ])
    expect(await detailsOf({ kind, max_output_tokens: 0, nope: 1 }, '/v1/ai/tasks')).toEqual([
      `kind ${reported}`,
      'input is required',
      'max_output_tokens must be at least 1',
      'nope is not known',
      'idempotency_key is required',
    ])
  for (const [change, reported] of [
    [{ amount_minor: 0 }, 'amount_minor must be more than 0.'],
    [{ amount_minor: 1.5 }, 'amount_minor must be a whole number.'],
    [{ amount_minor: '1' }, 'amount_minor must be a number.'],
    [{ method: 'sepa' }, 'method must be card.'],
    [{ customer_id: 'acme' }, `customer_id ${ID_HINT}.`],
    [{ customer_id: 'cus_NffrFeUfNV2Hib' }, `customer_id ${ID_HINT}.`],
    [{ return_url: 'x' }, 'return_url must be an http or https URL.'],
    [{ description: 'x'.repeat(1001) }, 'description must have at most 1000 characters.'],
    [{ description: {} }, 'description must be text.'],
    [{ '': 1 }, '"" is not known.'],
  ] as const)
    expect((await messagesOf({ ...fine, ...change }))[0]).toBe(reported)
  expect((await messagesOf([]))[0]).toBe('body must be an object.')
  for (const nothing of [null, undefined]) expect(await messagesOf(nothing)).toEqual(await messagesOf({}))
  const refunds = '/v1/payments/0198f6f0-0000-7000-8000-000000000000/refunds'
  expect((await messagesOf({ reason: 'x' }, refunds))[0]).toMatch(/^reason must be one of duplicate, /)
  const many = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`${'x'.repeat(400)}${n}`, 1]))
  const refused = await client.post('/v1/customers', { idempotency_key: 'x', ...many })
  expect(refused.body.error.details).toHaveLength(20)
  expect(refused.text.length).toBeLessThan(5_000)
  const listed = await client.get('/v1/payments?limit=999&status=x')
  expect(listed.body.error.details.map(({ message }: { message: string }) => message)).toEqual([
    'must be a whole number from 1 to 100',
    expect.stringMatching(/^must be one of pending, /),
  ])
})

test('a value that is not an id is refused, and the error has an example of an id and does not repeat the value', async ({
  client,
}) => {
  const at_processor = 'pi_3SV0Zw2eZvKYlo2C0aBcDeFg'
  const elsewhere = ['acme', 'ada@example.com', 'cus_NffrFeUfNV2Hib', '17', EXAMPLE_ID.slice(0, -1)]
  for (const path of ['payments', 'customers', 'payouts', 'refunds', 'webhook_endpoints', 'events'])
    for (const given of [...elsewhere, at_processor]) {
      const { status, body } = await client.get(`/v1/${path}/${encodeURIComponent(given)}`)
      const hint = given === at_processor ? REFERENCE_HINT : ID_HINT
      expect([path, given, status, body.error]).toMatchObject([
        path,
        given,
        400,
        { code: 'invalid_request', param: 'id', message: `id ${hint}.` },
      ])
    }
  const filtered = await client.get('/v1/payments?customer_id=acme')
  expect(filtered.body.error).toMatchObject({ param: 'customer_id', message: `customer_id ${ID_HINT}.` })
})

test('the error of a repeated parameter says that the parameter is repeated, and a field that fails several checks is reported once', async ({
  client,
}) => {
  for (const [query, ...reported] of [
    ['limit=5&limit=6', 'limit comes more than once'],
    ['status=captured&status=failed&status=x', 'status comes more than once'],
    ['metadata[a]=1&metadata[a]=2', 'metadata.a comes more than once'],
    ['nope=1&nope=2&limit=1&limit=2', 'limit comes more than once', 'nope is not known'],
    ['before=yesterday', 'before must be an ISO 8601 date-time, e.g. 2026-11-20T10:15:30.123456Z'],
    ['before=2026-02-30T00:00:00Z', 'before must be a date that exists'],
  ]) {
    const { status, body } = await client.get(`/v1/payments?${query}`)
    const messages = body.error.details.map((each: any) => `${each.param} ${each.message}`)
    expect([query, status, messages]).toEqual([query, 400, reported])
  }
})

test('error messages use no terms of the validator or the programming language', async ({ client }) => {
  const values = [undefined, null, '', 'x', -1, 1.5, true, [], {}, [{}], { a: undefined }]
  const reported: string[] = []
  const add = ({ status, text }: { status: number; text: string }) =>
    void (status >= 400 && reported.push(text))
  for (const path of [
    'customers',
    'payments',
    'payments/x/capture',
    'payments/x/cancel',
    'payments/x/refunds',
  ]) {
    for (const value of values) {
      const fields = [
        'amount_minor',
        'currency',
        'method',
        'name',
        'reason',
        'metadata',
        'idempotency_key',
        'nope',
      ]
      const bodies = [value, ...fields.map((field) => ({ [field]: value }))]
      for (const body of bodies) add(await client.post(`/v1/${path}`, body))
    }
  }
  for (const query of [
    'limit',
    'before',
    'status',
    'currency',
    'amount_min',
    'metadata',
    'metadata[a]',
    '',
    '[]',
    'a[b]',
  ])
    for (const value of ['', 'x', '-1', '[object Object]'])
      add(await client.get(`/v1/payments?${query}=${encodeURIComponent(value)}`))
  const wrong = reported.filter((text) =>
    /undefined|null|NaN|\$\{|\[object|Invalid input|expected|received|: ?"[.: ]|Too /.test(text),
  )
  expect(wrong).toEqual([])
})

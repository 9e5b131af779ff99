// Tests idempotency keys: a repeated request has one effect and the same response.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished } from 'vitest'
import { fingerprint } from '#api/fingerprint.ts'
import { startApi } from '#api/main.ts'
import { createAddressHash } from '#core/addresses.ts'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { createClient, freshKey, type Answer } from '#test/client.ts'
import { createKey } from '#test/environment.ts'
import { capturedPayment, fault, refund } from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn()

const payment = { amount_minor: 1000, currency: 'USD', method: 'card', payment_method: 'pm_card_visa' }

async function count(
  world: World,
  table: 'customers' | 'payments' | 'refunds',
  key: string,
): Promise<number> {
  const [row] = await world.sql<{ n: number }[]>`
    select count(*)::int as n from ${world.sql(table)} where tenant_id = ${world.tenant_id} and idempotency_key = ${key}`
  return row!.n
}

function replayed({ headers }: Answer): boolean {
  return headers.get('idempotent-replayed') === 'true'
}

test('a replay answers 201 with the bytes of the first response', async ({ world }) => {
  const body = {
    idempotency_key: freshKey(),
    name: 'Ada',
    metadata: { z: [1.5, null, 'ü'], a: { c: 1, b: 2 } },
  }
  const first = await world.client.post('/v1/customers', body)
  expect([first.status, replayed(first)]).toEqual([201, false])
  const reordered = {
    metadata: body.metadata,
    name: 'Ada',
    email: null,
    idempotency_key: body.idempotency_key,
  }
  for (const again of [body, reordered]) {
    const second = await world.client.post('/v1/customers', again)
    expect([second.status, second.text, replayed(second)]).toEqual([201, first.text, true])
  }
  expect(await count(world, 'customers', body.idempotency_key)).toBe(1)
})

test('a replay in the same process does not run the statement that accepts the request', async ({
  world,
}) => {
  const statementCount = async (step: string) => {
    const { values } = await metrics.statement.get()
    const ofStep = ({ metricName, labels }: (typeof values)[number]) =>
      metricName === 'sluice_statement_seconds_count' && labels['step'] === step
    return values.find(ofStep)?.value
  }
  for (const [path, step, body] of [
    ['/v1/customers', 'create_customer', { idempotency_key: freshKey(), name: 'Ada' }],
    ['/v1/payments', 'create_payment', { idempotency_key: freshKey(), ...payment }],
  ] as const) {
    await world.client.post(path, body)
    const before = await statementCount(step)
    expect(before).toBeGreaterThan(0)
    expect(replayed(await world.client.post(path, body))).toBe(true)
    expect([step, await statementCount(step)]).toEqual([step, before])
  }
})

test('another process replays the requests for customers and payments, and refuses their keys with other content', async ({
  world,
}) => {
  const { secret } = await createKey(world.sql, 'acme')
  const api = await startApi({ ...world.config, API_PORT: 0 }, createLog('silent', 'test'))
  onTestFinished(() => api.close())
  const other = createClient(api.url, secret)
  for (const [path, body] of [
    ['/v1/customers', { idempotency_key: freshKey(), name: 'Ada' }],
    ['/v1/payments', { idempotency_key: freshKey(), ...payment }],
  ] as const) {
    const first = await world.client.post(path, body)
    for (let iteration = 0; iteration < 2; iteration++) {
      const second = await other.post(path, body)
      expect([second.status, second.body, replayed(second)]).toEqual([201, first.body, true])
      const refused = await other.post(path, { ...body, metadata: { other: iteration } })
      expect([refused.status, refused.body.error.code]).toEqual([422, 'idempotency_key_reused'])
    }
  }
})

test('a replay returns the current resource', async ({ world }) => {
  const body = { idempotency_key: freshKey(), name: 'Ada' }
  const { id } = (await world.client.post('/v1/customers', body)).body
  await world.client.patch(`/v1/customers/${id}`, { name: 'Ada L.' })
  const changed = await world.client.post('/v1/customers', body)
  expect([changed.status, changed.body.name, replayed(changed)]).toEqual([201, 'Ada L.', true])
  await world.client.delete(`/v1/customers/${id}`)
  const deleted = await world.client.post('/v1/customers', body)
  expect(deleted.body).toMatchObject({ id, name: null, deleted_at: expect.any(String) })
})

test('a repeated key with other content is refused and changes nothing', async ({ world }) => {
  const body = { idempotency_key: freshKey(), name: 'Ada', metadata: { a: 1 } }
  const first = await world.client.post('/v1/customers', body)
  for (const other of [
    { name: 'Bob' },
    { name: null },
    { email: 'x@example.com' },
    { metadata: { a: '1' } },
  ]) {
    const refused = await world.client.post('/v1/customers', { ...body, ...other })
    expect(refused.status).toBe(422)
    expect(refused.body.error).toMatchObject({ code: 'idempotency_key_reused', param: 'idempotency_key' })
  }
  expect((await world.client.get(`/v1/customers/${first.body.id}`)).body).toEqual(first.body)
})

test('the key in the header is sufficient, and a key in the body must be equal to the key in the header', async ({
  world,
}) => {
  const key = freshKey()
  const first = await world.client.post('/v1/customers', { name: 'Ada' }, { 'idempotency-key': key })
  expect([first.status, first.body.idempotency_key]).toEqual([201, key])
  const body = { name: 'Ada', idempotency_key: key }
  for (const again of [
    await world.client.post('/v1/customers', { name: 'Ada' }, { 'idempotency-key': key }),
    await world.client.post('/v1/customers', body),
    await world.client.post('/v1/customers', body, { 'idempotency-key': key }),
  ]) {
    expect([again.status, again.text, replayed(again)]).toEqual([201, first.text, true])
  }
  const differing = await world.client.post('/v1/customers', body, { 'idempotency-key': `${key}-other` })
  expect([differing.status, differing.body.error.param]).toEqual([400, 'idempotency_key'])
  const missing = await world.client.post('/v1/customers', { name: 'Ada' })
  expect([missing.status, missing.body.error.param]).toEqual([400, 'idempotency_key'])
})

test('a key has 1 to 255 visible characters, in the header and in the field', async ({ world }) => {
  for (const key of ['.', '..', '', ' ', 'a b', 'tab\there', 'a\u200bb', 'x'.repeat(256)]) {
    const refused = await world.client.post('/v1/customers', { idempotency_key: key })
    expect([key, refused.status, refused.body.error.param]).toEqual([key, 400, 'idempotency_key'])
  }
  const dot = await world.client.post('/v1/customers', { idempotency_key: '.' })
  expect(dot.body.error.message).toContain('must not be "." or ".."')
  for (const key of ['.', '".."', '""', '', 'a b', '"a b"', 'x'.repeat(256)]) {
    const refused = await world.client.post('/v1/customers', {}, { 'idempotency-key': key })
    expect([key, refused.status]).toEqual([key, 400])
  }
  for (const key of ['1', freshKey().padStart(255, 'x'), `ключ-${freshKey()}`, `💳-${freshKey()}`]) {
    const accepted = await world.client.post('/v1/customers', { idempotency_key: key })
    expect([accepted.status, accepted.body.idempotency_key]).toEqual([201, key])
    expect(
      (await world.client.get(`/v1/idempotency_keys/${encodeURIComponent(key)}`)).body[0].resource_id,
    ).toBe(accepted.body.id)
  }
})

test('quotes around a key, which the standard prescribes, are not part of the key', async ({ world }) => {
  const key = `${freshKey()}"\\`
  const quoted = `"${key.replaceAll(/["\\]/g, String.raw`\$&`)}"`
  const first = await world.client.post('/v1/customers', {}, { 'idempotency-key': quoted })
  expect([first.status, first.body.idempotency_key]).toEqual([201, key])
  const again = await world.client.post(
    '/v1/customers',
    { idempotency_key: key },
    { 'idempotency-key': quoted },
  )
  expect([again.status, replayed(again), again.body.id]).toEqual([201, true, first.body.id])
  const unclosed = `"${freshKey()}`
  const other = await world.client.post('/v1/customers', {}, { 'idempotency-key': unclosed })
  expect([other.status, other.body.idempotency_key]).toEqual([201, unclosed])
})

test('200 concurrent requests with one key create one customer and 199 replays', async ({ world }) => {
  const body = { idempotency_key: freshKey(), name: 'Ada' }
  const responses = await Promise.all(
    Array.from({ length: 200 }, () => world.client.post('/v1/customers', body)),
  )
  expect(new Set(responses.map(({ status, text }) => `${status} ${text}`)).size).toBe(1)
  expect(responses[0]!.status).toBe(201)
  expect(responses.filter(replayed)).toHaveLength(199)
  expect(await count(world, 'customers', body.idempotency_key)).toBe(1)
})

test('of 200 concurrent requests with one key and four different bodies, one body is accepted, and the other bodies are refused', async ({
  world,
}) => {
  const key = freshKey()
  const responses = await Promise.all(
    Array.from({ length: 200 }, (_, i) =>
      world.client.post('/v1/customers', { idempotency_key: key, name: `n${i % 4}` }),
    ),
  )
  const created = responses.find(({ status }) => status === 201)!.body
  const refused = responses.filter(({ status }) => status !== 201)
  for (const { status, body } of refused)
    expect([status, body.error.code]).toEqual([422, 'idempotency_key_reused'])
  for (const { status, body } of responses) expect(status === 201 ? body : created).toEqual(created)
  expect(responses.filter(({ status }) => status === 201)).toHaveLength(50)
  expect(await count(world, 'customers', key)).toBe(1)
})

test('200 concurrent requests with one key create one payment at the processor and return its outcome', async ({
  world,
}) => {
  const body = { ...payment, idempotency_key: freshKey() }
  const responses = await Promise.all(
    Array.from({ length: 200 }, () => world.client.post('/v1/payments', body)),
  )
  for (const response of responses)
    expect([response.status, response.body.status]).toEqual([201, 'authorized'])
  expect(new Set(responses.map((response) => response.body.id)).size).toBe(1)
  expect(responses.filter(replayed)).toHaveLength(199)
  expect(await count(world, 'payments', body.idempotency_key)).toBe(1)
  const of_payment = { 'metadata[sluice_payment_id]': responses[0]!.body.id }
  const effects = await world.provider('stripe').effects(of_payment)
  expect(effects.map(({ effect }: { effect: string }) => effect)).toEqual(['authorize'])
})

test('a replay during the first request waits for the outcome of the first request, or answers 202', async ({
  world,
}) => {
  const hold = await fault(world, {
    match: { method: 'POST', path: '^/v1/payment_intents$' },
    fault: 'hold',
  })
  const body = { ...payment, idempotency_key: freshKey() }
  const first = world.client.post('/v1/payments', body)
  await hold.hit()
  const immediate = await world.client.post('/v1/payments', body, { prefer: 'respond-async' })
  expect([immediate.status, immediate.body.status, replayed(immediate)]).toEqual([202, 'pending', true])
  expect(immediate.headers.get('location')).toBe(`/v1/payments/${immediate.body.id}`)
  const requests = await world.client.get(`/v1/idempotency_keys/${body.idempotency_key}`)
  expect(requests.body[0].status).toBe('under_way')
  const waiting = world.client.post('/v1/payments', body)
  await hold.remove()
  const responses = await Promise.all([first, waiting])
  expect(responses.map((response) => [response.status, response.body.status])).toEqual([
    [201, 'authorized'],
    [201, 'authorized'],
  ])
  expect(responses.map(replayed)).toEqual([false, true])
})

test('a replay of a declined payment returns the decline without a request to the processor', async ({
  world,
}) => {
  const body = { ...payment, payment_method: 'pm_card_chargeDeclined', idempotency_key: freshKey() }
  const first = await world.client.post('/v1/payments', body)
  expect([first.status, first.body.error.code]).toEqual([402, 'payment_declined'])
  const requestCount = async () => (await world.provider('stripe').requests({ method: 'POST' })).length
  const before = await requestCount()
  const second = await world.client.post('/v1/payments', body)
  expect(second.status).toBe(402)
  expect({ ...second.body.error, request_id: '' }).toEqual({ ...first.body.error, request_id: '' })
  expect(await requestCount()).toBe(before)
  expect((await world.client.get(`/v1/idempotency_keys/${body.idempotency_key}`)).body[0].status).toBe(
    'failed',
  )
})

test('a refused request leaves its key unused', async ({ world }) => {
  const idempotency_key = freshKey()
  for (const invalid of [{ name: 1 }, { nope: true }, { name: 'x'.repeat(257) }])
    expect((await world.client.post('/v1/customers', { idempotency_key, ...invalid })).status).toBe(400)
  const unknown = { ...payment, customer_id: '0198f6f0-0000-7000-8000-000000000000', idempotency_key }
  expect((await world.client.post('/v1/payments', unknown)).body.error.code).toBe('customer_not_found')
  expect((await world.client.get(`/v1/idempotency_keys/${idempotency_key}`)).status).toBe(404)
  expect((await world.client.post('/v1/customers', { idempotency_key, name: 'Ada' })).status).toBe(201)
  expect((await world.client.post('/v1/payments', { ...payment, idempotency_key })).status).toBe(201)
})

test('the same key is independent on another route, for another payment and for another tenant', async ({
  world,
}) => {
  const idempotency_key = freshKey()
  const customer = await world.client.post('/v1/customers', { idempotency_key })
  const one = await world.client.post('/v1/payments', { ...payment, idempotency_key })
  const two = await world.client.post('/v1/payments', { ...payment, idempotency_key: freshKey() })
  const captures = []
  for (const { body } of [one, two])
    captures.push(await world.client.post(`/v1/payments/${body.id}/capture`, { idempotency_key }))
  const refund = await world.client.post(`/v1/payments/${one.body.id}/refunds`, {
    idempotency_key,
    amount_minor: 100,
  })
  for (const response of [customer, one, ...captures, refund]) expect(replayed(response)).toBe(false)
  expect(captures.map((response) => [response.status, response.body.status])).toEqual([
    [200, 'captured'],
    [200, 'captured'],
  ])
  expect(refund.status).toBe(201)

  const again = await world.client.post(`/v1/payments/${one.body.id}/capture`, { idempotency_key })
  expect([again.status, again.body.status, replayed(again)]).toEqual([200, 'captured', true])

  const other = await world.clientOf()
  const of_other_tenant = await other.post('/v1/customers', { idempotency_key, name: 'Eve' })
  expect([of_other_tenant.status, replayed(of_other_tenant)]).toEqual([201, false])
  expect((await other.get(`/v1/idempotency_keys/${idempotency_key}`)).body).toHaveLength(1)

  const requests = await world.client.get(`/v1/idempotency_keys/${idempotency_key}`)
  expect(requests.status).toBe(200)
  expect(
    requests.body.map(({ route, resource, resource_id, status }: any) => [
      route,
      resource,
      resource_id,
      status,
    ]),
  ).toEqual([
    ['POST /v1/payments/:id/refunds', 'refund', refund.body.id, 'finished'],
    ['POST /v1/payments/:id/capture', 'payment', two.body.id, 'finished'],
    ['POST /v1/payments/:id/capture', 'payment', one.body.id, 'finished'],
    ['POST /v1/payments', 'payment', one.body.id, 'finished'],
    ['POST /v1/customers', 'customer', customer.body.id, 'finished'],
  ])
  expect((await world.client.get('/v1/idempotency_keys/nobody-sent-this')).body.error.code).toBe(
    'idempotency_key_not_found',
  )
})

test('the requests of a key are paginated, and requests of the same moment are on the same page', async ({
  world,
}) => {
  const key = freshKey()
  const insertRequests = (count: number, age: string) => world.sql`
    insert into idempotency_keys (tenant_id, key, scope, fingerprint, resource, resource_id, created_at)
    select ${world.tenant_id}, ${key}, 'POST /v1/payments/:id/capture ' || id, '', 'payment', id, now() - ${age}::interval
    from (select gen_random_uuid() as id from generate_series(1, ${count})) ids`
  for (const [count, age] of [
    [1, '3 s'],
    [2, '2 s'],
    [1, '1 s'],
  ] as const)
    await insertRequests(count, age)
  const pages: number[] = []
  const ids = new Set<string>()
  for (let path: string | undefined = `/v1/idempotency_keys/${key}?limit=1`; path !== undefined;) {
    const { status, body, headers } = await world.client.get(path)
    expect(status).toBe(200)
    pages.push(body.length)
    for (const { resource_id } of body) ids.add(resource_id)
    path = /^<(.+)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1]
  }
  expect([pages, ids.size]).toEqual([[1, 2, 1, 0], 4])
  for (let n = 1; n <= 30; n++) await insertRequests(1, `${n} min`)
  const default_page = await world.client.get(`/v1/idempotency_keys/${key}`)
  expect([default_page.body.length, default_page.headers.get('link')]).toEqual([
    25,
    expect.stringContaining('before='),
  ])
  expect((await world.client.get(`/v1/idempotency_keys/${key}?limit=101`)).body.error.param).toBe('limit')
})

test('a key older than 30 days is deleted, and its reuse is refused', async ({ world }) => {
  const customer = { idempotency_key: freshKey(), name: 'Ada' }
  const charge = { ...payment, idempotency_key: freshKey() }
  await world.client.post('/v1/customers', customer)
  await world.client.post('/v1/payments', charge)
  await world.sql`
    update idempotency_keys set created_at = created_at - interval '31 days'
    where tenant_id = ${world.tenant_id} and key in (${customer.idempotency_key}, ${charge.idempotency_key})`
  const { deleteOldKeys } = await import('#domain/idempotency.ts')
  expect(await deleteOldKeys(world.sql, 100)).toBe(2)
  for (const [path, body] of [
    ['/v1/customers', customer],
    ['/v1/payments', charge],
  ] as const) {
    const refused = await world.client.post(path, body)
    expect([refused.status, refused.body.error.code]).toEqual([422, 'idempotency_key_reused'])
    expect(refused.body.error.message).toContain('30 days')
  }
  expect(await count(world, 'customers', customer.idempotency_key)).toBe(1)
  expect(await count(world, 'payments', charge.idempotency_key)).toBe(1)
})

test('the request of a disconnected client finishes, and its key returns the outcome', async ({ world }) => {
  const hold = await fault(world, {
    match: { method: 'POST', path: '^/v1/payment_intents$' },
    fault: 'hold',
  })
  const body = { ...payment, idempotency_key: freshKey() }
  const disconnect = new AbortController()
  const disconnected = fetch(`${world.client.url}/v1/payments`, {
    method: 'POST',
    headers: { authorization: `Bearer ${world.client.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: disconnect.signal,
  }).catch(() => 'disconnected')
  await hold.hit()
  disconnect.abort()
  expect(await disconnected).toBe('disconnected')
  await hold.remove()
  for (;;) {
    const requests = (await world.client.get(`/v1/idempotency_keys/${body.idempotency_key}`)).body
    if (requests[0].status === 'finished') break
    await sleep(20)
  }
  const response = await world.client.post('/v1/payments', body)
  expect([response.status, response.body.status, replayed(response)]).toEqual([201, 'authorized', true])
})

test('a null field equals an absent field, and the order of fields does not matter', async ({ world }) => {
  const { id } = await capturedPayment(world.client)
  const idempotency_key = freshKey()
  const first = await refund(world.client, id, {
    idempotency_key,
    amount_minor: 10,
    metadata: { a: { b: 1, c: [2] }, d: 3 },
  })
  expect(first.status).toBe(201)
  const metadata = { d: 3, a: { c: [2], b: 1 } }
  for (const reason of [undefined, null]) {
    const again = await refund(world.client, id, { metadata, reason, amount_minor: 10, idempotency_key })
    expect([again.status, replayed(again)]).toEqual([201, true])
  }
  const different_contents = [
    { reason: 'duplicate' },
    { metadata: null },
    {
      metadata: {
        ...metadata,
        a: [
          ['b', 1],
          ['c', [2]],
        ],
      },
    },
  ]
  for (const other of different_contents) {
    const refused = await refund(world.client, id, { metadata, amount_minor: 10, idempotency_key, ...other })
    expect(refused.body.error.code).toBe('idempotency_key_reused')
  }
  const authorized = await world.client.post('/v1/payments', { ...payment, idempotency_key: freshKey() })
  const key = { idempotency_key: freshKey() }
  const path = `/v1/payments/${authorized.body.id}/cancel`
  const canceled = [
    await world.client.post(path, { ...key, reason: null }),
    await world.client.post(path, key),
  ]
  expect(canceled.map(({ status }) => status)).toEqual([200, 200])
})

test('the stored fingerprint of a request is keyed, so that no personal data can be guessed from it', async ({
  world,
}) => {
  const key = freshKey()
  const content = { phone: '+4915112345678' }
  await world.client.post('/v1/customers', { ...content, idempotency_key: key })
  const [stored] = await world.sql`select fingerprint from idempotency_keys where key = ${key}`
  const plain = fingerprint({ ...content, metadata: {} })
  expect(stored!['fingerprint']).not.toBe(plain)
  expect(stored!['fingerprint']).toBe(createAddressHash(world.env['ADDRESS_KEY']!)('request', plain))
})

test('a replay does not roll back other requests that are accepted in the same batch', async ({ world }) => {
  const { id: captured } = await capturedPayment(world.client, { amount_minor: 5000 })
  const creates: [path: string, body: Record<string, unknown>][] = [
    ['/v1/customers', { name: 'Ada' }],
    ['/v1/payments', payment],
    [`/v1/payments/${captured}/refunds`, { amount_minor: 10 }],
  ]
  for (const [path, body] of creates) {
    const existing_keys = Array.from({ length: 20 }, () => freshKey())
    const send = (idempotency_key: string) =>
      world.client.post(path, { ...body, idempotency_key }, { prefer: 'respond-async' })
    for (const response of await Promise.all(existing_keys.map(send)))
      expect(response.status).toBeLessThan(300)
    const before = await sequenceValue(world)
    const responses = await Promise.all(existing_keys.flatMap((key) => [send(key), send(freshKey())]))
    expect(responses.map(replayed)).toEqual(existing_keys.flatMap(() => [true, false]))
    // An insert that is rolled back also uses a value of this sequence. Only the new keys were inserted, each once.
    expect([path, ((await sequenceValue(world)) - before + 1000) % 1000]).toEqual([
      path,
      existing_keys.length,
    ])
  }
  await world.drain()
})

async function sequenceValue(world: World): Promise<number> {
  const [row] = await world.sql<{ last_value: number }[]>`select last_value from created_at_microseconds`
  return row!.last_value
}

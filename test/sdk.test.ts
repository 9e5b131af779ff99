// Tests the SDK against a complete system and against faulty servers.
import { readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, vi } from 'vitest'
import { newWebhookSecret, signStandardWebhook } from '#core/standard-webhooks.ts'
import {
  Sluice,
  SluiceConnectionError,
  SluiceError,
  SluiceSignatureError,
  SluiceTimeoutError,
  verifyWebhook,
  type FeedEvent,
  type SluiceOptions,
  type WebhookHeaders,
} from '#sdk/index.ts'
import { BY_CARD } from '#test/client.ts'
import { eventually } from '#test/payments.ts'
import { startProxy } from '#test/proxy.ts'
import { httpAnswer, openReceiver, type TestReceiver } from '#test/receiver.ts'
import { GENERATED, sdkSources } from '#test/sdk-sources.ts'
import { testIn, type World } from '#test/world.ts'

const ROOT = join(import.meta.dirname, '..')
const JSON_TYPE = { 'content-type': 'application/json' }

let sluice: Sluice
const test = testIn({ env: { WEBHOOKS_ALLOW_CIDRS: '127.0.0.0/8' } })
test.beforeAll(async ({ world }) => {
  sluice = clientAt(world, world.client.url)
})

function clientAt(world: World, base_url: string, options: Partial<SluiceOptions> = {}): Sluice {
  return new Sluice({ api_key: world.client.key, base_url, ...options })
}

/** The error of a rejected promise. */
async function errorOf(promise: PromiseLike<unknown>): Promise<SluiceError> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof SluiceError)) throw new Error(`No error of the SDK: ${String(error)}`)
  return error
}

/** A server with one prepared response per request. The last response repeats. */
async function serverWith(
  world: World,
  ...responses: string[]
): Promise<{ client: Sluice; server: TestReceiver }> {
  const server = await openReceiver((socket) => {
    socket.write(responses[Math.min(server.requests.length, responses.length) - 1]!)
  })
  onTestFinished(() => server.close())
  return { client: clientAt(world, `http://127.0.0.1:${server.port}`), server }
}

function headersIn(request: string): Headers {
  const [head] = request.split('\r\n\r\n')
  return new Headers(
    head!
      .split('\r\n')
      .slice(1)
      .map((line) => line.split(': ') as [string, string]),
  )
}

const refusal = (code: string) => JSON.stringify({ error: { code, message: 'No.', request_id: 'req-1' } })

test('the committed SDK equals the generated SDK (otherwise run `npm run sdk`)', async () => {
  const generated = await sdkSources()
  const files: string[] = []
  for (const folder of Object.values(GENERATED))
    for (const name of await readdir(join(ROOT, folder), { recursive: true }))
      if (name.endsWith('.ts')) files.push(`${folder}/${name}`)
  expect(files.toSorted()).toEqual([...generated.keys()].toSorted())
  for (const [name, text] of generated)
    expect([name, await readFile(join(ROOT, name), 'utf8')]).toEqual([name, text])
})

test('a payment is authorized, captured and refunded, and the error of a refusal has the reason', async () => {
  const customer = await sluice.customers.create({ name: 'Ada', metadata: { plan: 'pro' } })
  expect(await sluice.customers.retrieve(customer.id)).toEqual(customer)
  const payment = await sluice.payments.create({ amount_minor: 1000, customer_id: customer.id, ...BY_CARD })
  expect(payment.status).toBe('authorized')
  const captured = await sluice.payments.capture(payment.id, { amount_minor: 700 })
  expect([captured.status, captured.amount_captured_minor]).toEqual(['captured', 700])
  const refund = await sluice.refunds.create(payment.id, { amount_minor: 200 })
  expect(await sluice.refunds.list(payment.id)).toEqual([refund])

  const error = await errorOf(sluice.payments.capture(payment.id))
  expect(error.code).toBe('payment_not_capturable')
  expect([error.status, error.name, error.context]).toMatchObject([
    409,
    'SluiceError',
    { status: 'captured' },
  ])
  expect(error.message).toContain(`(payment_not_capturable, 409, request ${error.request_id})`)
  // @ts-expect-error -- the type is number
  const invalid = await errorOf(sluice.payments.create({ ...BY_CARD, amount_minor: 'ten' }))
  expect([invalid.code, invalid.param]).toEqual(['invalid_request', 'amount_minor'])

  const fields = { idempotency_key: 'sdk-own-key', name: 'Ada' }
  const first = await sluice.customers.create(fields)
  const { data, response } = await sluice.customers.create(fields).withResponse()
  expect([data, response.headers.get('idempotent-replayed')]).toEqual([first, 'true'])
  const optional = { idempotency_key: 'sdk-optional-key' }
  expect((await sluice.customers.create({ name: 'Grace' }, optional)).idempotency_key).toBe(
    'sdk-optional-key',
  )
  const batch = await sluice.messages.sendSmsBatch({ messages: [{ to: '+14155552671', body: 'One' }] })
  expect(batch.map(({ status }) => status)).toEqual([202])
  const later = await sluice.payments
    .create({ amount_minor: 100, ...BY_CARD }, { prefer: 'respond-async' })
    .withResponse()
  expect([later.response.status, later.data.status]).toEqual([202, 'pending'])
  expect(() => sluice.payments.retrieve('..')).toThrow(TypeError)
})

test('an awaited list is one page, and a loop over a list reads all pages', async () => {
  const email = 'pages@example.com'
  const created = []
  for (let nth = 0; nth < 5; nth += 1) created.push(await sluice.customers.create({ email }))
  const newest = created.toReversed().map(({ id }) => id)

  const page = await sluice.customers.list({ email, limit: 2 })
  expect([page.map(({ id }) => id), page.has_more]).toEqual([newest.slice(0, 2), true])
  const last = await (await page.next())!.next()
  expect([last!.map(({ id }) => id), last!.has_more, await last!.next()]).toEqual([
    newest.slice(4),
    false,
    null,
  ])

  const iterated: string[] = []
  for await (const { id } of sluice.customers.list({ email, limit: 2 })) iterated.push(id)
  expect(iterated).toEqual(newest)
  expect(await sluice.payments.list({ metadata: { order: 'none' } })).toEqual([])
})

test('the feed is read to its end, and then followed until the abort signal', async () => {
  const mark = 'sdk-follow'
  const stop = new AbortController()
  const followed: FeedEvent[] = []
  const { id } = await sluice.customers.create({ external_id: mark })
  const following = (async () => {
    for await (const event of sluice.events.follow({ subject_id: id, signal: stop.signal })) {
      followed.push(event)
      // The loop waits for the next event before the event exists.
      if (event.type === 'customer.created') void sluice.customers.update(id, { name: 'Ada' })
      if (event.type === 'customer.updated') void sluice.customers.delete(id)
      if (event.type === 'customer.deleted') stop.abort()
    }
  })()
  await following
  expect(followed.map(({ type }) => type)).toEqual([
    'customer.created',
    'customer.updated',
    'customer.deleted',
  ])
  const read: FeedEvent[] = []
  for await (const event of sluice.events.list({ subject_id: id, limit: 2 })) read.push(event)
  expect(read.map(({ sequence }) => sequence)).toEqual(followed.map(({ sequence }) => sequence))
})

test('a request whose response is lost is retried with the same key and performed once', async ({
  world,
}) => {
  const proxy = await startProxy(world.client.url)
  onTestFinished(() => proxy.close())
  const external_id = 'sdk-lost-answer'
  proxy.withholdAnswersTo(external_id)
  const creating = clientAt(world, proxy.url).customers.create({ external_id }).withResponse()
  const [created] = await eventually(async () => {
    const found = await sluice.customers.list({ external_id })
    expect(found.length).toBe(1)
    return found
  })
  proxy.withholdAnswersTo()
  const { data, response } = await creating
  expect([data.id, response.headers.get('idempotent-replayed')]).toEqual([created!.id, 'true'])
  expect((await sluice.customers.list({ external_id })).length).toBe(1)
})

test('retries wait for Retry-After and use the same key and request id, and final responses are not retried', async ({
  world,
}) => {
  const busy = httpAnswer(503, refusal('overloaded'), { ...JSON_TYPE, 'retry-after': '1' })
  const { client, server } = await serverWith(world, busy, httpAnswer(201, '{"id":"1"}', JSON_TYPE))
  const started_at_ms = performance.now()
  expect(await client.customers.create({ name: 'Ada' })).toEqual({ id: '1' })
  expect(performance.now() - started_at_ms).toBeGreaterThanOrEqual(1000)
  for (const name of ['idempotency-key', 'x-request-id']) {
    const sent = new Set(server.requests.map((request) => headersIn(request).get(name)))
    expect([name, server.requests.length, sent.size, sent.has(null)]).toEqual([name, 2, 1, false])
  }

  // The target of a redirect receives neither the key nor the body.
  const redirect_target = await serverWith(world, httpAnswer(200, '{}', JSON_TYPE))
  const location = `http://localhost:${redirect_target.server.port}/v1/customers`
  for (const status of [301, 307]) {
    const redirecting = await serverWith(world, httpAnswer(status, '', { location }))
    const redirect_error = await errorOf(redirecting.client.customers.create({ name: 'Ada' }))
    expect([redirect_error.code, redirect_error.status, redirect_error.text]).toEqual([
      'unreadable_answer',
      status,
      expect.stringContaining(location),
    ])
    expect([redirecting.server.requests.length, redirect_target.server.requests.length]).toEqual([1, 0])
  }

  const long = await serverWith(
    world,
    httpAnswer(429, refusal('rate_limited'), { ...JSON_TYPE, 'retry-after': '61' }),
  )
  const limited = await errorOf(long.client.customers.list())
  expect([limited.code, limited.retry_after_s, long.server.requests.length]).toEqual(['rate_limited', 61, 1])
  for (const [status, body, code, attempts] of [
    [502, refusal('processor_error'), 'processor_error', 1],
    [500, refusal('internal_error'), 'internal_error', 3],
    [409, refusal('payout_not_failable'), 'payout_not_failable', 1],
    [504, '<html>Gateway', 'unreadable_answer', 3],
    [200, '<html>Welcome', 'unreadable_answer', 1],
  ] as const) {
    const failing = await serverWith(world, httpAnswer(status, body, JSON_TYPE))
    const error = await errorOf(failing.client.payouts.fail('1', { reason: 'x' }))
    expect([error.code, error.status, failing.server.requests.length]).toEqual([code, status, attempts])
    expect(error.request_id).not.toBeNull()
  }
})

test('maybe_done is true after a lost response, even if a retry is refused', async ({ world }) => {
  const without_delay = { ...JSON_TYPE, 'retry-after': '0' }
  const lost = httpAnswer(504, '<html>Gateway', without_delay)
  const maybeDone = async (...responses: string[]) => {
    const { client } = await serverWith(world, ...responses)
    return (await errorOf(client.refunds.create('1', { amount_minor: 400 }))).maybe_done
  }
  for (const [status, body, alone] of [
    [401, refusal('unauthorized'), false],
    [403, refusal('forbidden'), false],
    [409, refusal('conflict'), false],
    [429, refusal('rate_limited'), false],
    [502, refusal('processor_error'), false],
    [500, refusal('internal_error'), true],
    [302, '', false],
    [200, '<html>Welcome', true],
  ] as const) {
    const response = httpAnswer(status, body, without_delay)
    const flags = await Promise.all([maybeDone(response), maybeDone(lost, response)])
    expect([status, ...flags]).toEqual([status, alone, true])
  }
  const unresponsive = await openReceiver((socket) => socket.destroy())
  onTestFinished(() => unresponsive.close())
  const unanswered = clientAt(world, `http://127.0.0.1:${unresponsive.port}`, { max_retries: 0 })
  expect((await errorOf(unanswered.refunds.create('1', {}))).maybe_done).toBe(true)
})

test('a DELETE whose response is lost succeeds if its retry gets a 404, and a 404 to the first request is an error', async ({
  world,
}) => {
  const gone = httpAnswer(404, refusal('customer_not_found'), JSON_TYPE)
  const lost = httpAnswer(504, '<html>Gateway', JSON_TYPE)
  const { client, server } = await serverWith(world, lost, gone)
  expect([await client.customers.delete('1'), server.requests.length]).toEqual([{ id: '1' }, 2])
  const missing = await serverWith(world, gone)
  expect((await errorOf(missing.client.customers.delete('1'))).code).toBe('customer_not_found')
})

test('a missing response is an error with the request id, and an aborted request rejects with the reason of the abort', async ({
  world,
}) => {
  const arrivals = Promise.withResolvers<void>()
  const silent = await openReceiver(() => arrivals.resolve())
  onTestFinished(() => silent.close())
  const base_url = `http://127.0.0.1:${silent.port}`
  const stop = new AbortController()
  void arrivals.promise.then(() => stop.abort('enough'))
  const listing = clientAt(world, base_url).customers.list({}, { signal: stop.signal })
  await expect(listing).rejects.toBe('enough')
  expect(silent.requests.length).toBe(1)

  const late = await errorOf(clientAt(world, base_url, { timeout_ms: 300, max_retries: 1 }).customers.list())
  expect([late instanceof SluiceTimeoutError, late.code, late.status]).toEqual([true, 'timed_out', null])
  const ids = silent.requests.slice(1).map((request) => headersIn(request).get('x-request-id'))
  expect(ids).toEqual([late.request_id, late.request_id])

  const gone = await openReceiver(() => {})
  await gone.close()
  const disconnected = clientAt(world, `http://127.0.0.1:${gone.port}`, { max_retries: 0 })
  const refused = await errorOf(disconnected.customers.list({ email: 'ada@example.com' }))
  expect([refused instanceof SluiceConnectionError, refused.code]).toEqual([true, 'connection_failed'])
  // The message does not contain the personal data in the query.
  expect(refused.message).not.toContain('ada@')
  expect(refused.message).toContain(`request ${refused.request_id}`)
})

test('in a browser page the SDK works with a relative base URL and without an API key', async () => {
  const requests: [string, Headers][] = []
  const page = new Sluice({
    base_url: '/api/',
    headers: { 'x-page': '1' },
    fetch: async (url, { headers }) => {
      requests.push([url, new Headers(headers)])
      return Response.json([])
    },
  })
  await page.payments.list({ status: 'captured', metadata: { order: 'A 1' } }, { headers: { 'x-more': '2' } })
  const [url, headers] = requests[0]!
  expect(url).toBe('/api/v1/payments?status=captured&metadata%5Border%5D=A%201')
  expect(['authorization', 'x-page', 'x-more'].map((name) => headers.get(name))).toEqual([null, '1', '2'])
})

test('a webhook that Sluice has signed is accepted, and any other webhook is refused', async () => {
  const receiver = await openReceiver((socket) => socket.write(httpAnswer(204)))
  onTestFinished(() => receiver.close())
  const url = `http://127.0.0.1:${receiver.port}/hook`
  const { id, secret } = await sluice.webhookEndpoints.create({ url, types: ['customer.created'] })
  const customer = await sluice.customers.create({ name: 'Zoë' })
  const [request] = await eventually(async () => {
    expect(receiver.requests.length).toBe(1)
    return receiver.requests
  })
  await sluice.webhookEndpoints.delete(id)
  const headers = headersIn(request!)
  const payload = Buffer.from(request!.split('\r\n\r\n')[1]!, 'latin1')

  const event = await verifyWebhook(payload, headers, secret!)
  expect([event.type, event.data]).toEqual(['customer.created', expect.objectContaining({ id: customer.id })])
  const plain = Object.fromEntries(headers)
  const upper = Object.fromEntries([...headers].map(([name, value]) => [name.toUpperCase(), [value]]))
  expect(await verifyWebhook(payload.toString(), plain, [newWebhookSecret(), secret!])).toEqual(event)
  expect(await verifyWebhook(payload, upper, secret!)).toEqual(event)

  const now_s = Math.floor(Date.now() / 1000)
  const signed = (timestamp_s: number, ...secrets: string[]) =>
    ({ ...signStandardWebhook({ id: 'evt', timestamp_s, body: payload }, secrets) }) as WebhookHeaders
  const rotated = signed(now_s - 295, newWebhookSecret(), secret!)
  expect(await verifyWebhook(payload, rotated, secret!)).toEqual(event)
  for (const [name, body, given_headers, key] of [
    ['another body', payload.toString().replace('Zoë', 'Zoe'), headers, secret!],
    ['another id', payload, { ...plain, 'webhook-id': 'other' }, secret!],
    ['another time', payload, { ...plain, 'webhook-timestamp': String(now_s + 9) }, secret!],
    ['another secret', payload, headers, newWebhookSecret()],
    ['no secret', payload, headers, ''],
    ['none of the secrets', payload, headers, []],
    ['no signature', payload, { ...plain, 'webhook-signature': undefined }, secret!],
    ['no base64', payload, { ...plain, 'webhook-signature': 'v1,%' }, secret!],
    ['301 s old', payload, signed(now_s - 301, secret!), secret!],
    ['305 s ahead', payload, signed(now_s + 305, secret!), secret!],
  ] as [string, string | Buffer, WebhookHeaders, string | string[]][]) {
    const error = await errorOf(verifyWebhook(body, given_headers, key))
    expect([name, error instanceof SluiceSignatureError]).toEqual([name, true])
  }
})

test('the verification of a webhook takes no longer with 4,000 signatures than with one', async () => {
  const sign = vi.spyOn(crypto.subtle, 'sign')
  const verify = vi.spyOn(crypto.subtle, 'verify')
  onTestFinished(() => void vi.restoreAllMocks())
  const many = Array<string>(4_000).fill('v1,').join(' ')
  const headers = (timestamp_s: number) => ({
    'webhook-id': 'evt',
    'webhook-timestamp': String(Math.floor(timestamp_s)),
    'webhook-signature': many,
  })
  const secrets = [newWebhookSecret(), newWebhookSecret()]
  await errorOf(verifyWebhook('{}', headers(Date.now() / 1000), secrets))
  expect([sign.mock.calls.length, verify.mock.calls.length]).toEqual([2, 0])
  // The signatures of an old webhook are not verified.
  await errorOf(verifyWebhook('{}', headers(1), secrets))
  expect(sign.mock.calls.length).toBe(2)
})

test('an API key is sent to no other host and appears in no error message', async () => {
  const base_url = 'https://api.example'
  const broken = () => new Sluice({ base_url, api_key: 'sk_live_demo_abc\ndef' })
  expect(broken).toThrow(/^The api_key (?!.*sk_live)/)
  const requests: string[] = []
  const client = new Sluice({
    base_url,
    api_key: 'sk_live_demo_abc',
    fetch: async (url) => {
      requests.push(url)
      return new Response('{}')
    },
  })
  for (const path of ['.evil.example/x', '@evil.example/x', ':pw@evil.example/x', '//evil.example/x'])
    await expect(Promise.resolve(client.request('GET', path))).rejects.toThrow(
      'The path must begin with exactly one slash',
    )
  expect(requests).toEqual([])
})

// Connections to a payment processor: the outcome of each fault and response, byte by byte.
import { execFile } from 'node:child_process'
import { createServer, type Socket } from 'node:net'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import type { Outcome } from '#core/outcome.ts'
import { stripeProcessor } from '#providers/stripe/payments.ts'
import { stripePayouts } from '#providers/stripe/payouts.ts'
import type { StripeOptions } from '#providers/stripe/client.ts'
import type { AuthorizeCall } from '#providers/payments.ts'

type Received = { line: string; headers: Record<string, string>; body: string }
type Script = (socket: Socket, received: Received) => void

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

/** A server that runs the script on the socket for each complete request. */
async function serve(script: Script): Promise<{ api_base: string; received: Received[] }> {
  const received: Received[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    let text = ''
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      const [head = '', ...rest] = text.split('\r\n\r\n')
      const [line = '', ...fields] = head.split('\r\n')
      const headers = Object.fromEntries(
        fields.map((field) => [
          field.slice(0, field.indexOf(':')).toLowerCase(),
          field.slice(field.indexOf(':') + 2),
        ]),
      )
      const body = rest.join('\r\n\r\n')
      if (rest.length === 0 || body.length < Number(headers['content-length'] ?? 0)) return
      text = ''
      const request = { line, headers, body }
      received.push(request)
      script(socket, request)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise((resolve) => server.close(resolve))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening')
  return { api_base: `http://127.0.0.1:${address.port}`, received }
}

function processor(api_base: string, options: Partial<StripeOptions> = {}) {
  const opened = stripeProcessor({ secret_key: 'sk_test_1', api_base, ...options })
  closing.push(() => opened.close())
  return opened
}

function http(status: number, body: string, headers: Record<string, string> = {}): string {
  const fields = {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    ...headers,
  }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} Whatever\r\n${lines.join('')}\r\n${body}`
}
const answer =
  (status: number, body: unknown, headers?: Record<string, string>): Script =>
  (socket) => {
    socket.write(http(status, typeof body === 'string' ? body : JSON.stringify(body), headers))
  }
const failure = (status: number, error: Record<string, unknown>, headers?: Record<string, string>): Script =>
  answer(status, { error: { message: 'Because.', ...error } }, headers)

const REQUEST: AuthorizeCall = {
  amount_minor: 1099,
  currency: 'EUR',
  description: 'Order 7 & more',
  payment_method: 'pm_card_visa',
  return_url: null,
  metadata: { sluice_payment_id: 'pay-1', sluice_tenant_id: 'ten-1' },
}
const INTENT = {
  id: 'pi_1',
  object: 'payment_intent',
  status: 'requires_capture',
  amount: 1099,
  amount_capturable: 1099,
  amount_received: 0,
  currency: 'eur',
  client_secret: 'pi_1_secret_2',
  cancellation_reason: null,
  last_payment_error: null,
  latest_charge: {
    id: 'ch_1',
    object: 'charge',
    payment_method_details: { card: { capture_before: 1_790_000_000 } },
  },
  metadata: { sluice_payment_id: 'pay-1' },
}
const REFUND = {
  id: 're_1',
  object: 'refund',
  status: 'succeeded',
  amount: 500,
  currency: 'eur',
  payment_intent: 'pi_1',
  failure_reason: null,
  metadata: { sluice_refund_id: 'ref-1' },
}

async function authorizeAgainst(script: Script, options: Partial<StripeOptions> = {}) {
  const { api_base, received } = await serve(script)
  const outcome = await processor(api_base, options).authorize(REQUEST, 'key-1')
  return { outcome, received }
}

const UNREADABLE: [string, Script][] = [
  ['200 with an empty object', answer(200, '{}')],
  ['200 with a string', answer(200, '"ok"')],
  ['200 with a number', answer(200, '1')],
  ['200 with null', answer(200, 'null')],
  ['200 with a list', answer(200, '[]')],
  ['200 without a body', answer(200, '')],
  ['200 with HTML', answer(200, '<html>Sign in to the airport</html>')],
  ['200 with a boolean as error', answer(200, { error: true })],
  ['200 with text as error', answer(200, { error: 'nope' })],
  ['204', (socket) => void socket.write('HTTP/1.1 204 No Content\r\n\r\n')],
  ['a redirect', answer(302, '', { location: 'http://127.0.0.1:1/' })],
  ['a redirect in JSON', answer(302, { message: 'over there' })],
  ['404 from a proxy', answer(404, { message: 'no Route matched' })],
  ['401 from a proxy', answer(401, { message: 'Unauthorized' })],
  ['429 from a proxy', answer(429, '<html>slow down</html>')],
  ['502 from a proxy', answer(502, { message: 'upstream' })],
  ['503 in HTML', answer(503, '<html>Back soon</html>', { 'content-type': 'text/html' })],
  ['404 with a complete payment', answer(404, INTENT)],
  ['500 in JSON', failure(500, { type: 'api_error' })],
  ['409 with an unknown code', failure(409, { type: 'api_error', code: 'something_else' })],
  ['400 with an unexpected type', failure(400, { type: 'api_error' })],
  ['the id of another kind of object', answer(200, { ...INTENT, id: 'ch_1' })],
  ['an id that is only a prefix', answer(200, { ...INTENT, id: 'pi_' })],
  ['another object', answer(200, { ...INTENT, object: 'charge' })],
  ['an unknown status', answer(200, { ...INTENT, status: 'requires_patience' })],
  ['an amount as text', answer(200, { ...INTENT, amount: '1099' })],
  ['a cut body', (socket) => socket.end(http(200, JSON.stringify(INTENT)).slice(0, -20))],
  [
    'a cut chunked body',
    (socket) => socket.end('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"id"\r\n'),
  ],
  [
    'a cut body without a length',
    (socket) => socket.end('HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"id":"pi_1",'),
  ],
  ['an end before the answer', (socket) => socket.end()],
  ['a reset before the answer', (socket) => socket.resetAndDestroy()],
  [
    'a reset after the headers',
    (socket) => socket.write(http(200, '{}').slice(0, -2), () => socket.resetAndDestroy()),
  ],
  ['bytes that are not HTTP', (socket) => socket.end('SSH-2.0-OpenSSH_9.9\r\n')],
  ['an answer without end', (socket) => flood(socket)],
]

function flood(socket: Socket): void {
  socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
  const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`
  const more = () => {
    while (socket.writable && socket.write(chunk));
  }
  socket.on('drain', more)
  more()
}

test.each(UNREADABLE)('a call with %s has an ambiguous outcome and is sent once', async (_name, script) => {
  const { outcome, received } = await authorizeAgainst(script)
  expect(outcome).toMatchObject({ kind: 'ambiguous', replayed: false })
  expect(received).toHaveLength(1)
})

test('a response that is not a JSON object is refused before the SDK reads it', async () => {
  for (const body of ['"ok"', '1', 'null', '[]', '', '<html>']) {
    const { outcome } = await authorizeAgainst(answer(200, body))
    expect(outcome).toMatchObject({ reason: 'unreadable answer: 200 without a JSON object' })
  }
})

test('a call without a response before the deadline has an ambiguous outcome', async () => {
  const { outcome, received } = await authorizeAgainst(() => {}, { deadline_ms: 1000 })
  expect(outcome).toEqual({
    kind: 'ambiguous',
    reason: 'no answer within 1000 ms',
    replayed: false,
    late: true,
  })
  expect(received).toHaveLength(1)
})

const drip: Script = (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n')
  const timer = setInterval(() => socket.write('{'), 20)
  socket.on('close', () => clearInterval(timer))
}

test('a response that arrives byte by byte is aborted at the deadline', async () => {
  const { outcome } = await authorizeAgainst(drip, { deadline_ms: 300 })
  expect(outcome).toMatchObject({ kind: 'ambiguous', reason: 'no answer within 300 ms' })
})

test('a stored 500 is recognized as a replay', async () => {
  const { outcome } = await authorizeAgainst(
    failure(500, { type: 'api_error' }, { 'Idempotent-Replayed': 'true' }),
  )
  expect(outcome).toMatchObject({ kind: 'ambiguous', replayed: true })
})

test('the refusal of a key in use has an ambiguous outcome, because an earlier request may have an effect', async () => {
  const error = { type: 'idempotency_error', code: 'idempotency_key_in_use' }
  const reason = '409 idempotency_error idempotency_key_in_use'
  const { outcome } = await authorizeAgainst(failure(409, error))
  expect(outcome).toEqual({ kind: 'ambiguous', reason, replayed: false })
  const with_retry_after = await authorizeAgainst(failure(409, error, { 'Retry-After': '7' }))
  expect(with_retry_after.outcome).toMatchObject({ kind: 'ambiguous', after_ms: 7000 })
})

test('a rate-limited call is retried after the requested delay, or after an hour if that delay is longer', async () => {
  const limited = await authorizeAgainst(
    failure(429, { type: 'invalid_request_error', code: 'rate_limit' }, { 'Retry-After': '7' }),
  )
  expect(limited.outcome).toMatchObject({ kind: 'retry', after_ms: 7000 })
  const too_long = await authorizeAgainst(
    failure(429, { type: 'api_error' }, { 'Retry-After': '99999999999' }),
  )
  expect(too_long.outcome).toMatchObject({ kind: 'retry', after_ms: 3_600_000 })
  const unreadable = await authorizeAgainst(failure(429, { type: 'api_error' }, { 'Retry-After': 'soon' }))
  expect(unreadable.outcome).toEqual({ kind: 'retry', reason: '429 api_error' })
  expect(limited.received).toHaveLength(1)
})

test('refused credentials lead to the outcome misconfigured, and the reason does not contain the credentials', async () => {
  for (const status of [401, 403]) {
    const { outcome } = await authorizeAgainst(
      failure(status, { type: 'invalid_request_error', message: 'Invalid API Key provided: sk_test_1' }),
    )
    expect(outcome).toEqual({ kind: 'misconfigured', reason: `${status} invalid_request_error` })
  }
})

test('a declined card leads to the outcome declined, with the message and code of the bank', async () => {
  const error = {
    type: 'card_error',
    code: 'card_declined',
    decline_code: 'insufficient_funds',
    payment_intent: INTENT,
  }
  const { outcome } = await authorizeAgainst(failure(402, error))
  expect(outcome).toEqual({
    kind: 'declined',
    failure: {
      code: 'payment_declined',
      message: 'Because.',
      processor_code: 'card_declined',
      decline_code: 'insufficient_funds',
    },
    reference: 'pi_1',
  })
})

test.each([
  [400, 'invalid_request_error', 'payment_intent_unexpected_state', 'payment_invalid'],
  [400, 'invalid_request_error', 'charge_already_refunded', 'payment_invalid'],
  [400, 'invalid_request_error', 'amount_too_small', 'payment_invalid'],
  [404, 'invalid_request_error', 'resource_missing', 'payment_invalid'],
  [400, 'idempotency_error', undefined, 'processor_error'],
])('the response %i %s %s is a final decline', async (status, type, code, expected) => {
  const { outcome } = await authorizeAgainst(failure(status, { type, code }))
  expect(outcome).toEqual({
    kind: 'declined',
    failure: { code: expected, message: 'Because.', processor_code: code ?? type },
  })
})

function authorizeOnce(api_base: string, options?: Partial<StripeOptions>) {
  return processor(api_base, options).authorize(REQUEST, 'key-1')
}

test('a call that is not sent leads to a retry', async () => {
  const silent = await serve(() => {})
  const noTls = silent.api_base.replace('http:', 'https:')
  expect(await authorizeOnce(noTls, { deadline_ms: 150 })).toEqual({
    kind: 'retry',
    reason: 'no answer within 150 ms',
  })
  for (const close of closing.splice(0)) await close()
  expect(await authorizeOnce(silent.api_base)).toEqual({ kind: 'retry', reason: 'not sent: ECONNREFUSED' })
  expect(await authorizeOnce('http://nowhere.invalid')).toEqual({
    kind: 'retry',
    reason: expect.stringMatching(/^not sent: (ENOTFOUND|EAI_AGAIN)/),
  })
  expect(silent.received).toHaveLength(0)
})

test('a call is neither lost nor repeated if the processor has closed the idle connection', async () => {
  const { api_base, received } = await serve((socket) => {
    socket.write(http(200, JSON.stringify(INTENT)), () => setTimeout(() => socket.end(), 5))
  })
  const stripe = processor(api_base)
  for (let n = 0; n < 20; n++) {
    const outcome = await stripe.authorize(REQUEST, `key-${n}`)
    expect(['done', 'ambiguous']).toContain(outcome.kind)
    await new Promise((resolve) => setTimeout(resolve, n % 10))
  }
  const keys = received.map((each) => each.headers['idempotency-key'])
  expect(new Set(keys).size).toBe(keys.length)
})

const run = (code: string) =>
  promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
    cwd: `${import.meta.dirname}/..`,
  })

test("a response that is a JSON string ends a process with the bare SDK, but not a process with Sluice's client", async () => {
  const { api_base } = await serve(answer(200, '"ok"'))
  const with_client = await run(`
    const { stripeProcessor } = await import('./src/providers/stripe/payments.ts')
    const outcome = await stripeProcessor({ secret_key: 'sk_test_1', api_base: '${api_base}' }).findPayment('pi_1')
    console.log(outcome.kind)
    process.exit()`)
  expect(with_client.stdout.trim()).toBe('ambiguous')
  const with_sdk = run(`
    const { Stripe } = await import('stripe')
    const stripe = new Stripe('sk_test_1', { host: '127.0.0.1', port: ${new URL(api_base).port}, protocol: 'http' })
    await stripe.paymentIntents.retrieve('pi_1').catch(() => console.log('caught'))`)
  await expect(with_sdk).rejects.toMatchObject({ code: 1, stdout: '' })
})

test("an authorization returns its amount and deadline, and the buyer's secret only while the buyer must act", async () => {
  const authorized = await authorizeAgainst(answer(200, INTENT))
  expect(authorized.outcome).toEqual({
    kind: 'done',
    value: {
      reference: 'pi_1',
      status: 'authorized',
      amount_minor: 1099,
      amount_capturable_minor: 1099,
      amount_captured_minor: 0,
      amount_refunded_minor: 0,
      currency: 'EUR',
      client_secret: null,
      capture_before: '2026-09-21T14:13:20.000Z',
      authorized_at: null,
      description: null,
      cancellation_reason: null,
      failure: null,
      metadata: { sluice_payment_id: 'pay-1' },
    },
  })
  const last_payment_error = {
    type: 'card_error',
    code: 'card_declined',
    decline_code: 'fraudulent',
    message: 'No.',
  }
  const waiting = await authorizeAgainst(
    answer(200, { ...INTENT, status: 'requires_payment_method', latest_charge: null, last_payment_error }),
  )
  expect(waiting.outcome).toMatchObject({
    kind: 'done',
    value: {
      status: 'requires_action',
      client_secret: 'pi_1_secret_2',
      capture_before: null,
      failure: { code: 'card_declined', decline_code: 'fraudulent', message: 'No.' },
    },
  })
})

test('a repeated request with the same key has the same bytes', async () => {
  const { api_base, received } = await serve(answer(200, INTENT))
  const stripe = processor(api_base)
  await stripe.authorize(REQUEST, 'key-1')
  await stripe.authorize({ ...REQUEST, metadata: { ...REQUEST.metadata } }, 'key-1')
  expect(received[1]).toEqual(received[0])
  expect(received[0]!.line).toBe('POST /v1/payment_intents HTTP/1.1')
  expect(received[0]!.headers).toMatchObject({
    'idempotency-key': 'key-1',
    authorization: 'Bearer sk_test_1',
  })
  expect(Object.fromEntries(new URLSearchParams(received[0]!.body))).toEqual({
    amount: '1099',
    currency: 'eur',
    capture_method: 'manual',
    description: 'Order 7 & more',
    payment_method: 'pm_card_visa',
    confirm: 'true',
    'automatic_payment_methods[enabled]': 'true',
    'automatic_payment_methods[allow_redirects]': 'never',
    'metadata[sluice_payment_id]': 'pay-1',
    'metadata[sluice_tenant_id]': 'ten-1',
    'expand[0]': 'latest_charge',
  })
})

test('each writing call contains its key and its parameters', async () => {
  const { api_base, received } = await serve((socket, request) =>
    answer(200, request.line.includes('/refunds') ? REFUND : INTENT)(socket, request),
  )
  const stripe = processor(`${api_base}/some/path/`)
  await stripe.authorize({ ...REQUEST, return_url: 'https://shop.example/done' }, 'k1')
  await stripe.authorize({ ...REQUEST, payment_method: null, description: null }, 'k2')
  await stripe.capture({ reference: 'pi_1', amount_minor: 700 }, 'k3')
  await stripe.cancel({ reference: 'pi_1', reason: 'abandoned' }, 'k4')
  await stripe.cancel({ reference: 'pi_1', reason: 'out of stock' }, 'k5')
  const refund = await stripe.refund(
    {
      payment_reference: 'pi_1',
      amount_minor: 500,
      reason: 'duplicate',
      metadata: { sluice_refund_id: 'ref-1' },
    },
    'k6',
  )
  expect(refund).toMatchObject({
    kind: 'done',
    value: {
      reference: 're_1',
      payment_reference: 'pi_1',
      status: 'succeeded',
      amount_minor: 500,
      currency: 'EUR',
    },
  })
  expect(received.map((each) => each.headers['idempotency-key'])).toEqual([
    'k1',
    'k2',
    'k3',
    'k4',
    'k5',
    'k6',
  ])
  expect(received.map((each) => each.line.split(' ')[1]!.replace('/some/path/v1/', ''))).toEqual([
    'payment_intents',
    'payment_intents',
    'payment_intents/pi_1/capture',
    'payment_intents/pi_1/cancel',
    'payment_intents/pi_1/cancel',
    'refunds',
  ])
  const [redirecting, browser, capture, cancel, bare, refunding] = received.map(
    (each) => new URLSearchParams(each.body),
  )
  expect(redirecting!.get('return_url')).toBe('https://shop.example/done')
  expect(redirecting!.has('automatic_payment_methods[allow_redirects]')).toBe(false)
  expect(browser!.get('automatic_payment_methods[enabled]')).toBe('true')
  expect(['confirm', 'description', 'payment_method'].some((name) => browser!.has(name))).toBe(false)
  expect(capture!.get('amount_to_capture')).toBe('700')
  expect(cancel!.get('cancellation_reason')).toBe('abandoned')
  expect(bare!.has('cancellation_reason')).toBe(false)
  expect(Object.fromEntries(refunding!)).toEqual({
    payment_intent: 'pi_1',
    amount: '500',
    reason: 'duplicate',
    'metadata[sluice_refund_id]': 'ref-1',
  })
})

test('a writing call without a key is not sent', async () => {
  const { api_base, received } = await serve(answer(200, INTENT))
  expect(await processor(api_base).capture({ reference: 'pi_1', amount_minor: 1 }, '')).toMatchObject({
    kind: 'ambiguous',
  })
  expect(received).toHaveLength(0)
})

const find = async (script: Script): Promise<Outcome<unknown>> =>
  processor((await serve(script)).api_base).findPayment('pi_1')

test('a payment counts as missing only if the processor answers resource_missing', async () => {
  expect(await find(failure(404, { type: 'invalid_request_error', code: 'resource_missing' }))).toEqual({
    kind: 'done',
    value: null,
  })
  expect(await find(failure(404, { type: 'invalid_request_error' }))).toMatchObject({ kind: 'declined' })
  expect(await find(answer(404, { message: 'no Route matched' }))).toMatchObject({ kind: 'ambiguous' })
  expect(await find(answer(200, '{}'))).toMatchObject({ kind: 'ambiguous' })
  expect(await find(answer(200, { ...INTENT, id: 'pi_2' }))).toMatchObject({ kind: 'ambiguous' })
  expect(await find(answer(200, INTENT))).toMatchObject({ kind: 'done', value: { reference: 'pi_1' } })
})

const search = async (data: unknown): Promise<Outcome<unknown>> => {
  const { api_base, received } = await serve(answer(200, data))
  const outcome = await processor(api_base).searchPayment("pay-1'")
  expect(new URL(received[0]!.line.split(' ')[1]!, api_base).searchParams.get('query')).toBe(
    "metadata['sluice_payment_id']:'pay-1\\''",
  )
  return outcome
}

test('a search prefers the payment with the most progress; a response that is not a list has an ambiguous outcome', async () => {
  const metadata = { sluice_payment_id: "pay-1'" }
  const data = [
    { ...INTENT, id: 'pi_declined', status: 'requires_payment_method', metadata },
    { ...INTENT, id: 'pi_held', metadata },
    { ...INTENT, id: 'pi_foreign', status: 'succeeded' },
    { ...INTENT, id: 'pi_canceled', status: 'canceled', metadata },
  ]
  expect(await search({ object: 'search_result', data, has_more: false })).toMatchObject({
    kind: 'done',
    value: { reference: 'pi_held' },
  })
  expect(await search({ object: 'search_result', data: [], has_more: false })).toEqual({
    kind: 'done',
    value: null,
  })
  expect(await search({})).toMatchObject({ kind: 'ambiguous' })
})

const page = (id: string, refund_id: string, has_more: boolean) => ({
  object: 'list',
  has_more,
  data: [{ ...REFUND, id, metadata: { sluice_refund_id: refund_id } }],
})

test('the search for a refund reads every page, and all pages have one common deadline', async () => {
  const { api_base, received } = await serve((socket, request) => {
    answer(
      200,
      request.line.includes('starting_after=re_1')
        ? page('re_2', 'ref-2', false)
        : page('re_1', 'ref-1', true),
    )(socket, request)
  })
  expect(await processor(api_base).searchRefund('pi_1', 'ref-2')).toMatchObject({
    kind: 'done',
    value: { reference: 're_2' },
  })
  expect(received).toHaveLength(2)
  expect(await processor(api_base).searchRefund('pi_1', 'ref-3')).toEqual({ kind: 'done', value: null })

  const without_end = await serve(answer(200, page('re_1', 'ref-1', true)))
  expect(
    await processor(without_end.api_base, { deadline_ms: 200 }).searchRefund('pi_1', 'ref-3'),
  ).toMatchObject({ kind: 'ambiguous' })
})

test.each(['ba_1', 'acct_1'])('a payout to %s is found among unreadable records', async (destination) => {
  const transfer = destination === 'acct_1'
  const wanted = {
    id: transfer ? 'tr_2' : 'po_2',
    object: transfer ? 'transfer' : 'payout',
    status: 'paid',
    reversed: false,
    amount_reversed: 0,
    amount: 500,
    currency: 'usd',
    metadata: { sluice_payout_id: 'x' },
  }
  // A negative payout debits the bank account.
  const negative = { ...wanted, id: transfer ? 'tr_1' : 'po_1', amount: -700, automatic: true, metadata: {} }
  const { api_base, received } = await serve((socket, request) => {
    const last = request.line.includes(`starting_after=${negative.id}`)
    const data = last ? [{ ...negative, metadata: null }, wanted] : [negative]
    const date = new Date().toUTCString()
    answer(200, { object: 'list', has_more: !last, data }, { date })(socket, request)
  })
  const payouts = stripePayouts({ secret_key: 'sk_test_1', api_base })
  closing.push(() => payouts.close())
  const searchPayout = (payout_id: string) =>
    payouts.searchPayout({
      payout_id,
      destination,
      from_s: 0,
      to_s: Date.now() / 1000,
      now_s: Date.now() / 1000,
    })
  expect(await searchPayout('x')).toMatchObject({
    kind: 'done',
    value: { reference: wanted.id, amount_minor: 500 },
  })
  expect(received).toHaveLength(2)
  expect(await searchPayout('y')).toEqual({ kind: 'done', value: null })
})

test.each([
  [1_795_478_400, '2026-11-24'],
  [253_402_300_799, '9999-12-31'],
  [253_402_300_800, null],
  [Number.MAX_SAFE_INTEGER, null],
])('a payout with the arrival time %i has the arrival date %s', async (arrival_date, day) => {
  const payout = { id: 'po_1', object: 'payout', status: 'in_transit', amount: 5, currency: 'usd' }
  const { api_base } = await serve(answer(200, { ...payout, arrival_date }))
  const payouts = stripePayouts({ secret_key: 'sk_test_1', api_base })
  closing.push(() => payouts.close())
  expect(await payouts.findPayout('po_1')).toMatchObject({ kind: 'done', value: { arrival_date: day } })
})

test('every call is reported to onCall', async () => {
  const calls: unknown[] = []
  const { api_base } = await serve(answer(200, INTENT))
  const stripe = processor(api_base, { onCall: (call) => calls.push(call) })
  await stripe.authorize(REQUEST, 'key-1')
  await stripe.findRefund('re_1')
  expect(calls).toEqual([
    { operation: 'authorize', outcome: 'done', duration_ms: expect.any(Number) },
    { operation: 'find_refund', outcome: 'ambiguous', duration_ms: expect.any(Number) },
  ])
})

describe('a dispute', () => {
  const DISPUTE = {
    id: 'dp_1',
    object: 'dispute',
    amount: 1000,
    currency: 'eur',
    created: 1_790_000_000,
    reason: 'fraudulent',
    status: 'lost',
    payment_intent: 'pi_1',
    evidence_details: { due_by: 0 },
    balance_transactions: [],
  }
  const balanceTransaction = (id: string, amount: number, created: number, currency = 'eur') => ({
    id,
    object: 'balance_transaction',
    amount,
    created,
    currency,
    fee: 1500,
    net: amount - 1500,
  })
  const findDispute = async (changes: object) => {
    const { api_base } = await serve(answer(200, { ...DISPUTE, ...changes }))
    return await processor(api_base).findDispute('dp_1')
  }

  test.each([
    ['needs_response', 'needs_response', false],
    ['under_review', 'under_review', false],
    ['appeal_needs_response', 'needs_response', false],
    ['appeal_under_review', 'under_review', false],
    ['won', 'won', true],
    ['lost', 'lost', true],
    ['warning_needs_response', 'warning', false],
    ['warning_under_review', 'warning', false],
    ['warning_closed', 'warning', true],
    ['prevented', 'warning', true],
  ])("with the processor's status %s has the status %s", async (processor_status, status, closed) => {
    expect(await findDispute({ status: processor_status })).toMatchObject({
      kind: 'done',
      value: {
        reference: 'dp_1',
        status,
        closed,
        evidence_due_by: null,
        opened_at: '2026-09-21T14:13:20.000Z',
      },
    })
  })

  test('has its withdrawals and reinstatements, oldest first and without fees', async () => {
    const balance_transactions = [
      balanceTransaction('txn_2', 600, 20),
      balanceTransaction('txn_1', -1000, 10),
      balanceTransaction('txn_0', 0, 5),
    ]
    expect(
      await findDispute({ id: 'dp_1', balance_transactions, evidence_details: { due_by: 1_790_000_001 } }),
    ).toMatchObject({
      value: {
        evidence_due_by: '2026-09-21T14:13:21.000Z',
        movements: [
          { reference: 'txn_1', kind: 'dispute_withdrawn', amount_minor: 1000 },
          { reference: 'txn_2', kind: 'dispute_reinstated', amount_minor: 600 },
        ],
      },
    })
    // The currency of the account differs from the currency of the payment.
    expect(
      await findDispute({ balance_transactions: [balanceTransaction('txn_1', -1100, 10, 'usd')] }),
    ).toMatchObject({
      value: { movements: [{ kind: 'dispute_withdrawn', amount_minor: 1000 }] },
    })
  })

  test.each([
    ['with another object type', { object: 'charge' }],
    ['with another id', { id: 'dp_2' }],
    ['with the id of a refund', { id: 're_1' }],
    ['with an unknown status', { status: 'pondering' }],
    ['without balance transactions', { balance_transactions: null }],
    ['with an amount of 0', { amount: 0 }],
  ])('%s leads to an ambiguous outcome', async (_name, changes) => {
    expect(await findDispute(changes)).toMatchObject({ kind: 'ambiguous' })
  })
})

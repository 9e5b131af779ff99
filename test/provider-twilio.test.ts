// SMS by Twilio: the client with the emulator and with a server that sends raw bytes, and the emulator alone.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import { createServer as createRawServer, type AddressInfo, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import twilio from 'twilio/lib/webhooks/webhooks.js'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import { startTwilioEmulator, type TwilioEmulatorOptions } from '#emulators/twilio/main.ts'
import type { FinishedCall } from '#providers/http.ts'
import { NotStarted, permits } from '#providers/permit.ts'
import { verifyTwilio } from '#providers/signatures.ts'
import type { OutgoingSms, ReceivedSms, SmsProvider } from '#providers/sms.ts'
import { openTwilio, type TwilioOptions } from '#providers/twilio/client.ts'
import { twilioFailure } from '#providers/twilio/failures.ts'
import { listReceived } from '#providers/twilio/received.ts'
import { smsStatusOf } from '#providers/twilio/statuses.ts'
import { until } from '#test/process.ts'
import { handleOf, type Provider } from '#test/providers.ts'
import { postgresUrl } from '#test/suite.ts'

const ACCOUNT = `AC${'0'.repeat(32)}`
const TOKEN = 'twilio-emulator'
const SERVICE = `MG${'a'.repeat(32)}`
const FROM = '+15005550006'
const TO = '+15555550100'
const SMS: OutgoingSms = { from: FROM, to: TO, body: 'Hällo 🎉', validity_s: null, callback_url: null }

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => new Promise((closed) => server.close(closed)))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

type Posted = { path: string; params: Record<string, string>; signature: string }

/** Starts a receiver that stores the emulator's requests. */
async function startReceiver(): Promise<{ url: string; posted: Posted[] }> {
  const posted: Posted[] = []
  async function receive(request: IncomingMessage): Promise<void> {
    const params = Object.fromEntries(new URLSearchParams(await text(request)))
    posted.push({ path: request.url!, params, signature: String(request.headers['x-twilio-signature']) })
  }
  const server = createServer(
    (request, response) => void receive(request).then(() => response.end('<Response/>')),
  )
  closing.push(() => server.closeAllConnections())
  return { url: await listen(server), posted }
}

function open(api_base: string, options: Partial<TwilioOptions> = {}): SmsProvider {
  const provider = openTwilio({ account_sid: ACCOUNT, auth_token: TOKEN, api_base, ...options })
  closing.push(() => provider.close())
  return provider
}

async function startEmulator(options: Partial<TwilioEmulatorOptions> = {}): Promise<Provider> {
  const server = await startTwilioEmulator({ port: 0, api_key: TOKEN, pace_ms: 1, ...options })
  closing.push(() => server.close())
  return handleOf('twilio', { url: server.url })
}

let emulator: Provider
let provider: SmsProvider
let calls: FinishedCall[]
beforeEach(async () => {
  calls = []
  emulator = await startEmulator()
  provider = open(emulator.url, { onCall: (call) => calls.push(call) })
})

// The emulator's SMS to a number. The control API must accept the number with a plus that is not encoded as %2B.
const messages = async (to = TO) => await emulator.control('GET', `/messages?to=${to}`)

test('an SMS is sent once, and signed callbacks report its statuses in order', async () => {
  const { url, posted } = await startReceiver()
  const callback_url = `${url}/twilio?m=0198f6f6-2b1d-7000-8000-123456789abc`
  const sent = await provider.sendSms({ ...SMS, validity_s: 600, callback_url })
  expect(sent).toEqual({
    kind: 'done',
    value: {
      reference: expect.stringMatching(/^SM[0-9a-f]{32}$/),
      status: 'sending',
      provider_status: 'queued',
      failure: null,
      price: null,
    },
  })
  expect(calls).toEqual([{ operation: 'send_sms', outcome: 'done', duration_ms: expect.any(Number) }])
  const [{ sid }] = await messages()
  expect(sent).toMatchObject({ value: { reference: sid } })
  await until('both callbacks are received', () => posted.length === 2)
  expect(posted.map(({ params }) => [params['MessageSid'], params['MessageStatus']])).toEqual([
    [sid, 'sent'],
    [sid, 'delivered'],
  ])
  for (const { path, params, signature } of posted) {
    expect(url + path).toBe(callback_url)
    expect(verifyTwilio(callback_url, new URLSearchParams(params), signature, ['another', TOKEN])).toBe(
      'valid',
    )
    expect(twilio.validateRequest(TOKEN, signature, callback_url, params)).toBe(true)
    expect(verifyTwilio(`${callback_url}0`, new URLSearchParams(params), signature, [TOKEN])).toBe('mismatch')
  }
  expect(await messages()).toEqual([
    { sid, to: TO, from: FROM, body: SMS.body, status: 'delivered', created_at: expect.any(String) },
  ])
  expect(
    await emulator.effects({ 'metadata[message_id]': '0198f6f6-2b1d-7000-8000-123456789abc' }),
  ).toMatchObject([{ effect: 'message', sid }])
  expect(await provider.findSms(sid)).toEqual({
    kind: 'done',
    value: {
      reference: sid,
      status: 'delivered',
      provider_status: 'delivered',
      failure: null,
      price: { amount: '0.00790', currency: 'USD' },
    },
  })
})

test('a messaging service chooses the sender number, and the validity period is sent', async () => {
  expect(await provider.sendSms({ ...SMS, from: SERVICE })).toMatchObject({
    kind: 'done',
    value: { provider_status: 'accepted' },
  })
  await until('the SMS is delivered', async () => (await messages())[0].status === 'delivered')
  expect(await messages()).toMatchObject([{ from: FROM }])
  expect(await provider.sendSms({ ...SMS, validity_s: 36_001 })).toMatchObject({
    kind: 'declined',
    failure: { message: expect.stringContaining('ValidityPeriod') },
  })
})

test.each([
  ['+15005550001', 'invalid_number', '21211'],
  ['+15005550009', 'invalid_number', '21614'],
  ['+15005550004', 'opted_out', '21610'],
  ['+15005550002', 'unreachable', '21612'],
  ['+15005550003', 'provider_error', '21408'],
  ['+15005550500', 'provider_error', '20500'],
])('an SMS to %s is declined with %s', async (to, code, provider_code) => {
  const refused = await provider.sendSms({ ...SMS, to })
  expect(refused).toEqual({
    kind: 'declined',
    failure: { code, provider_code, message: expect.stringMatching(/^\D{10,}$/) },
  })
  expect(await emulator.effects()).toEqual([])
})

test('an SMS whose response is lost has an ambiguous outcome', async () => {
  const to = '+15005550599'
  expect(await provider.sendSms({ ...SMS, to })).toMatchObject({ kind: 'ambiguous' })
  expect(await messages(to)).toMatchObject([{ to }])
})

test.each([
  ['drop_before', 0, { kind: 'ambiguous' }],
  ['drop_after', 1, { kind: 'ambiguous' }],
  ['cut_body', 1, { kind: 'ambiguous' }],
  [{ cut_body: 'before' }, 0, { kind: 'ambiguous' }],
  ['html_503', 0, { kind: 'ambiguous' }],
  [{ html_503: 'after' }, 1, { kind: 'ambiguous' }],
  ['empty_200', 1, { kind: 'ambiguous' }],
  [{ empty_200: 'before' }, 0, { kind: 'ambiguous' }],
  ['string_ok', 1, { kind: 'ambiguous' }],
  // A reported failure is final, but a callback can correct it.
  ['error_500_before', 0, { kind: 'declined', failure: { code: 'provider_error', provider_code: '20500' } }],
  ['error_500_after', 1, { kind: 'declined', failure: { code: 'provider_error', provider_code: '20500' } }],
  [
    { refuse_400: true, code: '30003' },
    0,
    { kind: 'declined', failure: { code: 'unreachable', provider_code: '30003' } },
  ],
  [
    { rate_limited_429: true, retry_after_s: 7 },
    0,
    { kind: 'retry', after_ms: 7_000, failure: { code: 'provider_error', provider_code: '20429' } },
  ],
  ['refuse_401', 0, { kind: 'misconfigured', failure: { code: 'provider_error', provider_code: '20003' } }],
])('with the fault %j an SMS is sent %i times', async (fault, sent, outcome) => {
  await emulator.fault({ match: { method: 'POST', contains: TO }, fault })
  expect(await provider.sendSms(SMS)).toMatchObject(outcome)
  expect(await messages()).toHaveLength(sent)
  expect(calls.map(({ outcome }) => outcome)).toEqual([outcome.kind])
})

test('a call without a response before the deadline has an ambiguous outcome', async () => {
  await emulator.fault({ match: { method: 'POST' }, fault: { hold: 'after' } })
  // On a busy machine the request needs some time to arrive.
  const impatient = open(emulator.url, { deadline_ms: 2000 })
  expect(await impatient.sendSms(SMS)).toEqual({ kind: 'ambiguous', reason: 'no answer within 2000 ms' })
  expect(await messages()).toHaveLength(1)
})

test('a wrong token is reported as misconfigured, and a job without a permit sends nothing', async () => {
  expect(await open(emulator.url, { auth_token: 'wrong' }).sendSms(SMS)).toMatchObject({
    kind: 'misconfigured',
    failure: { provider_code: '20003' },
  })
  const permit = {
    signal: new AbortController().signal,
    lane: '',
    deadline_ms: null,
    valid: () => false,
    renew: async () => false,
    used: () => {},
  }
  await expect(permits.run(permit, () => provider.sendSms(SMS))).rejects.toThrow(NotStarted)
  expect(await messages()).toEqual([])
  expect(calls).toEqual([])
})

test.each<[name: string, call: () => Promise<unknown>]>([
  ['sent', async () => await provider.sendSms(SMS)],
  ['found', async () => await provider.findSms(`SM${'a'.repeat(32)}`)],
  ['searched', async () => await provider.searchSms({ from: FROM, to: TO, body: SMS.body, since_s: 0 })],
])(
  'an SMS is not %s if the connection to the database is lost while the permit is renewed',
  async (_name, call) => {
    const sql = connectDatabase(await postgresUrl(), { max: 1, application_name: 'test' })
    closing.push(() => sql.end({ timeout: 1 }))
    const permit = {
      signal: new AbortController().signal,
      lane: '',
      deadline_ms: null,
      valid: () => false,
      renew: async () => (await sql`select pg_terminate_backend(pg_backend_pid())`).count > 0,
      used: () => expect.fail('nothing may be sent'),
    }
    const error: unknown = await permits.run(permit, call).catch((refused: unknown) => refused)
    expect(error).toBeInstanceOf(NotStarted)
    expect((error as NotStarted).cause).toMatchObject({ code: '57P01' })
    expect(await messages()).toEqual([])
    expect(calls).toEqual([])
  },
)

test.each([
  ['refuses connections', 'http://127.0.0.1:9'],
  ['does not exist', 'http://twilio.invalid'],
])('an SMS to a host that %s is retried', async (_name, api_base) => {
  expect(await open(api_base).sendSms(SMS)).toEqual({
    kind: 'retry',
    failure: {
      code: 'connection_failed',
      message: expect.stringContaining('could not be reached'),
      provider_code: null,
    },
  })
})

/** A client of a server that answers each request with these bytes and closes the connection. */
async function openAnswering(bytes: string): Promise<SmsProvider> {
  const server = createRawServer((socket) => {
    let received = ''
    socket.on('error', () => {})
    socket.on('data', (data) => {
      received += data.toString('latin1')
      const [head = '', body] = received.split('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
      if (body !== undefined && body.length >= length) socket.end(bytes)
    })
  })
  return open(await listen(server))
}

function http(status: number, body: unknown, headers = ''): string {
  const json = typeof body === 'string' ? body : JSON.stringify(body)
  return `HTTP/1.1 ${status} X\r\ncontent-type: application/json\r\n${headers}content-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`
}

const WHOLE = http(201, { sid: `SM${'1'.repeat(32)}`, status: 'queued' })
test.each([
  ['nothing', ''],
  ['half a status line', WHOLE.slice(0, 9)],
  ['half a head', WHOLE.slice(0, 40)],
  ['a head', WHOLE.slice(0, WHOLE.indexOf('\r\n\r\n') + 4)],
  ['half a body', WHOLE.slice(0, -20)],
  ['text instead of JSON', http(201, 'created')],
  ['an empty body', http(201, '')],
  ['another kind of id', http(201, { sid: `CA${'1'.repeat(32)}`, status: 'queued' })],
  ['half an id', http(201, { sid: 'SM1', status: 'queued' })],
  ['a number as id', http(200, { sid: 7, status: 'queued' })],
  ['a redirect', http(307, { code: 20500, message: 'elsewhere' }, 'location: http://127.0.0.1:9/\r\n')],
  ['a refusal without a code', http(400, { message: 'Bad request' })],
  ['a failure without a code', http(500, { message: 'Oops', code: null })],
  ['a failure in HTML', http(502, '<html>Bad gateway</html>')],
])('a response of %s has an ambiguous outcome', async (_name, bytes) => {
  const provider = await openAnswering(bytes)
  expect(await provider.sendSms(SMS)).toMatchObject({ kind: 'ambiguous', reason: expect.any(String) })
  expect(await provider.findSms(`SM${'2'.repeat(32)}`)).toMatchObject({ kind: 'ambiguous' })
})

test.each([
  [
    'in the old format',
    400,
    { code: 21610, message: 'unsubscribed', status: 400 },
    'opted_out',
    'unsubscribed',
  ],
  [
    'in the format of RFC 9457',
    400,
    { type: 'x', title: 'Bad', status: 400, code: 21211, detail: 'The number (555) 555-0100 is bad' },
    'invalid_number',
    'The number [number] is bad',
  ],
  ['with text as code', 503, { code: '30003' }, 'unreachable', 'The phone cannot be reached.'],
  [
    'with 403 about a country',
    403,
    { code: 21408, message: 'Not to +1 555.555.0100!' },
    'provider_error',
    'Not to [number]!',
  ],
  ['with an unknown code', 418, { code: 99_999 }, 'provider_error', 'Twilio failed with error 99999.'],
])(
  'the refusal %s is final, and its message contains no number',
  async (_name, status, body, code, message) => {
    expect(await (await openAnswering(http(status, body))).sendSms(SMS)).toEqual({
      kind: 'declined',
      failure: { code, provider_code: String(body.code), message },
    })
  },
)

test.each([
  ['429 without a code', http(429, {}, 'retry-after: 3\r\n'), { kind: 'retry', after_ms: 3_000 }],
  ['20429', http(503, { code: 20429 }), { kind: 'retry' }],
  ['403 without a code', http(403, { message: 'no' }), { kind: 'misconfigured' }],
  ['20003', http(400, { code: 20003, message: 'no' }), { kind: 'misconfigured' }],
])('the response %s means that nothing was sent, even for a lookup', async (_name, bytes, outcome) => {
  const provider = await openAnswering(bytes)
  expect(await provider.sendSms(SMS)).toMatchObject(outcome)
  expect(await provider.findSms(`SM${'2'.repeat(32)}`)).toMatchObject(outcome)
})

test('an undelivered SMS shows the reason', async () => {
  await emulator.control('POST', '/callbacks', { automatic: false })
  const { url, posted } = await startReceiver()
  await provider.sendSms({ ...SMS, callback_url: `${url}/twilio?m=1` })
  const [{ sid }] = await messages()
  await emulator.control('POST', `/messages/${sid}/settle`, { status: 'undelivered', error_code: 30003 })
  expect(posted).toMatchObject([{ params: { MessageStatus: 'undelivered', ErrorCode: '30003' } }])
  const found = await provider.findSms(sid)
  expect(found).toMatchObject({
    kind: 'done',
    value: { status: 'undelivered', failure: { code: 'unreachable', provider_code: '30003' } },
  })
  expect(JSON.stringify(found)).not.toContain(TO.slice(2))
})

test('a lookup of a missing SMS returns null, and a failed lookup has an ambiguous outcome', async () => {
  const unknown = `SM${'2'.repeat(32)}`
  expect(await provider.findSms(unknown)).toEqual({ kind: 'done', value: null })
  await emulator.fault({ match: { method: 'GET' }, fault: 'error_500_before' })
  expect(await provider.findSms(unknown)).toMatchObject({ kind: 'ambiguous' })
  expect(await (await openAnswering(WHOLE)).findSms(unknown)).toMatchObject({ kind: 'ambiguous' })
  expect(await open('http://127.0.0.1:9').findSms(unknown)).toMatchObject({ kind: 'retry' })
})

test("the length of Twilio's texts is limited, and the texts can be stored", async () => {
  const sid = `SM${'2'.repeat(32)}`
  for (const status of ['x'.repeat(65), 'on its way', 'sent\u0085', 7]) {
    const shown = http(200, { sid, status, price: `-0.${'1'.repeat(1000)}`, price_unit: 'USD' })
    expect(await (await openAnswering(shown)).findSms(sid)).toMatchObject({
      value: { status: 'sending', provider_status: '', price: null },
    })
  }
  const message = `No\u0000 such\u0085\u0007thing ${'a'.repeat(484)}😀 no`
  expect(await (await openAnswering(http(400, { code: 21211, message }))).sendSms(SMS)).toMatchObject({
    failure: { message: `No such thing ${'a'.repeat(484)}😀` },
  })
  // Very long and repetitive texts are shortened without a long delay.
  expect(twilioFailure(21211, '('.repeat(8_000_000)).message).toBe('('.repeat(500))
  expect(twilioFailure(21211, `\u0000 ${'a'.repeat(499)}😀`).message).toBe(`${'a'.repeat(499)}\ufffd`)
})

async function send(sms: Partial<OutgoingSms>): Promise<string> {
  const outcome = await provider.sendSms({ ...SMS, ...sms })
  return outcome.kind === 'done' ? outcome.value.reference : outcome.kind
}

test('a search finds an SMS by its number, sender, text and time, oldest first', async () => {
  const since_s = Math.floor(Date.now() / 1000)
  const first = await send({})
  const second = await send({})
  const [other, service] = [await send({ from: 'SLUICE' }), await send({ from: SERVICE })]
  await send({ body: 'Another text' })
  await send({ to: '+15555550101' })
  const query = { from: FROM, to: TO, body: SMS.body, since_s }
  const search = async (changes: Partial<typeof query>) => {
    const found = await provider.searchSms({ ...query, ...changes })
    return found.kind === 'done' ? found.value.map(({ reference }) => reference) : found.kind
  }
  expect(await search({})).toEqual([first, second, service])
  expect(await search({ from: 'SLUICE' })).toEqual([other])
  expect(await search({ from: SERVICE })).toEqual([service])
  expect(await search({ from: `MG${'b'.repeat(32)}` })).toEqual([])
  expect(await search({ body: 'Hello' })).toEqual([])
  expect(await search({ since_s: since_s + 3600 })).toEqual([])
  await emulator.fault({ match: { method: 'GET' }, fault: 'html_503' })
  expect(await search({})).toBe('ambiguous')
})

test('a search reads all pages', async () => {
  const since_s = Math.floor(Date.now() / 1000)
  const first = await send({})
  await Promise.all(Array.from({ length: 205 }, () => send({ body: 'Later' })))
  const query = { from: FROM, to: TO, body: SMS.body, since_s }
  expect(await provider.searchSms(query)).toMatchObject({ kind: 'done', value: [{ reference: first }] })
  expect(await emulator.requests({ method: 'GET' })).toHaveLength(2)
  const last = await send({ body: 'Last' })
  const found = await provider.searchSms({ ...query, body: 'Last' })
  expect(found).toMatchObject({ kind: 'done', value: [{ reference: last }] })
  await emulator.fault({ match: { method: 'GET', nth: 2 }, fault: 'cut_body' })
  expect(await provider.searchSms(query)).toMatchObject({ kind: 'ambiguous' })
})

test('the statuses of outgoing messages are recognized, and others are null', () => {
  const statuses = [
    'accepted',
    'queued',
    'sending',
    'sent',
    'undelivered',
    'delivered',
    'read',
    'received',
    'x',
  ]
  expect(statuses.map(smsStatusOf)).toEqual([
    'sending',
    'sending',
    'sending',
    'sent',
    'undelivered',
    'delivered',
    'delivered',
    null,
    null,
  ])
})

test('a number that opts out of a sender gets no SMS from that sender until the number opts in', async () => {
  const { url, posted } = await startReceiver()
  const webhook_url = `${url}/twilio`
  emulator = await startEmulator({ webhook_url })
  provider = open(emulator.url)
  const inbound = (body: string, fields = {}) =>
    emulator.control('POST', '/inbound', { from: TO, to: FROM, body, ...fields })
  expect(await inbound(' stop\n')).toMatchObject({ status: 200, body: '<Response/>' })
  const { params, signature } = posted[0]!
  expect(params).toMatchObject({ From: TO, To: FROM, Body: ' stop\n', SmsStatus: 'received' })
  expect(verifyTwilio(webhook_url, new URLSearchParams(params), signature, [TOKEN])).toBe('valid')
  expect(twilio.validateRequest(TOKEN, signature, webhook_url, params)).toBe(true)
  expect(await provider.sendSms(SMS)).toMatchObject({ failure: { code: 'opted_out' } })
  expect(await send({ from: 'SLUICE' })).toMatch(/^SM/)
  await inbound('Please stop')
  await inbound('start')
  expect(await send({})).toMatch(/^SM/)
  await inbound('Genug', { opt_out_type: 'STOP', messaging_service_sid: SERVICE })
  expect(posted.at(-1)!.params).toMatchObject({ OptOutType: 'STOP', MessagingServiceSid: SERVICE })
  expect(await send({ from: SERVICE })).toBe('declined')
  expect(await send({})).toMatch(/^SM/)
})

test('received SMS are listed in pages, without those that were sent', async () => {
  const { url } = await startReceiver()
  emulator = await startEmulator({ webhook_url: `${url}/twilio` })
  provider = open(emulator.url)
  const bodies = ['Stop', 'yes', 'Is it blue?', 'Genug']
  for (const body of bodies) {
    await emulator.control('POST', '/inbound', { from: TO, to: FROM, body })
    await send({})
  }
  const from_s = Math.floor(Date.now() / 1000) - 60
  const listAll = async () => {
    const found: ReceivedSms[] = []
    let pages = 0
    for (let page: string | null | undefined = null; page !== undefined; pages++) {
      const list = await provider.listReceived({ from_s, page, page_size: 3 })
      if (list.kind !== 'done') throw new Error(list.kind)
      found.push(...list.value.received)
      page = list.value.next ?? undefined
    }
    return { found, pages }
  }
  // A message is in the list when it has been sent, shortly after the answer.
  await expect.poll(async () => (await listAll()).pages).toBe(3)
  const { found } = await listAll()
  expect(found.map(({ body }) => body).toSorted()).toEqual(bodies.toSorted())
  expect(found.find(({ body }) => body === 'Stop')).toMatchObject({
    account: expect.stringMatching(/^AC/),
    from: TO,
    received_by: [FROM],
    keyword: 'opt_out',
    // Of several keywords in one second, an opt-out counts as the last.
    received_at: expect.stringMatching(/\.999Z$/),
  })
  expect(found.find(({ body }) => body === 'yes')!.received_at).toMatch(/\.000Z$/)
  const future = { from_s: Math.floor(Date.now() / 1000) + 60, page: null }
  expect(await provider.listReceived(future)).toEqual({
    kind: 'done',
    value: { received: [], unreadable: 0, next: null },
  })
})

test('a received SMS that lacks a field is left out and counted', async () => {
  const complete = {
    direction: 'inbound',
    accountSid: `AC${'1'.repeat(32)}`,
    sid: `SM${'1'.repeat(32)}`,
    from: TO,
    to: FROM,
    body: 'Stop',
    dateCreated: new Date(),
  }
  const instances = [
    { ...complete, body: null },
    complete,
    { ...complete, dateCreated: new Date(Number.NaN) },
  ]
  const messages = { page: async () => ({ instances, nextPageUrl: undefined }) } as never
  expect(await listReceived(messages, { from_s: 0, page: null })).toMatchObject({
    received: [{ from: TO, keyword: 'opt_out' }],
    unreadable: 2,
    next: null,
  })
})

test('callbacks can be paused, duplicated, dropped and reordered', async () => {
  const { url, posted } = await startReceiver()
  const callback_url = `${url}/twilio`
  const statuses = () => posted.map(({ params }) => params['MessageStatus'])
  await emulator.control('POST', '/callbacks', { paused: true, duplicate_percent: 100 })
  await send({ callback_url })
  await until('the SMS is delivered', async () => (await messages())[0].status === 'delivered')
  expect(statuses()).toEqual([])
  await emulator.control('POST', '/callbacks', { paused: false })
  await until('each callback is received twice', () => posted.length === 4)
  expect(statuses().filter((status) => status === 'sent')).toHaveLength(2)
  await emulator.control('POST', '/callbacks', { automatic: false, duplicate_percent: 0 })
  const sid = await send({ callback_url })
  posted.length = 0
  for (const status of ['delivered', 'sent', 'read'])
    await emulator.control('POST', `/messages/${sid}/settle`, { status })
  await emulator.control('POST', '/callbacks', { drop_percent: 100 })
  await emulator.control('POST', `/messages/${sid}/settle`, { status: 'failed' })
  expect(statuses()).toEqual(['delivered', 'sent', 'read'])
  expect(await emulator.control('GET', '/callbacks')).toMatchObject({ dropped: 1, duplicates: 2 })
})

/** Sends a raw request to the emulator. */
async function sendRequest(
  path: string,
  form?: Record<string, string>,
  token = TOKEN,
): Promise<[number, any]> {
  const response = await fetch(`${emulator.url}/2010-04-01/Accounts/${path}`, {
    headers: { authorization: `Basic ${Buffer.from(`${ACCOUNT}:${token}`).toString('base64')}` },
    ...(form && { method: 'POST', body: new URLSearchParams(form) }),
  })
  return [response.status, await response.json()]
}

test.each([
  [{ From: FROM, Body: 'x' }, 21604],
  [{ From: FROM, To: '555', Body: 'x' }, 21211],
  [{ To: TO, Body: 'x' }, 21603],
  [{ To: TO, From: '+1', Body: 'x' }, 21212],
  [{ To: TO, From: '+15005550001', Body: 'x' }, 21212],
  [{ To: TO, From: TO, Body: 'x' }, 21266],
  [{ To: TO, From: FROM }, 21602],
  [{ To: TO, From: FROM, Body: 'x'.repeat(1601) }, 21617],
  [{ To: TO, From: FROM, Body: 'x', StatusCallback: 'here' }, 21609],
  [{ To: TO, From: FROM, Body: 'x', StatusCallback: 'https://my_hooks.example/twilio' }, 21609],
  [{ To: TO, From: FROM, Body: '🦥'.repeat(801) }, 21617],
  [{ To: TO, From: FROM, Body: 'x', ValidityPeriod: '36001' }, 20001],
  [{ To: TO, From: FROM, Body: 'x', ValidityPeriod: '0' }, 20001],
  [{ To: TO, From: FROM, Body: 'x', Text: 'y' }, 20001],
  [{ To: TO, From: FROM, Body: 'x', SmartEncoded: 'yes' }, 20001],
])('the emulator refuses %j with %i', async (form, code) => {
  expect(await sendRequest(`${ACCOUNT}/Messages.json`, form as Record<string, string>)).toMatchObject([
    400,
    { code, status: 400, message: expect.any(String), more_info: expect.stringContaining(String(code)) },
  ])
})

test.each(['PageSize=0', 'PageSize=1001', 'PageSize=many', 'Limit=5', 'DateSent=yesterday', 'To=1&To=2'])(
  'the emulator refuses to list by %s',
  async (query) => {
    expect(await sendRequest(`${ACCOUNT}/Messages.json?${query}`)).toMatchObject([
      400,
      { code: 20001, status: 400 },
    ])
  },
)

test("the emulator serves only its own account and that account's messages", async () => {
  const not_found = [404, { code: 20404, status: 404 }]
  expect(await sendRequest(`${ACCOUNT}/Calls.json`)).toMatchObject(not_found)
  expect(await sendRequest(`${ACCOUNT}/Messages/SM${'1'.repeat(32)}.json`)).toMatchObject(not_found)
  expect(await sendRequest(`AC${'1'.repeat(32)}/Messages.json`)).toMatchObject(not_found)
  expect(await sendRequest(`${ACCOUNT}/Messages.json`, undefined, 'wrong')).toMatchObject([
    401,
    { code: 20003 },
  ])
})

test('the emulator lists messages by page, number and day', async () => {
  const sent = [await send({}), await send({}), await send({ to: '+15555550101' })]
  await until('all messages are delivered', async () =>
    (await emulator.control('GET', '/messages')).every(({ status }: any) => status === 'delivered'),
  )
  const list = async (query: string) => (await sendRequest(`${ACCOUNT}/Messages.json?${query}`))[1]
  const sids = (page: any) => page.messages.map(({ sid }: any) => sid)
  expect(sids(await list(''))).toEqual(sent.toReversed())
  const first = await list('PageSize=2')
  expect(sids(first)).toEqual([sent[2], sent[1]])
  const [, second] = await sendRequest(first.next_page_uri.slice('/2010-04-01/Accounts/'.length))
  expect([sids(second), second.next_page_uri]).toEqual([[sent[0]], null])
  expect(sids(await list(`To=${encodeURIComponent(TO)}`))).toEqual([sent[1], sent[0]])
  expect(sids(await list('From=SLUICE'))).toEqual([])
  const today = first.messages[0].date_sent
  const day = new Date(today).toISOString().slice(0, 10)
  expect(sids(await list(`DateSent=${day}`))).toHaveLength(3)
  expect(sids(await list(`DateSent<=2020-01-01`.replace('<', '%3C')))).toEqual([])
  expect(sids(await list(`DateSent>=2020-01-01`.replace('>', '%3E')))).toHaveLength(3)
})

test("numbers and texts are shown on the emulator's page but not written to disk", async () => {
  const data_dir = await mkdtemp(join(tmpdir(), 'sluice-twilio-'))
  closing.push(() => rm(data_dir, { recursive: true }))
  const { url, posted } = await startReceiver()
  emulator = await startEmulator({ data_dir, webhook_url: url })
  provider = open(emulator.url)
  const sid = await send({ body: 'A <secret>' })
  expect(await emulator.effects({ sid })).toMatchObject([{ seq: 1, segments: 1 }])
  const stored = await readFile(join(data_dir, 'twilio-effects.jsonl'), 'utf8')
  expect(stored).toContain(sid)
  for (const hidden of ['secret', TO.slice(1), FROM.slice(1)]) expect(stored).not.toContain(hidden)
  const page = await (await fetch(emulator.url)).text()
  expect(page).toContain('A &lt;secret&gt;')
  const response = await fetch(`${emulator.url}/_emulator/page/inbound`, {
    method: 'POST',
    body: new URLSearchParams({ from: TO, to: FROM, body: 'HELP' }),
  })
  expect([response.status, posted[0]!.params['Body']]).toEqual([200, 'HELP'])
  emulator = await startEmulator({ data_dir })
  provider = open(emulator.url)
  await send({})
  expect((await emulator.effects()).map(({ seq }) => seq)).toEqual([1, 2])
})

// Invalid responses of providers: each request still gets a response of the error catalogue, and no job ends in an
// exception.
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect } from 'vitest'
import { auditEverything } from '#domain/audit/audit.ts'
import { freshKey, type Answer, type Client } from '#test/client.ts'
import { capturedPayment, createPayment, eventually, authorizedPayment, refund } from '#test/payments.ts'
import { fund, payOut, recipient } from '#test/payouts.ts'
import { topUp } from '#test/top-ups.ts'
import { party, startVerification } from '#test/verifications.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

type Http = { status?: number; type?: string; body: string } | 'not http' | 'cut'
const json = (body: unknown, status = 200): Http => ({ status, body: JSON.stringify(body) })
const LONG = 'x'.repeat(200_000)
const ODD = 'NUL \u0000 and half \ud83d'
/** The id of an SMS. Each kind of invalid response uses another digit. */
const sid = (digit: string) => `SM${digit.repeat(32)}`

const HTTP: Record<string, Http> = {
  page: { type: 'text/html', body: '<html><body>Welcome to the hotel</body></html>' },
  empty: { body: '' },
  truncated: { body: '{"id":"pi_1","object":"payment_intent","sid":"SM' },
  huge: { body: JSON.stringify({ id: 'x'.repeat(9 * 1024 * 1024) }) },
  moved: { status: 302, body: '' },
  raw: 'not http',
  cut: 'cut',
  strange: json({ id: 7, object: [], sid: {}, status: { a: 1 }, amount: 'all', choices: 'no', metadata: 3 }),
  same: json({
    id: 'pi_same',
    object: 'refund',
    sid: sid('1'),
    status: 'sent',
    choices: [{ message: null }],
  }),
  twilio_odd: json({
    sid: sid('2'),
    status: ODD,
    error_code: ODD,
    error_message: LONG,
    price: '1e9',
    price_unit: 7,
  }),
  text_error: json({ error: 'nonsense' }, 400),
  strange_error: json({ error: { type: 7, code: {}, message: [] }, code: 'x' }, 400),
  long_error: json(
    { error: { type: 'invalid_request_error', code: LONG, message: LONG }, code: 21211, message: LONG },
    400,
  ),
  odd_error: json(
    { error: { type: 'card_error', code: ODD, decline_code: ODD, message: ODD }, code: 21999, message: ODD },
    402,
  ),
  odd_500: json({ error: { type: 'api_error', message: LONG } }, 500),
  status_999: { status: 999, body: '{}' },
}
const SMTP: Record<string, (socket: Socket) => void> = {
  page: (socket) => void socket.write('<html><body>Welcome</body></html>\r\n'),
  empty: (socket) => void socket.write('\r\n'),
  cut: (socket) => void socket.end('25'),
  strange: (socket) => void socket.write('999 what\r\n'),
  long_error: (socket) => void socket.write(`550 5.1.1 ${'x'.repeat(100_000)}\r\n`),
  odd_error: (socket) => void socket.write('451 4.3.0 NUL \u0000 and \ufffd\r\n'),
  odd_500: (socket) => void socket.write('554\r\n'),
}

/** The text that makes the server answer a request with this kind of invalid response. */
const marker = (kind: string) => `nonsense-${kind.replaceAll('_', '-')}-x`
/** The provider creates the object, but returns the same id for all objects of one kind. */
const TWIN = 'twin'
const kinds_by_marker = new Map<string, string>(
  [...Object.keys(HTTP), TWIN].map((kind) => [marker(kind), kind]),
)
const kindOf = (request: string) => [...kinds_by_marker].find(([mark]) => request.includes(mark))?.[1]

let emulatorUrlOf: (path: string) => string | undefined = () => undefined

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await text(request)
  const kind = kindOf(`${request.url}\n${decodeURIComponent(body.replaceAll('+', ' '))}`)
  if (kind === undefined || kind === TWIN) {
    const { host: _host, connection: _connection, 'content-length': _length, ...headers } = request.headers
    const proxied = await fetch(emulatorUrlOf(request.url!)!, {
      method: request.method!,
      headers: headers as Record<string, string>,
      ...(body !== '' && { body }),
    })
    const response_text = await proxied.text()
    const is_twin = kind === TWIN && request.method === 'POST'
    response
      .writeHead(proxied.status, { 'content-type': 'application/json' })
      .end(
        is_twin
          ? response_text.replace(/"(id|sid)":"([a-z]+_|SM)\w+"/i, `"$1":"$2${'7'.repeat(32)}"`)
          : response_text,
      )
    return
  }
  const invalid = HTTP[kind]!
  if (invalid === 'cut') return void request.socket.end('HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{"id":')
  if (invalid === 'not http') return void request.socket.end('* OK IMAP4 ready\r\n')
  const { status = 200, type = 'application/json', body: invalid_body } = invalid
  response.writeHead(status, { 'content-type': type, location: 'https://other.example/' }).end(invalid_body)
}

/** An SMTP session that accepts everything before the text, and then answers as the recipient's address specifies. */
function converse(socket: Socket): void {
  let kind = ''
  let in_data = false
  socket.on('error', () => {})
  socket.write('220 nonsense\r\n')
  socket.on('data', (chunk) => {
    const received = chunk.toString()
    if (in_data) {
      if (!received.endsWith('\r\n.\r\n')) return
      in_data = false
      return SMTP[kind]!(socket)
    }
    for (const line of received.split('\r\n').filter((each) => each !== '')) {
      const kind_of_recipient = /^RCPT TO:<nonsense-([a-z0-9-]+)-x@/i.exec(line)?.[1]
      if (kind_of_recipient !== undefined) kind = kind_of_recipient.replaceAll('-', '_')
      in_data = line.toUpperCase() === 'DATA'
      socket.write(in_data ? '354 go on\r\n' : line.toUpperCase() === 'QUIT' ? '221 bye\r\n' : '250 ok\r\n')
    }
  })
}

const servers: Server[] = []
async function listen(server: Server): Promise<number> {
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

/**
 * Starts a world whose providers give invalid responses to requests with a marker. Emulators answer all other requests.
 */
async function createInvalidlyAnsweredWorld(): Promise<World> {
  const server = createHttpServer((request, response) => {
    answer(request, response).catch(() => request.socket.destroy())
  })
  const url = `http://127.0.0.1:${await listen(server)}`
  const smtp_port = await listen(createServer(converse))
  const world = await createWorld({
    notifications: false,
    env: {
      STRIPE_API_BASE: `${url}/stripe`,
      TWILIO_API_BASE: `${url}/twilio`,
      AI_BASE_URL: `${url}/ai/v1`,
      SMTP_URL: `smtp://127.0.0.1:${smtp_port}`,
    },
  })
  emulatorUrlOf = (path) => {
    const [, name, rest] = /^\/(stripe|twilio|ai)(\/.*)$/.exec(path) ?? []
    return name === undefined ? undefined : `${world.provider(name as 'stripe').url}${rest}`
  }
  return {
    ...world,
    async close() {
      await world.close()
      for (const each of servers) each.close()
    },
  }
}
const test = testIn(createInvalidlyAnsweredWorld)

type SendRequest = (kind: string, headers: Record<string, string>) => Promise<Answer>

async function requestsByResource(client: Client): Promise<Record<string, SendRequest>> {
  let next = 2_300_000
  await fund(client, 100_000)
  const to = await recipient(client, 'ba_manual')
  const keyed = () => ({ idempotency_key: freshKey() })
  /** Makes the server answer all requests about the payment with the invalid response. Returns the payment's id. */
  const invalidateAnswers = (
    { id, processor_reference }: { id: string; processor_reference: string },
    kind: string,
  ) => {
    kinds_by_marker.set(processor_reference, kind)
    return id
  }
  return {
    payment: (kind, headers) => createPayment(client, { description: marker(kind) }, headers),
    capture: async (kind, headers) =>
      await client.post(
        `/v1/payments/${invalidateAnswers(await authorizedPayment(client), kind)}/capture`,
        undefined,
        headers,
      ),
    cancel: async (kind, headers) =>
      await client.post(
        `/v1/payments/${invalidateAnswers(await authorizedPayment(client), kind)}/cancel`,
        undefined,
        headers,
      ),
    refund: async (kind, headers) =>
      await refund(
        client,
        invalidateAnswers(await capturedPayment(client), kind),
        { amount_minor: 100 },
        headers,
      ),
    top_up: (kind, headers) => topUp(client, { description: marker(kind) }, headers),
    payout: (kind, headers) => payOut(client, to, { description: marker(kind) }, headers),
    verification: async (kind, headers) => {
      const return_url = `https://shop.example/${marker(kind)}`
      return await startVerification(client, { ...(await party(client, 'customer')), return_url }, headers)
    },
    sms: (kind, headers) =>
      client.post('/v1/messages/sms', { ...keyed(), to: `+1415${(next += 1)}`, body: marker(kind) }, headers),
    email: (kind, headers) =>
      client.post(
        '/v1/messages/email',
        { ...keyed(), to: [`${marker(kind)}@example.com`], subject: 'Hi', text: 'Hi' },
        headers,
      ),
    ai_task: (kind, headers) =>
      client.post('/v1/ai/tasks', { ...keyed(), kind: 'generate', input: { prompt: marker(kind) } }, headers),
  }
}

test('an invalid response of a provider does not cause an internal error, and ends no job in an exception', async ({
  world,
  client,
}) => {
  const send = await requestsByResource(client)
  const unexpected: unknown[] = []
  const check = async (resource: string, kind: string, headers: Record<string, string>) => {
    const { status, body } = await send[resource]!(kind, headers)
    const is_documented = [200, 201, 202, 402, 409, 422, 502].includes(status)
    if (!is_documented && body?.error?.code !== 'email_send_failed')
      unexpected.push([resource, kind, headers, status, body])
    if (status >= 300) return
    // The accepted resource can be read.
    const read = await client.get(PATHS[resource]!(body.id))
    if (read.status !== 200) unexpected.push([resource, kind, headers, read.status, read.body])
  }
  await Promise.all(
    Object.keys(send).flatMap((resource) => {
      const kinds = Object.keys(resource === 'email' ? SMTP : HTTP)
      const kinds_with_wait = ACTIONS.has(resource) ? kinds.filter((kind) => SELECTED_KINDS.has(kind)) : kinds
      // A request that does not wait is answered before the call of the provider.
      const kinds_without_wait = kinds.filter((kind) => SELECTED_KINDS.has(kind))
      return [
        ...kinds_with_wait.map((kind) => check(resource, kind, { prefer: 'wait=1' })),
        ...kinds_without_wait.map((kind) => check(resource, kind, { prefer: 'respond-async' })),
      ]
    }),
  )
  expect(unexpected).toEqual([])
  const exceptions = await world.sql`
    select name, last_error from jobs where last_error ->> 'message' ~ '^[A-Za-z]*Error: |^threw'`
  expect([...exceptions]).toEqual([])
})

test('the id of another object is not accepted: an SMS counts as sent, and other resources are looked up', async ({
  world,
  client,
}) => {
  const send = await requestsByResource(client)
  const wait = { prefer: 'wait=20' }
  const read = async (resource: string, id: string) => (await client.get(PATHS[resource]!(id))).body
  const first = await send['sms']!(TWIN, wait)
  const second = await send['sms']!(TWIN, wait)
  expect(first.body).toMatchObject({ status: 'sent', provider_reference: sid('7') })
  expect(second.body).toMatchObject({ status: 'sent', provider_reference: null })
  const sent = await fetch(
    `${world.provider('twilio').url}/_emulator/messages?to=${encodeURIComponent(second.body.to)}`,
  )
  expect(await sent.json()).toHaveLength(1)

  const duplicates: [string, string][] = []
  for (const resource of ['payment', 'refund', 'payout', 'top_up', 'verification']) {
    await send[resource]!(TWIN, wait)
    const { id } = (await send[resource]!(TWIN, wait)).body
    duplicates.push([resource, id])
    const unknown = await world.sql`
      select last_error ->> 'message' as reason from jobs
      where (resource_id = ${id} or payload ->> 'refund_id' = ${id}) and state = 'unknown'`
    expect([resource, ...unknown]).toEqual([
      resource,
      { reason: 'the provider answered with the id of another object' },
    ])
  }
  for (const [resource, id] of duplicates)
    await eventually(async () => {
      await world.sql`
        update jobs set run_at = now(), wakeup_sent_at = null
        where (resource_id = ${id} or payload ->> 'refund_id' = ${id}) and state = 'unknown'`
      const { processor_reference, provider_reference } = await read(resource, id)
      expect([resource, processor_reference ?? provider_reference]).toEqual([
        resource,
        expect.stringMatching(/^[a-z]+_(?!7777)\w+$/),
      ])
    })
  const { problems } = await auditEverything(world.sql)
  expect(problems).toEqual([])
})

const ACTIONS = new Set(['capture', 'cancel', 'refund'])
const SELECTED_KINDS = new Set(['page', 'strange', 'long_error'])
const PATHS: Record<string, (id: string) => string> = {
  payment: (id) => `/v1/payments/${id}`,
  capture: (id) => `/v1/payments/${id}`,
  cancel: (id) => `/v1/payments/${id}`,
  refund: (id) => `/v1/refunds/${id}`,
  payout: (id) => `/v1/payouts/${id}`,
  top_up: (id) => `/v1/wallet/top_ups/${id}`,
  verification: (id) => `/v1/compliance/kyc/${id}`,
  sms: (id) => `/v1/messages/${id}`,
  email: (id) => `/v1/messages/${id}`,
  ai_task: (id) => `/v1/ai/tasks/${id}`,
}

// Email over SMTP: the outcome of a conversation, wherever it ends, and the form of delivered emails.
import { createHash, createVerify, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { connect } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import { startSmtpEmulator } from '#emulators/smtp/main.ts'
import type { EmailProvider, OutgoingEmail } from '#providers/email.ts'
import type { FinishedCall } from '#providers/http.ts'
import { NotStarted, permits, type Permit } from '#providers/permit.ts'
import { openSmtp } from '#providers/smtp/client.ts'
import { until } from './support/process.ts'
import { handleOf, type Provider } from './support/providers.ts'
import { sendBytes } from './support/raw.ts'
import { postgresUrl } from './support/suite.ts'

const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const PEM = privateKey.export({ type: 'pkcs8', format: 'pem' })
const NEVER_ABORTED = new AbortController().signal
/** An attachment larger than the socket buffers of client and server. */
const LARGE = { filename: 'large.bin', content_type: 'application/octet-stream', content: Buffer.alloc(12e6) }

let emulator: Awaited<ReturnType<typeof startSmtpEmulator>>
let server: Provider
let email: EmailProvider
let last_number = 0

beforeAll(async () => {
  emulator = await startSmtpEmulator({ port: 0, api_key: 'right' })
  server = handleOf('smtp', { ...emulator.places, url: emulator.url })
})
afterAll(async () => await emulator.close())
beforeEach(() => {
  email = openProvider()
  return async () => {
    await email.close()
    await server.control('DELETE', '/faults')
  }
})

function openProvider(options: Partial<Parameters<typeof openSmtp>[0]> = {}): EmailProvider {
  return openSmtp({ url: emulator.places.smtp_url, connections: 2, dkim: null, ...options })
}

function emailTo(recipients: string[], fields: Partial<OutgoingEmail> = {}): OutgoingEmail {
  return {
    message_id: `<${++last_number}@sluice.example>`,
    from: 'Shop <shop@sluice.example>',
    to: recipients,
    cc: [],
    reply_to: null,
    subject: 'Hello',
    text: 'Hello Ada',
    html: null,
    headers: {},
    list_unsubscribe_url: null,
    attachments: [],
    recipients,
    ...fields,
  }
}

/** Sends the lines to the emulator. Returns the codes of the greeting and of each reply. */
async function converse(lines: string[]): Promise<number[]> {
  const { hostname, port } = new URL(emulator.places.smtp_url)
  const socket = connect(Number(port), hostname)
  const codes: number[] = []
  const remaining = [...lines]
  let text = ''
  for await (const chunk of socket) {
    text += (chunk as Buffer).toString()
    const last_reply = /^(\d{3}) .*\r\n$/m.exec(text)
    if (!text.endsWith('\r\n') || last_reply === null) continue
    codes.push(Number(last_reply[1]))
    text = ''
    const next = remaining.shift()
    if (next === undefined) break
    socket.write(`${next}\r\n`)
  }
  return codes
}

async function messagesTo(address: string): Promise<any[]> {
  return await server.control('GET', `/messages?to=${encodeURIComponent(address)}`)
}

const unsent = (code: string, provider_code: string | null = null) => ({
  kind: 'retry',
  failure: expect.objectContaining({ code, provider_code }),
})
const declined = (code: string, provider_code: string) => ({
  kind: 'declined',
  failure: expect.objectContaining({ code, provider_code }),
})
const AMBIGUOUS = { kind: 'ambiguous', reason: expect.any(String) }

describe('an SMTP conversation', () => {
  test.each([
    ['GREETING', 'drop_before', unsent('connection_failed'), 0],
    ['GREETING', { refuse_400: true, code: '554 5.3.2 No' }, unsent('connection_failed', '554 5.3.2'), 0],
    ['EHLO', 'drop_before', unsent('connection_failed'), 0],
    ['EHLO', 'rate_limited_429', unsent('connection_failed', '421 4.7.0'), 0],
    ['AUTH', 'drop_before', unsent('connection_failed'), 0],
    ['AUTH', { refuse_400: true, code: '454 4.7.0 Later' }, unsent('connection_failed', '454 4.7.0'), 0],
    [
      'AUTH',
      'refuse_401',
      {
        kind: 'misconfigured',
        failure: expect.objectContaining({ code: 'connection_failed', provider_code: '535 5.7.8' }),
      },
      0,
    ],
    ['MAIL', 'drop_before', unsent('connection_failed'), 0],
    ['MAIL', { refuse_400: true, code: '553 5.1.8 No' }, declined('sender_refused', '553 5.1.8'), 0],
    ['MAIL', { refuse_400: true, code: '552 5.3.4 Large' }, declined('content_refused', '552 5.3.4'), 0],
    ['MAIL', 'error_500_before', unsent('provider_error', '451 4.3.0'), 0],
    ['RCPT', 'drop_before', unsent('connection_failed'), 0],
    ['RCPT', { refuse_400: true, code: '550 5.1.1 No' }, declined('recipient_refused', '550 5.1.1'), 0],
    ['RCPT', { refuse_400: true, code: '450 4.2.1 Later' }, unsent('recipient_refused', '450 4.2.1'), 0],
    ['DATA', 'drop_before', unsent('connection_failed'), 0],
    ['DATA', { refuse_400: true, code: '554 5.7.1 No' }, declined('content_refused', '554 5.7.1'), 0],
    ['DATA', 'error_500_before', unsent('provider_error', '451 4.3.0'), 0],
    ['BODY', 'drop_before', AMBIGUOUS, 0],
    ['DOT', 'drop_before', AMBIGUOUS, 0],
    ['DOT', 'drop_after', AMBIGUOUS, 1],
    ['DOT', 'cut_body', AMBIGUOUS, 1],
    ['DOT', 'string_ok', AMBIGUOUS, 1],
    ['DOT', { refuse_400: true, code: '554 5.6.0 No' }, declined('content_refused', '554 5.6.0'), 0],
    ['DOT', { refuse_400: true, code: '552 5.2.2 Full' }, declined('content_refused', '552 5.2.2'), 0],
    ['DOT', 'error_500_before', unsent('provider_error', '451 4.3.0'), 0],
    ['DOT', 'rate_limited_429', unsent('connection_failed', '421 4.7.0'), 0],
  ])('that ends at %s with %j has its defined outcome', async (method, fault, outcome, stored) => {
    const address = `ada-${++last_number}@example.com`
    const scripted = await server.fault({ match: { method }, fault })
    expect(await email.sendEmail(emailTo([address]), NEVER_ABORTED)).toMatchObject(outcome)
    expect(await scripted.hit()).toBe(1)
    expect(await messagesTo(address)).toHaveLength(stored)
    // The next email is sent, however the conversation before it ended.
    expect(await email.sendEmail(emailTo([address]), NEVER_ABORTED)).toEqual({
      kind: 'done',
      value: { refused: [] },
    })
    expect(await messagesTo(address)).toHaveLength(stored + 1)
  })

  test('that ends before the final dot does not send the email', async () => {
    await server.fault({ match: { method: 'BODY' }, fault: 'drop_before' })
    expect(
      await email.sendEmail(emailTo(['large@example.com'], { attachments: [LARGE] }), NEVER_ABORTED),
    ).toMatchObject(unsent('connection_failed'))
  })

  test('without a server is reported as a refused connection', async () => {
    const unreachable = openProvider({ url: 'smtp://127.0.0.1:1' })
    expect(await unreachable.sendEmail(emailTo(['ada@example.com']), NEVER_ABORTED)).toEqual({
      kind: 'retry',
      failure: { code: 'connection_failed', message: 'ECONNREFUSED', provider_code: null },
      reported: 'connect ECONNREFUSED 127.0.0.1:1',
    })
  })

  test('with a remote server without TLS sends nothing', async () => {
    const url = emulator.places.smtp_url.replace('127.0.0.1', '[::ffff:127.0.0.1]')
    const address = 'clear@example.com'
    expect(await openProvider({ url }).sendEmail(emailTo([address]), NEVER_ABORTED)).toMatchObject({
      kind: 'misconfigured',
    })
    const lenient = openProvider({ url, require_tls: false })
    expect(await lenient.sendEmail(emailTo([address]), NEVER_ABORTED)).toMatchObject({ kind: 'done' })
    expect(await messagesTo(address)).toHaveLength(1)
    await lenient.close()
  })

  test('with a wrong password is reported as a misconfiguration', async () => {
    const url = emulator.places.smtp_url.replace('right', 'wrong')
    expect(await openProvider({ url }).sendEmail(emailTo(['ada@example.com']), NEVER_ABORTED)).toMatchObject({
      kind: 'misconfigured',
      failure: { code: 'connection_failed', provider_code: '535 5.7.8' },
    })
  })

  test('does not show the reply to a login, because the reply may repeat the password', async () => {
    const code = '535 5.7.8 No user emulator with AGVtdWxhdG9yAHJpZ2h0'
    await server.fault({ match: { method: 'AUTH' }, fault: { refuse_400: true, code } })
    expect(await email.sendEmail(emailTo(['ada@example.com']), NEVER_ABORTED)).toEqual({
      kind: 'misconfigured',
      failure: {
        code: 'connection_failed',
        message: 'The server refused the login.',
        provider_code: '535 5.7.8',
      },
    })
  })

  test.each([
    ['MAIL', '535 5.7.8 relay-user-7: credentials invalid', 'misconfigured'],
    ['RCPT', '530 5.7.0 relay-user-7 may not relay', 'declined'],
    ['DATA', '535 5.7.8 relay-user-7: session expired', 'declined'],
  ])('does not show a reply to %s about the login: %s', async (method, code, kind) => {
    await server.fault({ match: { method }, fault: { refuse_400: true, code } })
    expect(await email.sendEmail(emailTo(['ada@example.com']), NEVER_ABORTED)).toMatchObject({
      kind,
      failure: { message: 'The server refused the login.', provider_code: code.slice(0, 9) },
    })
  })

  test.each(['GREETING', 'EHLO', 'MAIL', 'RCPT'])(
    'that the server refuses after %s reports the reply only to operators',
    async (method) => {
      const calls: FinishedCall[] = []
      const observed = openProvider({ onCall: (call) => calls.push(call) })
      const reported = 'mx3.internal.example: client 10.1.2.3 blocked'
      const fault = { refuse_400: true, code: `421 4.7.0 ${reported}` }
      await server.fault({ match: { method }, fault })
      expect(await observed.sendEmail(emailTo(['ada@example.com']), NEVER_ABORTED)).toMatchObject({
        kind: 'retry',
        failure: { message: 'The server refused the connection.', provider_code: '421 4.7.0' },
      })
      expect(calls).toMatchObject([{ outcome: 'retry', reported: `421 4.7.0 ${reported}` }])
      await observed.close()
    },
  )

  test('reports a reply about the login to operators, even if the reply refuses only one of several recipients', async () => {
    const calls: FinishedCall[] = []
    const observed = openProvider({ onCall: (call) => calls.push(call) })
    const code = '530 5.7.0 relay-user-7 may not send there'
    await server.fault({ match: { method: 'RCPT', contains: 'grace' }, fault: { refuse_400: true, code } })
    const sent = await observed.sendEmail(emailTo(['ada@example.com', 'grace@example.com']), NEVER_ABORTED)
    expect(sent).toMatchObject({ kind: 'done', value: { refused: [{ address: 'grace@example.com' }] } })
    expect(calls).toMatchObject([{ outcome: 'done', reported: code }])
    await observed.close()
  })

  test.each(['250 relay-user-7 has mail', '554 mx3.internal.example has no TLS'])(
    'reports an invalid greeting only to operators: %s',
    async (code) => {
      await server.fault({ match: { method: 'GREETING' }, fault: { refuse_400: true, code } })
      const sent = await email.sendEmail(emailTo(['ada@example.com']), NEVER_ABORTED)
      expect(sent).toMatchObject({ failure: { code: 'connection_failed', message: expect.any(String) } })
      expect(sent).toMatchObject({ reported: code })
      expect(JSON.stringify({ ...sent, reported: null })).not.toMatch(/relay-user|internal/)
    },
  )

  test('does not show the login name in any text', async () => {
    const open_to_all = await startSmtpEmulator({ port: 0 })
    const name = 'relay-user-7@internal.example'
    const url = open_to_all.places.smtp_url.replace('emulator', encodeURIComponent(name))
    const relay = openProvider({ url })
    onTestFinished(async () => {
      await relay.close()
      await open_to_all.close()
    })
    const texts: [string, string][] = [
      [`Not owned by user ${name}`, 'Not owned by user <address>'],
      ['Not owned by user Relay-User-7.', 'Not owned by user <login>.'],
      ['x@relay-user-7.example is not relay-user-70', '<address> is not relay-user-70'],
      [`${'a'.repeat(490)} relay-user-7`, `${'a'.repeat(490)} <login>`],
    ]
    const relay_emulator = handleOf('smtp', { ...open_to_all.places, url: open_to_all.url })
    for (const [text, expected_message] of texts) {
      const code = `553 5.7.1 ${text}`
      await relay_emulator.fault({ match: { method: 'MAIL' }, fault: { refuse_400: true, code } })
      expect(await relay.sendEmail(emailTo(['ada@example.com']), NEVER_ABORTED)).toMatchObject({
        failure: { code: 'sender_refused', message: expected_message },
      })
    }
  })

  test('returns reply texts that PostgreSQL can store', async () => {
    const expected = `${'a'.repeat(499)}\ufffd`
    const code = `550 5.1.1 ${'a'.repeat(499)}😀 no`
    const refusal = { fault: { refuse_400: true, code } }
    await server.fault({ match: { method: 'RCPT', contains: 'second@' }, ...refusal })
    expect(
      await email.sendEmail(emailTo(['first@example.com', 'second@example.com']), NEVER_ABORTED),
    ).toMatchObject({
      value: { refused: [{ message: expected }] },
    })
    await server.fault({ match: { method: 'DATA' }, ...refusal })
    expect(await email.sendEmail(emailTo(['ada@example.com']), NEVER_ABORTED)).toMatchObject({
      failure: { message: expected },
    })
    const invalid_reply = { refuse_400: true, code: 'Who is ada@example.com\u0000?' }
    await server.fault({ match: { method: 'DOT' }, fault: invalid_reply })
    expect(await email.sendEmail(emailTo(['ada@example.com']), NEVER_ABORTED)).toEqual({
      kind: 'ambiguous',
      reason: 'Who is <address> ?',
    })
  })
})

describe('recipients', () => {
  test('that the server refuses do not stop the delivery to other recipients', async () => {
    const recipients = ['some@example.com', 'gone@bounce.example', 'later@defer.example']
    expect(await email.sendEmail(emailTo(recipients), NEVER_ABORTED)).toEqual({
      kind: 'done',
      value: {
        refused: [
          {
            address: 'gone@bounce.example',
            code: 'recipient_refused',
            message: 'No such mailbox',
            provider_code: '550 5.1.1',
            deferred: false,
          },
          {
            address: 'later@defer.example',
            code: 'recipient_refused',
            message: 'Try again later',
            provider_code: '451 4.3.0',
            deferred: true,
          },
        ],
      },
    })
    expect((await messagesTo('some@example.com'))[0].to).toEqual(['some@example.com'])
  })

  test.each([
    ['declined', ['gone@bounce.example', 'away@bounce.example'], '550 5.1.1'],
    ['retry', ['later@defer.example', 'gone@bounce.example'], '550 5.1.1'],
    ['retry', ['later@defer.example', 'also@defer.example'], '451 4.3.0'],
  ])('end the attempt if the server refuses all of them: %s', async (kind, all, provider_code) => {
    expect(await email.sendEmail(emailTo(all), NEVER_ABORTED)).toMatchObject({
      kind,
      failure: { code: 'recipient_refused', provider_code },
      refused: all.map((address) => ({ address })),
    })
  })

  test("do not appear in the text of a server's reply", async () => {
    const text = '550 5.1.1 <ada@example.com>: bounces+ada=40example.com@x.example has no ADA@EXAMPLE.COM'
    await server.fault({ match: { method: 'RCPT' }, fault: { refuse_400: true, code: text } })
    expect(await email.sendEmail(emailTo(['ada@example.com']), NEVER_ABORTED)).toMatchObject({
      failure: { message: '<address>: <address> has no <address>' },
    })
  })

  test('in bcc appear in no header, and a display name cannot add an address', async () => {
    const visible = ['"Lovelace, Ada" <ada@example.com>', 'Grüße <grüße@bücher.example>']
    const recipients = ['ada@example.com', 'grüße@bücher.example', 'hidden@example.com']
    const sent = await email.sendEmail(
      emailTo(visible, { cc: ['Carl <carl@example.com>'], recipients }),
      NEVER_ABORTED,
    )
    expect(sent).toMatchObject({ kind: 'done' })
    const [message] = await messagesTo('hidden@example.com')
    expect(message.raw).not.toContain('hidden')
    expect(message.to).toHaveLength(3)
    expect(message.headers.to).toContain('"Lovelace, Ada" <ada@example.com>, Grüße <')
    expect(message.headers).toMatchObject({
      cc: 'Carl <carl@example.com>',
      from: 'Shop <shop@sluice.example>',
    })
  })
})

describe('connections', () => {
  const countGreetings = async () => (await server.requests({ method: 'EHLO' })).length

  test('that the server closes while they are idle lose no email', async () => {
    await email.sendEmail(emailTo(['first@example.com']), NEVER_ABORTED)
    const before = await countGreetings()
    await email.sendEmail(emailTo(['again@example.com']), NEVER_ABORTED)
    expect(await countGreetings()).toBe(before)
    // The server closes the connection at the next command, with or without a reply.
    for (const fault of ['drop_before', 'rate_limited_429']) {
      await server.fault({ match: { method: 'MAIL' }, fault })
      expect(await email.sendEmail(emailTo([`${fault}@example.com`]), NEVER_ABORTED)).toMatchObject({
        kind: 'done',
      })
      expect(await messagesTo(`${fault}@example.com`)).toHaveLength(1)
    }
    expect(await countGreetings()).toBe(before + 2)
  })

  test('that are lost after the final dot do not cause a second sending', async () => {
    await email.sendEmail(emailTo(['warm@example.com']), NEVER_ABORTED)
    await server.fault({ match: { method: 'DOT' }, fault: 'drop_after' })
    expect(await email.sendEmail(emailTo(['once@example.com']), NEVER_ABORTED)).toMatchObject(AMBIGUOUS)
    expect(await messagesTo('once@example.com')).toHaveLength(1)
  })

  test('are reused after a refusal, without the envelope of the refused email', async () => {
    await email.sendEmail(emailTo(['gone@bounce.example']), NEVER_ABORTED)
    const before = await countGreetings()
    expect(await email.sendEmail(emailTo(['kept@example.com']), NEVER_ABORTED)).toMatchObject({
      kind: 'done',
    })
    expect(await countGreetings()).toBe(before)
  })

  test('send many concurrent emails once each, within the maximum of connections', async () => {
    const before = await countGreetings()
    const addresses = Array.from({ length: 100 }, (_, at) => `many-${at}@example.com`)
    const outcomes = await Promise.all(
      addresses.map((address) =>
        email.withConnection(
          'shop',
          NEVER_ABORTED,
          async () => await email.sendEmail(emailTo([address]), NEVER_ABORTED),
        ),
      ),
    )
    expect(outcomes.filter(({ kind }) => kind !== 'done')).toEqual([])
    const all: any[] = await server.control('GET', '/messages')
    for (const address of addresses) expect(all.filter((each) => each.to.includes(address))).toHaveLength(1)
    expect(await countGreetings()).toBe(before + 2)
  })

  test('do not start an email that is aborted while it waits for a connection', async () => {
    const [aborted, release] = [new AbortController(), Promise.withResolvers<void>()]
    const busy = [1, 2].map(() =>
      email.withConnection('shop', NEVER_ABORTED, async () => await release.promise),
    )
    const waiting = email.withConnection('other', aborted.signal, async () => 'begun')
    aborted.abort()
    await expect(waiting).rejects.toThrow(NotStarted)
    release.resolve()
    await Promise.all(busy)
  })
})

describe('permits and aborts', () => {
  const permit = (more: Partial<Permit>): Permit => ({
    signal: NEVER_ABORTED,
    lane: '',
    deadline_ms: null,
    valid: () => true,
    renew: async () => true,
    used: () => {},
    ...more,
  })

  test('every email needs a permit', async () => {
    let used = 0
    const paused = permit({ valid: () => false, renew: async () => false, used: () => used++ })
    const sending = permits.run(paused, () => email.sendEmail(emailTo(['paused@example.com']), NEVER_ABORTED))
    await expect(sending).rejects.toThrow(NotStarted)
    const allowed = permit({ used: () => used++ })
    await permits.run(allowed, () => email.sendEmail(emailTo(['allowed@example.com']), NEVER_ABORTED))
    expect(used).toBe(1)
    expect(await messagesTo('paused@example.com')).toEqual([])
  })

  test('a permit whose renewal loses the connection to the database sends nothing, and releases the connection to the server', async () => {
    const sql = connectDatabase(await postgresUrl(), { max: 1, application_name: 'test' })
    onTestFinished(() => sql.end({ timeout: 1 }))
    const calls: FinishedCall[] = []
    const observed = openProvider({ onCall: (call) => calls.push(call) })
    const lost = permit({
      valid: () => false,
      renew: async () => (await sql`select pg_terminate_backend(pg_backend_pid())`).count > 0,
      used: () => expect.fail('nothing may be sent'),
    })
    const countGreetings = async () => (await server.requests({ method: 'EHLO' })).length
    const before = await countGreetings()
    for (let times = 1; times <= 3; times++) {
      const sending = permits.run(lost, () =>
        observed.sendEmail(emailTo(['lost@example.com']), NEVER_ABORTED),
      )
      const error: unknown = await sending.catch((refused: unknown) => refused)
      expect(error).toBeInstanceOf(NotStarted)
      expect((error as NotStarted).cause).toMatchObject({ code: '57P01' })
    }
    expect(calls).toEqual([])
    expect(await observed.sendEmail(emailTo(['found@example.com']), NEVER_ABORTED)).toMatchObject({
      kind: 'done',
    })
    // All four used one connection.
    expect(await countGreetings()).toBe(before + 1)
    expect(await messagesTo('lost@example.com')).toEqual([])
    await observed.close()
  })

  test.each([
    ['RCPT', unsent('connection_failed')],
    ['DOT', AMBIGUOUS],
  ])('an abort ends the wait for a reply to %s', async (method, outcome) => {
    const abort_controller = new AbortController()
    const hold = await server.fault({ match: { method }, fault: 'hold' })
    const sending = email.sendEmail(emailTo(['left@example.com']), abort_controller.signal)
    await until('the reply is held', async () => (await server.control('GET', '/faults')).data[0].held === 1)
    abort_controller.abort()
    expect(await sending).toMatchObject(outcome)
    await hold.remove()
  })

  test('a permit whose deadline passes before the reply leads to an ambiguous outcome', async () => {
    const hold = await server.fault({ match: { method: 'DOT' }, fault: 'hold' })
    const short = permit({ deadline_ms: 1500 })
    expect(
      await permits.run(short, () => email.sendEmail(emailTo(['slow@example.com']), NEVER_ABORTED)),
    ).toMatchObject(AMBIGUOUS)
    await hold.remove()
  })
})

describe('a delivered email', () => {
  test('has no line of more than 998 bytes, and its long fields are complete', async () => {
    const subject = `${'a'.repeat(990)} ${'b'.repeat(7)}`
    await email.sendEmail(
      emailTo(['long@example.com'], {
        subject,
        headers: { 'X-Long': `${'x'.repeat(990)} ${'y'.repeat(7)}` },
        list_unsubscribe_url: `https://a.example/${'u'.repeat(972)}`,
        text: 'z'.repeat(5_000),
      }),
      NEVER_ABORTED,
    )
    const [message] = await messagesTo('long@example.com')
    const lengths = message.raw.split('\r\n').map((line: string) => Buffer.byteLength(line))
    expect(Math.max(...lengths)).toBeLessThanOrEqual(998)
    expect(message.subject).toBe(subject)
  })

  test('has the given texts, attachments and headers', async () => {
    const html = `<p>Käse &amp; Brot</p>\r<p>${'long '.repeat(300)}</p>`
    const text = '.\n..\nKäse 🧀\rno line of its own'
    const sent = await email.sendEmail(
      emailTo(['whole@example.com'], {
        message_id: '<whole@sluice.example>',
        subject: `Über ${'sehr '.repeat(30)}lange Betreffzeilen 🧀`,
        text,
        html,
        reply_to: 'Help <help@sluice.example>',
        headers: { 'X-Order': 'Nr. 5', 'X-Sluice-Message-Id': 'm-1' },
        list_unsubscribe_url: `https://sluice.example/out/${'a'.repeat(120)}`,
        attachments: [
          {
            filename: 'Rechnung "Käse".pdf',
            content_type: 'application/pdf',
            content: Buffer.from([0, 255, 13, 10, 46]),
          },
        ],
      }),
      NEVER_ABORTED,
    )
    expect(sent).toEqual({ kind: 'done', value: { refused: [] } })
    const [message] = await messagesTo('whole@example.com')
    expect(message).toMatchObject({
      from: 'Shop <shop@sluice.example>',
      subject: `Über ${'sehr '.repeat(30)}lange Betreffzeilen 🧀`,
      text: text.replaceAll(/\r\n?|\n/g, '\r\n'),
      html: html.replaceAll(/\r\n?|\n/g, '\r\n'),
      headers: {
        'message-id': '<whole@sluice.example>',
        'reply-to': 'Help <help@sluice.example>',
        'x-order': 'Nr. 5',
        'list-unsubscribe': `<https://sluice.example/out/${'a'.repeat(120)}>`,
        'list-unsubscribe-post': 'List-Unsubscribe=One-Click',
      },
    })
    const page = await (await fetch(`${server.url}/messages/${message.id}`)).text()
    expect(page).toContain('Rechnung &quot;Käse&quot;.pdf')
    const file = await fetch(`${server.url}/messages/${message.id}/attachments/0`)
    expect([...new Uint8Array(await file.arrayBuffer())]).toEqual([0, 255, 13, 10, 46])
    expect((await server.effects({ message_id: '<whole@sluice.example>' }))[0]).toMatchObject({
      effect: 'message',
      recipients: [expect.any(String)],
      metadata: { message_id: 'm-1' },
    })
  })

  test('contains an attached 8-bit email unchanged, and is sent with BODY=8BITMIME', async () => {
    const attached_text = 'From: a@example.com\r\nContent-Transfer-Encoding: 8bit\r\n\r\nKäse'
    const attached = {
      filename: 'a.eml',
      content_type: 'message/rfc822',
      content: Buffer.from(attached_text),
    }
    expect(
      await email.sendEmail(emailTo(['eight@example.com'], { attachments: [attached] }), NEVER_ABORTED),
    ).toMatchObject({ kind: 'done' })
    const [message] = await messagesTo('eight@example.com')
    expect(message.raw).toContain(attached_text)
  })

  test('has no header or SMTP command that a field has injected', async () => {
    const injection = 'x\r\nBcc: evil@example.com\r\n\r\n<script>\n.\r\nMAIL FROM:<evil@example.com>'
    const sent = await email.sendEmail(
      emailTo(['Ada\r\nX-Evil: 1 <safe@example.com>'], {
        from: 'Shop\r\nX-Evil: 2 <shop@sluice.example>',
        reply_to: 'Help\nX-Evil: 3 <help@sluice.example>',
        message_id: '<safe@sluice.example>\r\nX-Evil: 4',
        subject: injection,
        headers: { 'X-A': injection, 'X-B\r\nX-Evil': '5' },
        list_unsubscribe_url: `https://sluice.example/\r\nX-Evil: 6`,
        attachments: [
          { filename: `a\r\nX-Evil: 7`, content_type: `a/b\r\nX-Evil: 8`, content: Buffer.of(1) },
        ],
        recipients: ['safe@example.com'],
      }),
      NEVER_ABORTED,
    )
    expect(sent).toMatchObject({ kind: 'done' })
    const [message] = await messagesTo('safe@example.com')
    expect(message.raw).not.toMatch(/^(X-Evil|Bcc|MAIL)/im)
    expect(
      await email.sendEmail(emailTo(['a@example.com>\r\nRCPT TO:<evil@example.com']), NEVER_ABORTED),
    ).toMatchObject({
      kind: 'declined',
    })
    expect(await messagesTo('evil@example.com')).toEqual([])
  })

  test('has a signature that covers its fields and the unsubscribe headers', async () => {
    const signing = openProvider({ dkim: { domain: 'sluice.example', selector: 'mail', private_key: PEM } })
    await signing.sendEmail(
      emailTo(['signed@example.com'], {
        text: 'one \n\n.two\r three\n\n\n',
        html: '<p>Käse</p>',
        list_unsubscribe_url: 'https://sluice.example/out',
        attachments: [
          {
            filename: 'inner.eml',
            content_type: 'message/rfc822',
            content: Buffer.from('Subject: Inner\n\n.\r.'),
          },
        ],
      }),
      NEVER_ABORTED,
    )
    await signing.close()
    const [{ raw }] = await messagesTo('signed@example.com')
    expect(verifySignature(raw, publicKey)).toEqual({ domain: 'sluice.example', selector: 'mail', ok: true })
    const changes = [
      ['Subject: Hello', 'Subject: Hallo'],
      ['List-Unsubscribe: <https://sluice.example/out>', 'List-Unsubscribe: <https://evil.example/out>'],
      ['List-Unsubscribe=One-Click', 'List-Unsubscribe=Two-Clicks'],
      ['To: signed@', 'To: other@'],
      ['.two', '.zwei'],
    ] as const
    for (const [before, after] of changes) {
      expect(raw).toContain(before)
      expect(verifySignature(raw.replace(before, after), publicKey)).toMatchObject({ ok: false })
    }
  })
})

test('a DKIM key that cannot sign is refused', () => {
  const { privateKey: other } = generateKeyPairSync('ed25519')
  const private_key = other.export({ type: 'pkcs8', format: 'pem' })
  expect(() => openProvider({ dkim: { domain: 'a.example', selector: 'b', private_key } })).toThrow(
    'must be an RSA key',
  )
})

describe('the inbox of the emulator', () => {
  test('shows an email without running its content', async () => {
    const html = '<script>alert(1)</script><img src="https://evil.example/pixel"><a href="/">x</a>'
    await email.sendEmail(emailTo(['page@example.com'], { subject: '<b>bold</b>', html }), NEVER_ABORTED)
    const [{ id }] = await messagesTo('page@example.com')
    const inbox = await (await fetch(server.url)).text()
    expect(inbox).toContain(`<a href="/messages/${id}">&lt;b&gt;bold&lt;/b&gt;</a>`)
    const page = await fetch(`${server.url}/messages/${id}`)
    expect(await page.text()).toContain(`<iframe sandbox="" referrerpolicy="no-referrer"`)
    expect(page.headers.get('content-security-policy')).toMatch(/^default-src 'none'.*frame-src 'self'/)
    const html_response = await fetch(`${server.url}/messages/${id}/html`)
    expect(await html_response.text()).toBe(html)
    expect(html_response.headers.get('content-security-policy')).toMatch(/^sandbox; default-src 'none'/)
    const foreign = `GET /messages/${id}/raw HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n`
    expect((await sendBytes(server.url, foreign)).status).toBe(403)
    expect((await fetch(`${server.url}/messages/none`)).status).toBe(404)
  })

  const HEAD = 'Date: Thu, 26 Nov 2026 10:00:00 +0000\r\nFrom: <a@example.com>\r\n'
  test.each<[name: string, code: number, command: string]>([
    ['a command of 513 bytes', 500, `MAIL FROM:<a@example.com> SIZE=${'0'.repeat(480)}1`],
    ['a local part of 65 bytes', 501, `MAIL FROM:<${'a'.repeat(65)}@example.com>`],
    ['a path of 257 bytes', 501, `MAIL FROM:<a@${'b'.repeat(60)}.${'c'.repeat(190)}.d>`],
    ['an address that is not ASCII', 553, 'MAIL FROM:<grüße@example.com>'],
  ])('refuses %s', async (_name, code, command) => {
    expect(await converse(['EHLO test', command])).toEqual([220, 250, code])
  })

  test.each<[name: string, text: string, more?: string]>([
    ['a line of 999 bytes', `${HEAD}\r\n${'x'.repeat(999)}`],
    ['a bare line feed', `${HEAD}\r\na\nb`],
    ['8 bits that were not announced', `${HEAD}\r\nKäse`],
    ['a header that is not ASCII', `${HEAD}Subject: Käse\r\n\r\nx`, ' BODY=8BITMIME'],
    ['no date', 'From: <a@example.com>\r\n\r\nx'],
    ['two subjects', `${HEAD}Subject: a\r\nSubject: b\r\n\r\nx`],
    ['a header without a name', `${HEAD}: a\r\n\r\nx`],
  ])('refuses a text with %s', async (_name, text, more = '') => {
    const mail = [`MAIL FROM:<a@example.com>${more}`, 'RCPT TO:<b@example.com>', 'DATA', `${text}\r\n.`]
    expect((await converse(['EHLO test', ...mail])).at(-1)).toBe(554)
  })

  test('accepts at most a hundred recipients', async () => {
    const recipients = Array.from({ length: 101 }, (_, nth) => `RCPT TO:<r${nth}@example.com>`)
    const codes = await converse(['EHLO test', 'MAIL FROM:<a@example.com>', ...recipients])
    expect(codes.slice(-2)).toEqual([250, 452])
  })

  test('stores an email whose reply is lost, and does not store a refused email', async () => {
    expect(await email.sendEmail(emailTo(['ada@lost.example']), NEVER_ABORTED)).toMatchObject(AMBIGUOUS)
    expect(await messagesTo('ada@lost.example')).toHaveLength(1)
    expect(await email.sendEmail(emailTo(['ada@reject.example']), NEVER_ABORTED)).toMatchObject(
      declined('content_refused', '554 5.6.0'),
    )
    expect(await messagesTo('ada@reject.example')).toEqual([])
  })
})

/** Checks the signature of an email (RFC 6376, relaxed/relaxed). */
function verifySignature(raw: string, key: KeyObject): { domain: string; selector: string; ok: boolean } {
  const [head = '', ...rest] = raw.split('\r\n\r\n')
  const fields = head.split(/\r\n(?![ \t])/)
  const relaxed = (field: string) => {
    const colon = field.indexOf(':')
    const value = field
      .slice(colon + 1)
      .replaceAll(/\r\n/g, '')
      .replaceAll(/[ \t]+/g, ' ')
      .trim()
    return `${field.slice(0, colon).trim().toLowerCase()}:${value}`
  }
  const signature = relaxed(fields.find((field) => /^dkim-signature:/i.test(field))!)
  const tags = Object.fromEntries(
    signature
      .slice(signature.indexOf(':') + 1)
      .split(';')
      .map((tag) => {
        const [name = '', ...value] = tag.split('=')
        return [name.trim(), value.join('=').replaceAll(/\s/g, '')]
      }),
  )
  const body = rest
    .join('\r\n\r\n')
    .split('\r\n')
    .map((line) => line.replaceAll(/[ \t]+/g, ' ').trimEnd())
    .join('\r\n')
    .replace(/(\r\n)*$/, '\r\n')
  const hash = createHash('sha256').update(body).digest('base64')
  const signed = tags['h']!.split(':').map((name) =>
    relaxed(fields.findLast((field) => field.toLowerCase().startsWith(`${name.toLowerCase()}:`))!),
  )
  const text = [...signed, signature.replace(/(;\s*b=)[^;]*/, '$1')].join('\r\n')
  const ok =
    hash === tags['bh'] &&
    createVerify('RSA-SHA256').update(text).verify(key, Buffer.from(tags['b']!, 'base64'))
  return { domain: tags['d']!, selector: tags['s']!, ok }
}

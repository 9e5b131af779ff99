// Email over SMTP: what is known of each end of a conversation, and what the emails look like that arrive.
import { createHash, createVerify, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { connect } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { startSmtpEmulator } from '#emulators/smtp/main.ts'
import type { EmailProvider, OutgoingEmail } from '#providers/email.ts'
import type { FinishedCall } from '#providers/http.ts'
import { NotStarted, permits, type Permit } from '#providers/permit.ts'
import { openSmtp } from '#providers/smtp/client.ts'
import { until } from './support/process.ts'
import { handleOf, type Provider } from './support/providers.ts'
import { sendBytes } from './support/raw.ts'

const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const PEM = privateKey.export({ type: 'pkcs8', format: 'pem' })
const NOBODY = new AbortController().signal
/** More than the buffers between the two take while nobody reads. */
const LARGE = { filename: 'large.bin', content_type: 'application/octet-stream', content: Buffer.alloc(12e6) }

let emulator: Awaited<ReturnType<typeof startSmtpEmulator>>
let server: Provider
let email: EmailProvider
let last = 0

beforeAll(async () => {
  emulator = await startSmtpEmulator({ port: 0, api_key: 'right' })
  server = handleOf('smtp', { ...emulator.places, url: emulator.url })
})
afterAll(async () => await emulator.close())
beforeEach(() => {
  email = open()
  return async () => {
    await email.close()
    await server.control('DELETE', '/faults')
  }
})

function open(more: Partial<Parameters<typeof openSmtp>[0]> = {}): EmailProvider {
  return openSmtp({ url: emulator.places.smtp_url, connections: 2, dkim: null, ...more })
}

function to(recipients: string[], more: Partial<OutgoingEmail> = {}): OutgoingEmail {
  return {
    message_id: `<${++last}@sluice.example>`,
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
    ...more,
  }
}

/** The codes of the greeting and of the reply to each line. */
async function converse(lines: string[]): Promise<number[]> {
  const { hostname, port } = new URL(emulator.places.smtp_url)
  const socket = connect(Number(port), hostname)
  const codes: number[] = []
  const waiting = [...lines]
  let text = ''
  for await (const chunk of socket) {
    text += (chunk as Buffer).toString()
    const last = /^(\d{3}) .*\r\n$/m.exec(text)
    if (!text.endsWith('\r\n') || last === null) continue
    codes.push(Number(last[1]))
    text = ''
    const next = waiting.shift()
    if (next === undefined) break
    socket.write(`${next}\r\n`)
  }
  return codes
}

async function arrived(address: string): Promise<any[]> {
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

describe('Each end of a conversation', () => {
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
  ])('%s %j', async (method, fault, outcome, kept) => {
    const address = `ada-${++last}@example.com`
    const scripted = await server.fault({ match: { method }, fault })
    expect(await email.sendEmail(to([address]), NOBODY)).toMatchObject(outcome)
    expect(await scripted.hit()).toBe(1)
    expect(await arrived(address)).toHaveLength(kept)
    // Whatever happened, the next one is sent.
    expect(await email.sendEmail(to([address]), NOBODY)).toEqual({ kind: 'done', value: { refused: [] } })
    expect(await arrived(address)).toHaveLength(kept + 1)
  })

  test('A connection that ends before the dot was written is a certain end', async () => {
    await server.fault({ match: { method: 'BODY' }, fault: 'drop_before' })
    expect(await email.sendEmail(to(['large@example.com'], { attachments: [LARGE] }), NOBODY)).toMatchObject(
      unsent('connection_failed'),
    )
  })

  test('Nobody listens there', async () => {
    const elsewhere = open({ url: 'smtp://127.0.0.1:1' })
    expect(await elsewhere.sendEmail(to(['ada@example.com']), NOBODY)).toEqual({
      kind: 'retry',
      failure: { code: 'connection_failed', message: 'ECONNREFUSED', provider_code: null },
      reported: 'connect ECONNREFUSED 127.0.0.1:1',
    })
  })

  test('A server elsewhere that does not encrypt gets nothing', async () => {
    const url = emulator.places.smtp_url.replace('127.0.0.1', '[::ffff:127.0.0.1]')
    const address = 'clear@example.com'
    expect(await open({ url }).sendEmail(to([address]), NOBODY)).toMatchObject({ kind: 'misconfigured' })
    const lenient = open({ url, require_tls: false })
    expect(await lenient.sendEmail(to([address]), NOBODY)).toMatchObject({ kind: 'done' })
    expect(await arrived(address)).toHaveLength(1)
    await lenient.close()
  })

  test('A wrong password is a set-up that somebody has to mend', async () => {
    const url = emulator.places.smtp_url.replace('right', 'wrong')
    expect(await open({ url }).sendEmail(to(['ada@example.com']), NOBODY)).toMatchObject({
      kind: 'misconfigured',
      failure: { code: 'connection_failed', provider_code: '535 5.7.8' },
    })
  })

  test('What is answered to a login is not passed on: it may repeat the password', async () => {
    const code = '535 5.7.8 No user emulator with AGVtdWxhdG9yAHJpZ2h0'
    await server.fault({ match: { method: 'AUTH' }, fault: { refuse_400: true, code } })
    expect(await email.sendEmail(to(['ada@example.com']), NOBODY)).toEqual({
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
  ])('Nor is any other reply about our login: to %s, %s', async (method, code, kind) => {
    await server.fault({ match: { method }, fault: { refuse_400: true, code } })
    expect(await email.sendEmail(to(['ada@example.com']), NOBODY)).toMatchObject({
      kind,
      failure: { message: 'The server refused the login.', provider_code: code.slice(0, 9) },
    })
  })

  test.each(['GREETING', 'EHLO', 'MAIL', 'RCPT'])(
    'What ends a connection, after %s, is told to operators only',
    async (method) => {
      const calls: FinishedCall[] = []
      const watched = open({ onCall: (call) => calls.push(call) })
      const reported = 'mx3.internal.example: client 10.1.2.3 blocked'
      const fault = { refuse_400: true, code: `421 4.7.0 ${reported}` }
      await server.fault({ match: { method }, fault })
      expect(await watched.sendEmail(to(['ada@example.com']), NOBODY)).toMatchObject({
        kind: 'retry',
        failure: { message: 'The server refused the connection.', provider_code: '421 4.7.0' },
      })
      expect(calls).toMatchObject([{ outcome: 'retry', reported: `421 4.7.0 ${reported}` }])
      await watched.close()
    },
  )

  test('What is said of our login for one recipient of several is told to operators', async () => {
    const calls: FinishedCall[] = []
    const watched = open({ onCall: (call) => calls.push(call) })
    const code = '530 5.7.0 relay-user-7 may not send there'
    await server.fault({ match: { method: 'RCPT', contains: 'grace' }, fault: { refuse_400: true, code } })
    const sent = await watched.sendEmail(to(['ada@example.com', 'grace@example.com']), NOBODY)
    expect(sent).toMatchObject({ kind: 'done', value: { refused: [{ address: 'grace@example.com' }] } })
    expect(calls).toMatchObject([{ outcome: 'done', reported: code }])
    await watched.close()
  })

  test.each(['250 relay-user-7 has mail', '554 mx3.internal.example has no TLS'])(
    'So is what cannot be understood of a greeting: %s',
    async (code) => {
      await server.fault({ match: { method: 'GREETING' }, fault: { refuse_400: true, code } })
      const sent = await email.sendEmail(to(['ada@example.com']), NOBODY)
      expect(sent).toMatchObject({ failure: { code: 'connection_failed', message: expect.any(String) } })
      expect(sent).toMatchObject({ reported: code })
      expect(JSON.stringify({ ...sent, reported: null })).not.toMatch(/relay-user|internal/)
    },
  )

  test('The name that we log in with is in no text', async () => {
    const open_to_all = await startSmtpEmulator({ port: 0 })
    const name = 'relay-user-7@internal.example'
    const url = open_to_all.places.smtp_url.replace('emulator', encodeURIComponent(name))
    const relay = open({ url })
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
    const there = handleOf('smtp', { ...open_to_all.places, url: open_to_all.url })
    for (const [text, shown] of texts) {
      const code = `553 5.7.1 ${text}`
      await there.fault({ match: { method: 'MAIL' }, fault: { refuse_400: true, code } })
      expect(await relay.sendEmail(to(['ada@example.com']), NOBODY)).toMatchObject({
        failure: { code: 'sender_refused', message: shown },
      })
    }
  })

  test('What is kept of a reply can be stored', async () => {
    const kept = `${'a'.repeat(499)}\ufffd`
    const code = `550 5.1.1 ${'a'.repeat(499)}😀 no`
    const refusing = { fault: { refuse_400: true, code } }
    await server.fault({ match: { method: 'RCPT', contains: 'second@' }, ...refusing })
    expect(await email.sendEmail(to(['first@example.com', 'second@example.com']), NOBODY)).toMatchObject({
      value: { refused: [{ message: kept }] },
    })
    await server.fault({ match: { method: 'DATA' }, ...refusing })
    expect(await email.sendEmail(to(['ada@example.com']), NOBODY)).toMatchObject({
      failure: { message: kept },
    })
    const odd = { refuse_400: true, code: 'Who is ada@example.com\u0000?' }
    await server.fault({ match: { method: 'DOT' }, fault: odd })
    expect(await email.sendEmail(to(['ada@example.com']), NOBODY)).toEqual({
      kind: 'ambiguous',
      reason: 'Who is <address> ?',
    })
  })
})

describe('Recipients', () => {
  test('Some are refused, the others get it', async () => {
    const all = ['some@example.com', 'gone@bounce.example', 'later@defer.example']
    expect(await email.sendEmail(to(all), NOBODY)).toEqual({
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
    expect((await arrived('some@example.com'))[0].to).toEqual(['some@example.com'])
  })

  test.each([
    ['declined', ['gone@bounce.example', 'away@bounce.example'], '550 5.1.1'],
    ['retry', ['later@defer.example', 'gone@bounce.example'], '550 5.1.1'],
    ['retry', ['later@defer.example', 'also@defer.example'], '451 4.3.0'],
  ])('All are refused: %s', async (kind, all, provider_code) => {
    expect(await email.sendEmail(to(all), NOBODY)).toMatchObject({
      kind,
      failure: { code: 'recipient_refused', provider_code },
      refused: all.map((address) => ({ address })),
    })
  })

  test('What a server says names no address', async () => {
    const text = '550 5.1.1 <ada@example.com>: bounces+ada=40example.com@x.example has no ADA@EXAMPLE.COM'
    await server.fault({ match: { method: 'RCPT' }, fault: { refuse_400: true, code: text } })
    expect(await email.sendEmail(to(['ada@example.com']), NOBODY)).toMatchObject({
      failure: { message: '<address>: <address> has no <address>' },
    })
  })

  test('A bcc is in no header, and a name makes no other address', async () => {
    const seen = ['"Lovelace, Ada" <ada@example.com>', 'Grüße <grüße@bücher.example>']
    const recipients = ['ada@example.com', 'grüße@bücher.example', 'hidden@example.com']
    const sent = await email.sendEmail(to(seen, { cc: ['Carl <carl@example.com>'], recipients }), NOBODY)
    expect(sent).toMatchObject({ kind: 'done' })
    const [message] = await arrived('hidden@example.com')
    expect(message.raw).not.toContain('hidden')
    expect(message.to).toHaveLength(3)
    expect(message.headers.to).toContain('"Lovelace, Ada" <ada@example.com>, Grüße <')
    expect(message.headers).toMatchObject({
      cc: 'Carl <carl@example.com>',
      from: 'Shop <shop@sluice.example>',
    })
  })
})

describe('Connections', () => {
  const greeted = async () => (await server.requests({ method: 'EHLO' })).length

  test('One that the server ended while it was idle costs no email', async () => {
    await email.sendEmail(to(['first@example.com']), NOBODY)
    const before = await greeted()
    await email.sendEmail(to(['again@example.com']), NOBODY)
    expect(await greeted()).toBe(before)
    // The server hangs up, or says that it will, when it is asked again.
    for (const fault of ['drop_before', 'rate_limited_429']) {
      await server.fault({ match: { method: 'MAIL' }, fault })
      expect(await email.sendEmail(to([`${fault}@example.com`]), NOBODY)).toMatchObject({ kind: 'done' })
      expect(await arrived(`${fault}@example.com`)).toHaveLength(1)
    }
    expect(await greeted()).toBe(before + 2)
  })

  test('What was lost after the text was asked for is not sent again', async () => {
    await email.sendEmail(to(['warm@example.com']), NOBODY)
    await server.fault({ match: { method: 'DOT' }, fault: 'drop_after' })
    expect(await email.sendEmail(to(['once@example.com']), NOBODY)).toMatchObject(AMBIGUOUS)
    expect(await arrived('once@example.com')).toHaveLength(1)
  })

  test('After a refusal a connection is used again, without the envelope that was refused', async () => {
    await email.sendEmail(to(['gone@bounce.example']), NOBODY)
    const before = await greeted()
    expect(await email.sendEmail(to(['kept@example.com']), NOBODY)).toMatchObject({ kind: 'done' })
    expect(await greeted()).toBe(before)
  })

  test('Many at once go over as many connections as there may be, each once', async () => {
    const before = await greeted()
    const addresses = Array.from({ length: 100 }, (_, at) => `many-${at}@example.com`)
    const outcomes = await Promise.all(
      addresses.map((address) =>
        email.withConnection('shop', NOBODY, async () => await email.sendEmail(to([address]), NOBODY)),
      ),
    )
    expect(outcomes.filter(({ kind }) => kind !== 'done')).toEqual([])
    const all: any[] = await server.control('GET', '/messages')
    for (const address of addresses) expect(all.filter((each) => each.to.includes(address))).toHaveLength(1)
    expect(await greeted()).toBe(before + 2)
  })

  test('Who is no longer wanted while it waits has not begun', async () => {
    const [leaving, held] = [new AbortController(), Promise.withResolvers<void>()]
    const busy = [1, 2].map(() => email.withConnection('shop', NOBODY, async () => await held.promise))
    const waiting = email.withConnection('other', leaving.signal, async () => 'begun')
    leaving.abort()
    await expect(waiting).rejects.toThrow(NotStarted)
    held.resolve()
    await Promise.all(busy)
  })
})

describe('Permits', () => {
  const permit = (more: Partial<Permit>): Permit => ({
    signal: NOBODY,
    lane: '',
    deadline_ms: null,
    valid: () => true,
    renew: async () => true,
    used: () => {},
    ...more,
  })

  test('Without one nothing leaves', async () => {
    let used = 0
    const paused = permit({ valid: () => false, renew: async () => false, used: () => used++ })
    const sending = permits.run(paused, () => email.sendEmail(to(['paused@example.com']), NOBODY))
    await expect(sending).rejects.toThrow(NotStarted)
    const allowed = permit({ used: () => used++ })
    await permits.run(allowed, () => email.sendEmail(to(['allowed@example.com']), NOBODY))
    expect(used).toBe(1)
    expect(await arrived('paused@example.com')).toEqual([])
  })

  test.each([
    ['RCPT', unsent('connection_failed')],
    ['DOT', AMBIGUOUS],
  ])('An answer that is not waited for any more, at %s', async (method, outcome) => {
    const leaving = new AbortController()
    const held = await server.fault({ match: { method }, fault: 'hold' })
    const sending = email.sendEmail(to(['left@example.com']), leaving.signal)
    await until('it is held', async () => (await server.control('GET', '/faults')).data[0].held === 1)
    leaving.abort()
    expect(await sending).toMatchObject(outcome)
    await held.remove()
  })

  test('A deadline that passes while the answer is due', async () => {
    const held = await server.fault({ match: { method: 'DOT' }, fault: 'hold' })
    const short = permit({ deadline_ms: 300 })
    expect(await permits.run(short, () => email.sendEmail(to(['slow@example.com']), NOBODY))).toMatchObject(
      AMBIGUOUS,
    )
    await held.remove()
  })
})

describe('What arrives', () => {
  test('No line is longer than 998 bytes, and what is long is whole', async () => {
    const subject = `${'a'.repeat(990)} ${'b'.repeat(7)}`
    await email.sendEmail(
      to(['long@example.com'], {
        subject,
        headers: { 'X-Long': `${'x'.repeat(990)} ${'y'.repeat(7)}` },
        list_unsubscribe_url: `https://a.example/${'u'.repeat(972)}`,
        text: 'z'.repeat(5_000),
      }),
      NOBODY,
    )
    const [message] = await arrived('long@example.com')
    const lengths = message.raw.split('\r\n').map((line: string) => Buffer.byteLength(line))
    expect(Math.max(...lengths)).toBeLessThanOrEqual(998)
    expect(message.subject).toBe(subject)
  })

  test('Texts, attachments and headers, as they were given', async () => {
    const html = `<p>Käse &amp; Brot</p>\r<p>${'long '.repeat(300)}</p>`
    const text = '.\n..\nKäse 🧀\rno line of its own'
    const sent = await email.sendEmail(
      to(['whole@example.com'], {
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
      NOBODY,
    )
    expect(sent).toEqual({ kind: 'done', value: { refused: [] } })
    const [message] = await arrived('whole@example.com')
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
      recipients: 1,
      metadata: { message_id: 'm-1' },
    })
  })

  test('An attached email of 8 bits is announced as such, and comes as it was', async () => {
    const inner = 'From: a@example.com\r\nContent-Transfer-Encoding: 8bit\r\n\r\nKäse'
    const attached = { filename: 'a.eml', content_type: 'message/rfc822', content: Buffer.from(inner) }
    expect(
      await email.sendEmail(to(['eight@example.com'], { attachments: [attached] }), NOBODY),
    ).toMatchObject({ kind: 'done' })
    const [message] = await arrived('eight@example.com')
    expect(message.raw).toContain(inner)
  })

  test('Nothing that is given can begin a header of its own, or another command', async () => {
    const evil = 'x\r\nBcc: evil@example.com\r\n\r\n<script>\n.\r\nMAIL FROM:<evil@example.com>'
    const sent = await email.sendEmail(
      to(['Ada\r\nX-Evil: 1 <safe@example.com>'], {
        from: 'Shop\r\nX-Evil: 2 <shop@sluice.example>',
        reply_to: 'Help\nX-Evil: 3 <help@sluice.example>',
        message_id: '<safe@sluice.example>\r\nX-Evil: 4',
        subject: evil,
        headers: { 'X-A': evil, 'X-B\r\nX-Evil': '5' },
        list_unsubscribe_url: `https://sluice.example/\r\nX-Evil: 6`,
        attachments: [
          { filename: `a\r\nX-Evil: 7`, content_type: `a/b\r\nX-Evil: 8`, content: Buffer.of(1) },
        ],
        recipients: ['safe@example.com'],
      }),
      NOBODY,
    )
    expect(sent).toMatchObject({ kind: 'done' })
    const [message] = await arrived('safe@example.com')
    expect(message.raw).not.toMatch(/^(X-Evil|Bcc|MAIL)/im)
    expect(await email.sendEmail(to(['a@example.com>\r\nRCPT TO:<evil@example.com']), NOBODY)).toMatchObject({
      kind: 'declined',
    })
    expect(await arrived('evil@example.com')).toEqual([])
  })

  test('A signature covers what it names, also how to unsubscribe', async () => {
    const signing = open({ dkim: { domain: 'sluice.example', selector: 'mail', private_key: PEM } })
    await signing.sendEmail(
      to(['signed@example.com'], {
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
      NOBODY,
    )
    await signing.close()
    const [{ raw }] = await arrived('signed@example.com')
    expect(verified(raw, publicKey)).toEqual({ domain: 'sluice.example', selector: 'mail', ok: true })
    const changes = [
      ['Subject: Hello', 'Subject: Hallo'],
      ['List-Unsubscribe: <https://sluice.example/out>', 'List-Unsubscribe: <https://evil.example/out>'],
      ['List-Unsubscribe=One-Click', 'List-Unsubscribe=Two-Clicks'],
      ['To: signed@', 'To: other@'],
      ['.two', '.zwei'],
    ] as const
    for (const [before, after] of changes) {
      expect(raw).toContain(before)
      expect(verified(raw.replace(before, after), publicKey)).toMatchObject({ ok: false })
    }
  })
})

test('A key that cannot sign is refused, not passed over', () => {
  const { privateKey: other } = generateKeyPairSync('ed25519')
  const private_key = other.export({ type: 'pkcs8', format: 'pem' })
  expect(() => open({ dkim: { domain: 'a.example', selector: 'b', private_key } })).toThrow(
    'must be an RSA key',
  )
})

describe('The inbox', () => {
  test('shows an email without letting it do anything', async () => {
    const html = '<script>alert(1)</script><img src="https://evil.example/pixel"><a href="/">x</a>'
    await email.sendEmail(to(['page@example.com'], { subject: '<b>bold</b>', html }), NOBODY)
    const [{ id }] = await arrived('page@example.com')
    const inbox = await (await fetch(server.url)).text()
    expect(inbox).toContain(`<a href="/messages/${id}">&lt;b&gt;bold&lt;/b&gt;</a>`)
    const page = await fetch(`${server.url}/messages/${id}`)
    expect(await page.text()).toContain(`<iframe sandbox="" referrerpolicy="no-referrer"`)
    expect(page.headers.get('content-security-policy')).toMatch(/^default-src 'none'.*frame-src 'self'/)
    const shown = await fetch(`${server.url}/messages/${id}/html`)
    expect(await shown.text()).toBe(html)
    expect(shown.headers.get('content-security-policy')).toMatch(/^sandbox; default-src 'none'/)
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

  test('takes a hundred recipients and no more', async () => {
    const recipients = Array.from({ length: 101 }, (_, nth) => `RCPT TO:<r${nth}@example.com>`)
    const codes = await converse(['EHLO test', 'MAIL FROM:<a@example.com>', ...recipients])
    expect(codes.slice(-2)).toEqual([250, 452])
  })

  test('keeps what is lost on the way, and nothing that is refused', async () => {
    expect(await email.sendEmail(to(['ada@lost.example']), NOBODY)).toMatchObject(AMBIGUOUS)
    expect(await arrived('ada@lost.example')).toHaveLength(1)
    expect(await email.sendEmail(to(['ada@reject.example']), NOBODY)).toMatchObject(
      declined('content_refused', '554 5.6.0'),
    )
    expect(await arrived('ada@reject.example')).toEqual([])
  })
})

/** Checks the signature of an email (RFC 6376, relaxed/relaxed). */
function verified(raw: string, key: KeyObject): { domain: string; selector: string; ok: boolean } {
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

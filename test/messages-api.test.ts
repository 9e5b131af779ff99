// Tests the acceptance, display and cancellation of messages by the API, without a worker.
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { describe, expect, onTestFinished } from 'vitest'
import { startApi } from '#api/main.ts'
import { createMemoryLimiter } from '#api/routes/messages/requester.ts'
import { bareAddress, createAddressHash } from '#core/addresses.ts'
import { createLog } from '#core/log.ts'
import { segmentsOf } from '#core/segments.ts'
import { createClient, freshKey, type Answer, type Client } from '#test/client.ts'
import { MESSAGE_SENDERS } from '#test/messages.ts'
import { until } from '#test/process.ts'
import { memoryInUse } from '#test/raw.ts'
import { testActor } from '#test/environment.ts'
import { eventually } from '#test/payments.ts'
import { setEmailDomains, setSmsSenders } from '#domain/tenants.ts'
import { testIn, type World } from '#test/world.ts'

const ASYNC = { prefer: 'respond-async' }
const EMAIL = { to: ['Ada <ada@example.com>'], subject: 'Shipped', text: 'It is on its way.' }
const SMS = { to: '+4915112345678', body: 'It is on its way.' }
const FILE = { filename: 'a.txt', content_type: 'text/plain', content: 'aGVsbG8=' }

const test = testIn({ parts: ['api'], env: MESSAGE_SENDERS })

type Fields = Record<string, unknown>
async function email(
  client: Client,
  fields: Fields = {},
  headers: Record<string, string> = ASYNC,
  by = client,
) {
  return await by.post('/v1/messages/email', { idempotency_key: freshKey(), ...EMAIL, ...fields }, headers)
}
async function sms(
  client: Client,
  fields: Fields = {},
  headers: Record<string, string> = ASYNC,
  by = client,
) {
  return await by.post('/v1/messages/sms', { idempotency_key: freshKey(), ...SMS, ...fields }, headers)
}
const jobOf = async (world: World, id: string) => {
  const [job] = await world.sql`select * from jobs where resource_id = ${id}`
  return job
}
const later = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()
/** The counts of messages and of all rows that are written with them. */
async function countRows(world: World): Promise<unknown> {
  const [row] = await world.sql`
    select (select count(*) from messages) as messages, (select count(*) from jobs) as jobs,
      (select count(*) from events) as events, (select count(*) from idempotency_keys) as keys,
      (select count(*) from message_attachments) as files, (select sum(used) from message_limits) as used`
  return row
}
/** A client of a second API on the same database, with changed settings. */
async function apiWith(
  world: World,
  changes: Partial<World['config']>,
  key = world.client.key,
): Promise<Client> {
  const api = await startApi({ ...world.config, ...changes }, createLog('silent', 'test'))
  onTestFinished(() => api.close())
  return createClient(api.url, key)
}
/** Suppresses an address of a tenant. */
async function suppress(
  world: World,
  channel: 'email' | 'sms',
  address: string,
  tenant_id = world.tenant_id,
) {
  const hash = createAddressHash(world.env['ADDRESS_KEY']!)(channel, address)
  await world.sql`
    insert into suppressions (tenant_id, id, channel, address, sealed, reason)
    values (${tenant_id}, gen_random_uuid(), ${channel}, ${hash}, 'sealed', 'manual')`
}

test('an accepted email is shown, and its content is stored only encrypted', async ({ world, client }) => {
  const secret = randomBytes(6).toString('hex')
  const name = `Ada-${secret}`
  const fields = {
    to: [`${name} <to-${secret}@example.com>`, `TO-${secret}@EXAMPLE.com`],
    cc: [`cc-${secret}@example.com`, `to-${secret}@example.com`],
    bcc: [`bcc-${secret}@münchen.example`],
    from: `"Shop, ${secret}" <shop@example.org>`,
    reply_to: 'help@example.org',
    subject: `About ${secret}`,
    text: `The text is ${secret}.`,
    html: `<p>${secret}</p>`,
    headers: { 'X-Order': secret, 'in-reply-to': '<a@example.com>' },
    list_unsubscribe_url: `https://example.com/${secret}`,
    attachments: [{ ...FILE, filename: `${secret}.txt` }],
  }
  const { status, body, headers } = await email(client, {
    ...fields,
    tags: ['one', 'two', 'one'],
    metadata: { a: 1 },
  })
  const no_status = { status: null, code: null, message: null }
  expect([status, body]).toMatchObject([
    202,
    {
      ...fields,
      channel: 'email',
      status: 'queued',
      to: [fields.to[0]],
      cc: [fields.cc[0]],
      tags: ['one', 'two'],
      attachments: [{ filename: `${secret}.txt`, content_type: 'text/plain', size: 5 }],
      recipients: [
        { address: `to-${secret}@example.com`, ...no_status },
        { address: `cc-${secret}@example.com`, ...no_status },
        { address: `bcc-${secret}@münchen.example`, ...no_status },
      ],
      provider: 'smtp',
      provider_reference: null,
      failure: null,
      body: null,
      segments: null,
      encoding: null,
      price: null,
      send_at: null,
      sent_at: null,
      metadata: { a: 1 },
    },
  ])
  expect(headers.get('location')).toBe(`/v1/messages/${body.id}`)
  expect((await client.get(`/v1/messages/${body.id}`)).body).toEqual(body)
  const tables = ['messages', 'message_attachments', 'jobs', 'events', 'idempotency_keys', 'message_limits']
  for (const table of tables) {
    const rows = await world.sql`select to_jsonb(t)::text as row from ${world.sql(table)} t`
    expect([table, rows.filter(({ row }) => row.includes(secret))]).toEqual([table, []])
  }
})

test('an accepted SMS is shown', async ({ world, client }) => {
  const { status, body } = await sms(client, { from: 'Shop', validity_s: 60 })
  expect([status, body]).toMatchObject([
    202,
    {
      ...SMS,
      channel: 'sms',
      status: 'queued',
      from: 'Shop',
      segments: 1,
      encoding: 'GSM-7',
      validity_s: 60,
      provider: 'twilio',
      recipients: null,
      price: null,
      subject: null,
      text: null,
    },
  ])
  expect((await sms(client)).body.from).toBe(MESSAGE_SENDERS.TWILIO_FROM)
  const [row] = await world.sql`select sender from messages where id = ${body.id}`
  expect(row!['sender']).toBe(createAddressHash(world.env['ADDRESS_KEY']!)('sms', 'Shop'))
})

test.each([
  ['a', 160, 'GSM-7', 1],
  ['a', 161, 'GSM-7', 2],
  ['a', 306, 'GSM-7', 2],
  ['a', 307, 'GSM-7', 3],
  ['€', 80, 'GSM-7', 1],
  ['€', 81, 'GSM-7', 2],
  // 76 characters of two units each fit into a part of 153 units.
  ['€', 152, 'GSM-7', 2],
  ['€', 153, 'GSM-7', 3],
  ['名', 70, 'UCS-2', 1],
  ['名', 71, 'UCS-2', 2],
  ['😀', 35, 'UCS-2', 1],
  ['😀', 36, 'UCS-2', 2],
  // 33 surrogate pairs fit into a part of 67 units.
  ['😀', 66, 'UCS-2', 2],
  ['😀', 67, 'UCS-2', 3],
  ['ç', 1, 'UCS-2', 1],
  ['Ç', 160, 'GSM-7', 1],
] as const)(
  'a text of %s repeated %i times is encoded as %s in %i parts',
  (character, times, encoding, segments) => {
    expect(segmentsOf(character.repeat(times))).toEqual({ encoding, segments })
  },
)

test('a character of two units that does not fit at the end of a part moves to the next part', () => {
  expect(segmentsOf(`${'a'.repeat(159)}€`)).toEqual({ encoding: 'GSM-7', segments: 2 })
  expect(segmentsOf(`${'a'.repeat(152)}€${'a'.repeat(152)}`)).toEqual({ encoding: 'GSM-7', segments: 3 })
  expect(segmentsOf(`${'名'.repeat(66)}😀${'名'.repeat(66)}`)).toEqual({ encoding: 'UCS-2', segments: 3 })
})

const VALID =
  `+4915112345678 +4930123456 +43664123456 +41791234567 +33612345678 +31612345678 +32470123456 +34612345678
  +351912345678 +393123456789 +390612345678 +447911123456 +442071234567 +353851234567 +4520123456 +4740123456 +46701234567
  +358401234567 +48501234567 +420601123456 +36201234567 +302101234567 +905321234567 +79161234567 +77012345678 +12025550123
  +14165550123 +18765551234 +15005550006 +15005550001 +525512345678 +5511961234567 +5491123456789 +56961234567
  +573211234567 +61412345678 +6421123456 +819012345678 +8613812345678 +85251234567 +886912345678 +821012345678
  +919812345678 +6591234567 +66812345678 +6281234567890 +639171234567 +84912345678 +971501234567 +966512345678
  +972502345678 +201001234567 +2348021234567 +254712123456 +27711234567 +212650123456`.split(/\s+/)
const INVALID = [
  '',
  '4915112345678',
  '004915112345678',
  '+',
  '+0',
  '+015112345678',
  '+49',
  '+491',
  '+49151',
  '+4915112345678901',
  '+49 151 12345678',
  '+49-151-12345678',
  '+49(151)12345678',
  '+4915112345678 ',
  ' +4915112345678',
  '+4915112345678\n',
  '+49151123456a8',
  '+４９15112345678',
  'tel:+4915112345678',
  '+4915112345678;ext=1',
  '+4915112345678,+4915112345679',
  '+1',
  '+1202555',
  '+1202555012',
  '+120255501234',
  '+11234567890',
  '+10005551234',
  '+15551234567',
  '+999123456789',
  '+2101234567890',
  '+3361234567',
  '+336123456789',
  '+441234',
  '+12345',
  '+99999999999',
  '+000000000000',
  '+1e10',
  'abc',
  17,
  null,
  ['+4915112345678'],
]

test('phone numbers are validated by the numbering plan of their country', async ({ client }) => {
  expect([VALID.length, INVALID.length]).toEqual([56, 41])
  const send = async (numbers: unknown[]) => {
    const messages = numbers.map((to) => ({ ...SMS, to, idempotency_key: freshKey() }))
    const { status, body } = await client.post('/v1/messages/sms/batch', { messages })
    expect(status).toBe(200)
    return body.map((item: any, nth: number) => [numbers[nth], item.status, item.error?.param])
  }
  expect(await send(VALID)).toEqual(VALID.map((number) => [number, 202, undefined]))
  expect(await send(INVALID)).toEqual(INVALID.map((number) => [number, 400, 'to']))
})

const BREAKS = ['\r\nBcc: eve@example.com', '\n', '\r', '\t', '\u0001', '\u007f', '\u0085', '\u2028']
const INVALID_ADDRESSES =
  `|ada|ada@|@example.com|ada@example|ada@exa mple.com|a da@example.com|ada@@example.com|ada@-example.com
ada@example..com|.ada@example.com|ada.@example.com|ada@127.0.0.1|ada@[::1]|ada@ü/x.com|Ada <ada@example.com|Ada <>
Eve, Ada <ada@example.com>|eve@example.com, ada@example.com|Ada (x) <ada@example.com>|ada@exam\u202eple.com|jürgen@example.com
A: <ada@example.com>|"Ada" Eve" <ada@example.com>| ada@example.com|Ada <ada@example.com> x`.split(/[|\n]/)

const addresses = (field: string, list = false): [string, unknown[]] => [
  list ? `${field}.0` : field,
  [
    ...INVALID_ADDRESSES,
    `${'a'.repeat(65)}@example.com`,
    `ada@${'a.'.repeat(130)}com`,
    ...BREAKS.flatMap((text) => [
      `ada@example.com${text}`,
      `A${text}da <ada@example.com>`,
      `"A${text}" <ada@example.com>`,
    ]),
    17,
    {},
  ].map((value) => (list ? [value] : value)),
]

describe('an email with an invalid field is refused, and nothing is stored', () => {
  test.for<[string, unknown[]]>([
    addresses('to', true),
    addresses('cc', true),
    addresses('bcc', true),
    addresses('from'),
    addresses('reply_to'),
    ['to', [undefined, [], 'ada@example.com', Array.from({ length: 51 }, (_, n) => `a${n}@example.com`)]],
    ['subject', [undefined, null, '', 'x'.repeat(999), ...BREAKS.map((text) => `Shipped${text}`)]],
    ['text', [undefined, '', 17, 'x'.repeat(1_000_001)]],
    ['html', ['', 17]],
    ['variables', [{ name: 'Ada' }]],
    ['headers', [17, ['X-A'], Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`X-${n}`, 'x']))]],
    ...[
      'Bcc',
      'To',
      'From',
      'Subject',
      'Content-Type',
      'List-Unsubscribe',
      'X',
      'X-',
      'X-a b',
      'X-a:',
      'X-ä',
      '',
    ].map((name): [string, unknown[]] => [`headers.${name}`, [{ [name]: 'x' }]]),
    ...BREAKS.map((text): [string, unknown[]] => [`headers.X-A${text}`, [{ [`X-A${text}`]: 'x' }]]),
    [
      'headers.X-A',
      [
        ...['', 'x'.repeat(991), ...BREAKS].map((text) => ({ 'X-A': text })),
        { 'X-A': 17 },
        { 'x-a': 'x', 'X-A': 'y' },
      ],
    ],
    ['tags', [Array(11).fill('x'), 'x']],
    ['tags.0', [[''], ['x'.repeat(65)], [17], ...BREAKS.map((text) => [`a${text}`])]],
    [
      'attachments.0.filename',
      ['', '../a', 'a/b', 'a\\b', '..', 'x'.repeat(256), ...BREAKS.map((text) => `a${text}b`)].map(
        (filename) => [{ ...FILE, filename }],
      ),
    ],
    [
      'attachments.0.content_type',
      [
        '',
        'text',
        'text/',
        'text/plain;',
        'text/plain; x',
        'a b/c',
        ...BREAKS.map((text) => `text/plain${text}`),
      ].map((content_type) => [{ ...FILE, content_type }]),
    ],
    [
      'attachments.0.content',
      ['a', 'aGVsbG8', 'aGVsbG9=', 'aGVs bG8=', 'aGVsbG8=\n', 'aGVsbG8-', 'aGVsbG8=aGVs', 17].map(
        (content) => [{ ...FILE, content }],
      ),
    ],
    [
      'attachments.0.content',
      [
        [
          {
            filename: 'a.eml',
            content_type: 'message/rfc822',
            content: Buffer.from(`A: b\r\n\r\n${'x'.repeat(999)}`).toString('base64'),
          },
        ],
      ],
    ],
    ['attachments', [Array.from({ length: 51 }, () => FILE)]],
    [
      'list_unsubscribe_url',
      [
        'http://example.com',
        'https://',
        'https://a b',
        'https://a>b',
        'mailto:a@b.c',
        `https://a/${'x'.repeat(981)}`,
        ...BREAKS.map((text) => `https://example.com${text}/`),
      ],
    ],
    ['send_at', ['tomorrow', '2026-02-30T00:00:00Z', later(-1), later(31), 17]],
    ['nope', [1]],
  ])('%s', async ([param, values], { world, client }) => {
    const [field] = param.split('.') as [string]
    const before = await countRows(world)
    for (const value of values) {
      const { status, body } = await email(client, { [field]: value })
      expect([value, status, body.error?.code, body.error?.param]).toEqual([
        value,
        400,
        'invalid_request',
        param.slice(0, 100),
      ])
    }
    expect(await countRows(world)).toEqual(before)
  })
})

test('an invalid field in a message of 14 MB is found in linear time', async ({ client }) => {
  const mib = 1024 * 1024
  const lines = (last: number) =>
    Buffer.from(`${`${'x'.repeat(998)}\n`.repeat(10 * 1024)}${'x'.repeat(last)}\r`).toString('base64')
  const attached = (last: number) => ({
    attachments: [{ filename: 'a.eml', content_type: 'message/rfc822', content: lines(last) }],
  })
  const folded = `${'a'.repeat(990)} `
  for (const [param, fields] of [
    ['headers.X-A', { headers: { 'X-A': folded.repeat((14 * mib) / folded.length) } }],
    ['attachments.0.content', attached(999)],
  ] as const) {
    const { status, body } = await email(client, fields)
    expect([status, body.error.param]).toEqual([400, param])
  }
  expect((await email(client, attached(998))).status).toBe(202)
  const word = (length: number) => email(client, { headers: { 'X-A': `a ${'b'.repeat(length)}` } })
  expect([(await word(990)).status, (await word(991)).status]).toEqual([202, 400])
})

test('unread responses with large messages limit only their own tenant, until the connections close', async ({
  world,
  client,
}) => {
  const own = await world.clientOf()
  const large = '\u20ac'.repeat(1_000_000)
  const { id } = (await email(client, { text: large, html: large, send_at: later(5) }, ASYNC, own)).body
  const api = await apiWith(world, { RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 1_000_000 }, own.key)
  const { hostname, port } = new URL(api.url)
  const request = `GET /v1/messages/${id} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${own.key}\r\n\r\n`
  const before = memoryInUse()
  const unread = Array.from({ length: 40 }, () => {
    const socket = connect(Number(port), hostname)
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => {}).pause()
    socket.write(request)
    return socket
  })
  const refused = await api.get(`/v1/messages/${id}`)
  expect([refused.status, refused.body.error.code]).toEqual([429, 'rate_limited'])
  expect(refused.body.error.message).toContain('large answers')
  const { arrayBuffers, heapUsed } = memoryInUse()
  expect(arrayBuffers + heapUsed - before.arrayBuffers - before.heapUsed).toBeLessThan(150 * 1024 * 1024)
  // Other tenants and small responses are served.
  const other = createClient(api.url, client.key)
  expect((await other.get('/v1/messages/templates/none')).status).toBe(400)
  expect((await api.get('/v1/payments/0198f6f0-0000-7000-8000-000000000000')).status).toBe(404)
  for (const socket of unread) socket.destroy()
  await until(
    'the message is readable again',
    async () => (await api.get(`/v1/messages/${id}`)).status === 200,
  )
})

test('an SMS with an invalid field is refused', async ({ client }) => {
  for (const [param, values] of Object.entries({
    body: [undefined, '', 'x'.repeat(1601), '😀'.repeat(801), 17],
    from: ['', '+0', '15005550006', 'MG_', 'much too long', '12345', ' Shop', 'Shop\n', 'Shöp'],
    validity_s: [0, 36_001, 1.5, '60'],
    send_at: [later(-1), later(31)],
    variables: [{}],
    subject: ['x'],
  }))
    for (const value of values) {
      const { status, body } = await sms(client, { [param]: value })
      expect([param, value, status, body.error?.param]).toEqual([param, value, 400, param])
    }
  expect((await sms(client, { body: '😀'.repeat(800), from: `MG${'0'.repeat(32)}` })).status).toBe(202)
})

test('unusual valid fields are accepted', async ({ client }) => {
  const recipients = [
    '"Lovelace, Ada" <ada@example.com>',
    "o'neil+x@example.co.uk",
    '<a@b.co>',
    'Ada 👩‍💻 Bär <x@xn--p1ai.example>',
  ]
  const attachments = [
    {
      filename: 'Rechnung für Ada.pdf',
      content_type: 'application/vnd.x+json; charset="utf-8"; v=1',
      content: '',
    },
  ]
  const { status, body } = await email(client, {
    to: recipients,
    bcc: ['ada@例え.テスト'],
    attachments,
    list_unsubscribe_url: 'https://example.com/a?b=c&d=%20#e',
    subject: 'Grüße 👋',
  })
  expect([status, body.to, body.attachments[0].size]).toEqual([202, recipients, 0])
  const both = await email(client, {
    text: undefined,
    html: '<p>x</p>',
    to: Array.from({ length: 50 }, (_, n) => `a${n}@example.com`),
  })
  expect([both.status, both.body.recipients.length]).toEqual([202, 50])
})

test('emails are accepted only from allowed domains, and SMS only to allowed countries', async ({
  world,
  client,
}) => {
  const idempotency_key = freshKey()
  const first = await email(client, { idempotency_key, from: 'x@other.example' })
  const call = { idempotency_key: freshKey() }
  expect((await sms(client, call)).status).toBe(202)
  const strict = await apiWith(world, {
    EMAIL_FROM_DOMAINS: ['Shop.example', 'xn--mnchen-3ya.example'],
    SMS_COUNTRIES: ['FR', 'US'],
  })
  const refused = await email(client, { from: 'Ada <x@other.example>' }, ASYNC, strict)
  expect([refused.status, refused.body.error]).toMatchObject([
    400,
    { code: 'invalid_request', param: 'from', message: 'Email may not be from addresses at other.example.' },
  ])
  expect((await email(client, { from: 'x@sub.shop.example' }, ASYNC, strict)).status).toBe(400)
  for (const from of ['x@SHOP.example', 'Ada <x@münchen.example>', undefined])
    expect([from, (await email(client, { from }, ASYNC, strict)).status]).toEqual([from, 202])
  expect(await sms(client, {}, ASYNC, strict)).toMatchObject({
    status: 422,
    body: { error: { code: 'destination_not_allowed', param: 'to', context: { country: 'DE' } } },
  })
  expect((await sms(client, { to: '+33612345678' }, ASYNC, strict)).status).toBe(202)
  // A replay of a message that was accepted before succeeds under the new rules.
  const replayed = await email(client, { idempotency_key, from: 'x@other.example' }, ASYNC, strict)
  expect([replayed.status, replayed.body, replayed.headers.get('idempotent-replayed')]).toEqual([
    202,
    first.body,
    'true',
  ])
  expect((await sms(client, call, ASYNC, strict)).headers.get('idempotent-replayed')).toBe('true')
})

test('headers that control relays are refused unless they are allowed, and headers that Sluice sets are always refused', async ({
  world,
  client,
}) => {
  for (const name of [
    'X-SMTPAPI',
    'x-smtpapi',
    'X-MC-BccAddress',
    'X-MSYS-API',
    'X-SES-CONFIGURATION-SET',
    'X-PM-Message-Stream',
    'X-Mailgun-Variables',
    'X-MJ-CustomID',
    'X-Mailjet-Campaign',
    'X-Mailin-Tag',
    'X-Sib-Sandbox',
    'X-ElasticEmail-Settings',
    'X-xsMailingId',
    'X-MT-Category',
    'X-Smtp2go-X',
    'X-Virtual-MTA',
    'X-Envelope-To',
    'X-CMP-ReportGroupId',
    'X-Rm-Profile',
    'X-Smtpeter-TrackBounces',
    'X-Cmail-GroupName',
    'X-Transactional-Template',
    'X-TM-TAGS',
    // Names that resemble the headers of unknown relays.
    'X-Profile',
    'X-Bcc',
    'X-Relay-AddBcc',
    'X-VERP',
    'X-Esp-Campaign-Id',
    'X-Esp-TemplateId',
    'X-Esp-TrackOpens',
    'X-Esp-Tag',
    'X-Esp-Metadata-Order',
    'X-Esp-IP-Pool',
    'X-Sluice-Message-ID',
    'X-Sluice-Anything',
  ]) {
    const { status, body } = await email(client, { headers: { [name]: 'x' } })
    expect([name, status, body.error?.code, body.error?.param]).toEqual([
      name,
      400,
      'invalid_request',
      `headers.${name}`,
    ])
  }
  for (const name of [
    'X-Order',
    'X-Job-Id',
    'X-Author',
    'X-Priority',
    'X-Entity-Ref-ID',
    'X-Auto-Response-Suppress',
    'X-Stage',
    'X-Carpool',
    'X-Mailer',
    'References',
  ])
    expect([name, (await email(client, { headers: { [name]: 'x' } })).status]).toEqual([name, 202])
  const refusalOf = async (name: string) =>
    (await email(client, { headers: { [name]: 'x' } })).body.error.message
  expect(await refusalOf('X-PM-Tag')).toContain('EMAIL_HEADERS_ALLOWED=X-PM-Tag')
  expect(await refusalOf('X-Sluice-Message-ID')).not.toContain('EMAIL_HEADERS_ALLOWED')
  const trusting = await apiWith(world, {
    EMAIL_HEADERS_ALLOWED: ['X-PM-Tag', 'x-mj-*', 'X-Our-Tag', 'X-Sluice-*'],
  })
  for (const [name, status] of [
    ['X-Pm-Tag', 202],
    ['X-Our-Tag', 202],
    ['X-PM-Message-Stream', 400],
    ['X-MJ-CustomID', 202],
    ['X-Sluice-Message-ID', 400],
  ] as const)
    expect([name, (await email(client, { headers: { [name]: 'x' } }, ASYNC, trusting)).status]).toEqual([
      name,
      status,
    ])
  const batch = await client.post('/v1/messages/email/batch', {
    messages: [{ ...EMAIL, idempotency_key: freshKey(), headers: { 'X-SMTPAPI': '{}' } }],
  })
  expect(batch.body).toMatchObject([{ status: 400, error: { param: 'headers.X-SMTPAPI' } }])
})

test('no tenant can send from the address that the system uses', async ({ world, client }) => {
  const guarded = await apiWith(world, { SYSTEM_EMAIL_FROM: 'Sluice <System@Sluice.example>' })
  for (const [param, address] of [
    ['from', 'system@sluice.example'],
    ['from', 'Shop <SYSTEM@SLUICE.EXAMPLE>'],
    ['from', 'system@ｓluice.example'],
    ['from', '"system@sluice.example" <shop@shop.example>'],
    ['from', '"System @ Sluice.example" <shop@shop.example>'],
    ['from', '"sys\u200btem@sluice.example" <shop@shop.example>'],
    // The invisible characters: grapheme joiners, Hangul fillers, variation selectors, tags, and a blank braille
    // pattern.
    ...[
      '\u034f',
      '\u115f',
      '\u3164',
      '\uffa0',
      '\u17b4',
      '\u180b',
      '\ufe0f',
      '\u{e0100}',
      '\u{e0061}',
      '\u2800',
    ].map((invisible) => ['from', `"sys${invisible}tem@sluice.example" <shop@shop.example>`] as const),
    ['from', '"ecosystem@sluice.example" <shop@shop.example>'],
    ['from', '=?utf-8?B?c3lzdGVtQHNsdWljZS5leGFtcGxl?= <shop@shop.example>'],
    ['from', 'Shop <system+shop@sluice.example>'],
    ['from', '"system"@sluice.example'],
    ['from', 'system@sluice.example.'],
    ['reply_to', 'Help <system@sluice.example>'],
    ['reply_to', 'System+a+b@sluice.example'],
  ] as const) {
    const { status, body } = await email(client, { [param]: address }, ASYNC, guarded)
    expect([address, status, body.error?.param]).toEqual([address, 400, param])
  }
  for (const from of [
    'ecosystem@sluice.example',
    'system@sub.sluice.example',
    'systems+1@sluice.example',
    '"A = B?" <shop@sluice.example>',
    undefined,
  ])
    expect([from, (await email(client, { from }, ASYNC, guarded)).status]).toEqual([from, 202])
  const named = await apiWith(world, { SYSTEM_EMAIL_FROM: 'system@xn--mnchen-3ya.example' })
  for (const from of ['system@MÜNCHEN.example', '"system@münchen.example" <shop@shop.example>'])
    expect([from, (await email(client, { from }, ASYNC, named)).status]).toEqual([from, 400])
  // By default, the system sends from another address of the default domain.
  expect((await email(client, { from: 'system@shop.example' })).body.error?.param).toBe('from')
})

test('a tenant with its own list of sender domains sends only from these domains', async ({
  world,
  client,
}) => {
  const other = await world.clientOf()
  const limited = await apiWith(world, { EMAIL_FROM_DOMAINS: ['shop.example'] }, other.key)
  const statusOf = async (from: string, by = limited) => (await email(client, { from }, ASYNC, by)).status
  const by = testActor(other.tenant_id)
  expect([await statusOf('a@shop.example'), await statusOf('a@own.example')]).toEqual([202, 400])
  await setEmailDomains(world.sql, other.tenant_id, ['own.example', 'xn--mnchen-3ya.example'], by)
  await eventually(async () => expect(await statusOf('a@own.example')).toBe(202))
  for (const [from, status] of [
    ['A <a@OWN.example>', 202],
    ['a@münchen.example', 202],
    ['a@shop.example', 400],
    ['a@sub.own.example', 400],
    ['a@own.example.evil.example', 400],
    ['a@own.example.', 400],
    [world.config.EMAIL_FROM!, 202],
    [bareAddress(world.config.EMAIL_FROM!), 202],
    [`Another shop <${bareAddress(world.config.EMAIL_FROM!)}>`, 400],
  ] as const)
    expect([from, await statusOf(from)]).toEqual([from, status])
  expect((await email(client, {}, ASYNC, limited)).status).toBe(202)
  await setEmailDomains(world.sql, other.tenant_id, [], by)
  await eventually(async () => expect(await statusOf('a@own.example')).toBe(400))
  await setEmailDomains(world.sql, other.tenant_id, null, by)
  await eventually(async () => expect(await statusOf('a@shop.example')).toBe(202))
  expect(await statusOf('a@own.example')).toBe(400)
})

test('a tenant with its own SMS senders uses only these senders, and by default the first sender', async ({
  world,
  client,
}) => {
  const other = await world.clientOf()
  const by = testActor(other.tenant_id)
  const fromOf = async (from?: string) => {
    const { status, body } = await sms(client, { ...(from !== undefined && { from }) }, ASYNC, other)
    return [status, body.from ?? body.error?.param]
  }
  const standard = world.config.TWILIO_FROM
  expect([await fromOf(), await fromOf('+15005550001')]).toEqual([
    [202, standard],
    [202, '+15005550001'],
  ])
  await setSmsSenders(world.sql, other.tenant_id, ['+15005550002', 'Shop'], by)
  await eventually(async () => expect(await fromOf()).toEqual([202, '+15005550002']))
  for (const [from, expected] of [
    ['Shop', [202, 'Shop']],
    ['+15005550001', [400, 'from']],
    [standard, [400, 'from']],
  ] as const)
    expect([from, await fromOf(from)]).toEqual([from, expected])
  await setSmsSenders(world.sql, other.tenant_id, [], by)
  await eventually(async () => expect(await fromOf()).toEqual([202, standard]))
  expect(await fromOf('Shop')).toEqual([400, 'from'])
})

test('a scheduled or suppressed message is answered with 201 immediately', async ({ world, client }) => {
  const send_at = later(29)
  const scheduled = await sms(client, { send_at }, {})
  expect([scheduled.status, scheduled.body.status]).toEqual([201, 'scheduled'])
  expect(Date.parse(scheduled.body.send_at)).toBe(Date.parse(send_at))
  expect(await jobOf(world, scheduled.body.id)).toMatchObject({
    run_at: expect.stringContaining(send_at.slice(0, 10)),
    wakeup_sent_at: null,
    request: { retries: true },
  })

  await suppress(world, 'email', 'gone@example.com')
  await suppress(world, 'email', 'away@example.com')
  const some = await email(client, {
    to: ['Gone <GONE@example.com>'],
    cc: ['ada@example.com'],
    attachments: [FILE],
  })
  expect(some.body).toMatchObject({
    status: 'queued',
    recipients: [
      { address: 'GONE@example.com', status: 'suppressed' },
      { address: 'ada@example.com', status: null },
    ],
  })
  const all = await email(
    client,
    { to: ['gone@example.com'], bcc: ['away@example.com'], attachments: [FILE], send_at },
    {},
  )
  expect([all.status, all.body.status]).toEqual([201, 'suppressed'])
  expect(await jobOf(world, all.body.id)).toBe(undefined)
  const files =
    await world.sql`select message_id from message_attachments where message_id in (${some.body.id}, ${all.body.id})`
  expect(files.map(({ message_id }) => message_id)).toEqual([some.body.id])

  const other_tenant = await world.clientOf()
  expect((await email(client, { to: ['gone@example.com'] }, ASYNC, other_tenant)).body.status).toBe('queued')
})

type Change = (id: string) => Promise<unknown>
/** Sends an email with a request that waits, changes the email, and returns the response. */
async function responseAfter(
  world: World,
  change: Change,
): Promise<Answer & { id: string; idempotency_key: string }> {
  const idempotency_key = freshKey()
  const waiting = email(world.client, { idempotency_key }, { prefer: 'wait=20' })
  const id = await until('the email is stored', async () => {
    const [row] = await world.sql<{ id: string }[]>`
      select id from messages where idempotency_key = ${idempotency_key}`
    return row?.id
  })
  await change(id)
  return { ...(await waiting), id, idempotency_key }
}
const setJobState = async (
  world: World,
  id: string,
  state: string,
  error: Record<string, string> | null = null,
) =>
  await world.sql`
    update jobs set state = ${state}, last_error = ${world.sql.json(error)},
      unknown_since = case when ${state} = 'unknown' then now() end,
      finished_at = case when ${state} <> 'unknown' then now() end
    where resource_id = ${id}`
const setSent = async (world: World, id: string) =>
  await world.sql`update messages set status = 'sent', sent_at = now() where id = ${id}`

test('a waiting request and its replay report that an email has failed, and the replay later reports that the email was sent after all', async ({
  world,
  client,
}) => {
  const provider_error = { provider_code: '550', provider_message: 'No.' }
  const message = 'No such mailbox.'
  const response = await responseAfter(world, async (id) => {
    const failure = { code: 'recipient_refused', message, provider_code: '550' }
    await world.sql`update messages set status = 'failed', failure = ${world.sql.json(failure)} where id = ${id}`
    await setJobState(world, id, 'failed', { code: 'email_send_failed', message, ...provider_error })
  })
  const { id, idempotency_key } = response
  const expected = {
    status: 500,
    body: { error: { code: 'email_send_failed', message, context: { message_id: id, ...provider_error } } },
  }
  expect(response).toMatchObject(expected)
  expect(await email(client, { idempotency_key }, {})).toMatchObject(expected)
  expect(await jobOf(world, id)).toMatchObject({ request: { retries: false } })
  await setSent(world, id)
  const now = await email(client, { idempotency_key }, {})
  expect([now.status, now.body.id, now.body.status]).toEqual([201, id, 'sent'])
})

test('a request whose email has an unknown outcome waits a moment for the outcome, and then gets 202', async ({
  world,
}) => {
  const [unknown, resolved, discarded] = await Promise.all([
    responseAfter(world, async (id) => {
      await world.sql`update messages set status = 'unknown' where id = ${id}`
      await setJobState(world, id, 'unknown')
    }),
    responseAfter(world, async (id) => {
      await setJobState(world, id, 'unknown')
      await setSent(world, id)
    }),
    responseAfter(world, async (id) => await setJobState(world, id, 'discarded')),
  ])
  expect(unknown).toMatchObject({ status: 202, body: { status: 'unknown' } })
  expect(resolved).toMatchObject({ status: 201, body: { status: 'sent' } })
  expect(discarded).toMatchObject({ status: 500, body: { error: { code: 'email_send_failed' } } })
})

test('200 requests with one key create one message, and the key can be used again on the other route', async ({
  world,
  client,
}) => {
  const idempotency_key = freshKey()
  const responses = await Promise.all(
    Array.from({ length: 200 }, () => email(client, { idempotency_key, attachments: [FILE] })),
  )
  expect(new Set(responses.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1)
  expect(responses.filter(({ headers }) => headers.get('idempotent-replayed') === null)).toHaveLength(1)
  const rows = await world.sql`select id from messages where idempotency_key = ${idempotency_key}`
  expect(rows).toHaveLength(1)
  expect(
    (await email(client, { idempotency_key, attachments: [{ ...FILE, content: '' }] })).body.error.code,
  ).toBe('idempotency_key_reused')
  expect((await sms(client, { idempotency_key })).status).toBe(202)
  const { body } = await client.get(`/v1/idempotency_keys/${idempotency_key}`)
  expect(body.map(({ route, resource, status }: any) => [route, resource, status])).toEqual([
    ['POST /v1/messages/sms', 'message', 'under_way'],
    ['POST /v1/messages/email', 'message', 'under_way'],
  ])
})

test('each message of a batch is accepted or refused independently, and the responses are in order', async ({
  world,
  client,
}) => {
  await suppress(world, 'email', 'quiet@example.com')
  const duplicate = { ...EMAIL, idempotency_key: freshKey() }
  const before = await email(client, { idempotency_key: freshKey() })
  const replayed = { ...EMAIL, idempotency_key: before.body.idempotency_key }
  const key = () => ({ idempotency_key: freshKey() })
  const messages = [
    { ...EMAIL, ...key() },
    { ...EMAIL, ...key(), to: ['nobody'] },
    { ...EMAIL },
    { ...EMAIL, ...key(), send_at: later(1) },
    { ...EMAIL, ...key(), to: ['quiet@example.com'] },
    { ...EMAIL, ...key(), send_at: later(-1) },
    duplicate,
    duplicate,
    { ...duplicate, text: 'Other.' },
    replayed,
    { ...EMAIL, ...key(), text: undefined, template: 'nobody' },
    17,
    null,
  ]
  const { status, body } = await client.post('/v1/messages/email/batch', { messages })
  expect(status).toBe(200)
  expect(
    body.map((item: any) => [item.status, item.message?.status ?? item.error.code, item.error?.param]),
  ).toEqual([
    [202, 'queued', undefined],
    [400, 'invalid_request', 'to.0'],
    [400, 'invalid_request', 'idempotency_key'],
    [201, 'scheduled', undefined],
    [201, 'suppressed', undefined],
    [400, 'invalid_request', 'send_at'],
    [202, 'queued', undefined],
    [202, 'queued', undefined],
    [422, 'idempotency_key_reused', 'idempotency_key'],
    [202, 'queued', undefined],
    [404, 'template_not_found', 'template'],
    [400, 'invalid_request', 'message'],
    [400, 'invalid_request', 'message'],
  ])
  expect([body[6].message.id, body[9].message]).toEqual([body[7].message.id, before.body])
  expect(body[1].error).toMatchObject({
    request_id: expect.any(String),
    doc_url: expect.stringContaining('#invalid_request'),
  })
  // The route for single messages shares the key.
  expect((await email(client, duplicate)).headers.get('idempotent-replayed')).toBe('true')
  for (const wrong of [
    {},
    { messages: [] },
    { messages: Array.from({ length: 101 }, () => SMS) },
    { messages: {} },
  ])
    for (const route of ['email', 'sms'])
      expect((await client.post(`/v1/messages/${route}/batch`, wrong)).status).toBe(400)
})

/** Moves the limit windows of a tenant a day ahead, so that no window ends during a test. */
async function extendWindows(world: World, tenant_id: string) {
  await world.sql`update message_limits set window_start = window_start + interval '1 day' where tenant_id = ${tenant_id}`
}
const countOf = (responses: Answer[], status: number) =>
  responses.filter((response) => response.status === status).length

test('of 100 concurrent messages, exactly the number that the limit per minute still permits is accepted', async ({
  world,
  client,
}) => {
  const { key, tenant_id } = await world.clientOf()
  const limited = await apiWith(world, { MESSAGES_PER_MINUTE: 30 }, key)
  expect((await email(client, {}, ASYNC, limited)).status).toBe(202)
  await extendWindows(world, tenant_id)
  const responses = await Promise.all(
    Array.from({ length: 100 }, (_, n) =>
      n % 3 === 0 ? sms(client, {}, ASYNC, limited) : email(client, {}, ASYNC, limited),
    ),
  )
  expect([countOf(responses, 202), countOf(responses, 429)]).toEqual([29, 71])
  const refused = responses.find(({ status }) => status === 429)!
  expect(refused.body.error).toMatchObject({
    code: 'rate_limited',
    context: { limit: { of: 'tenant', messages: 30, window_s: 60 } },
  })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(60)
  const [row] = await world.sql`
    select (select count(*) from messages where tenant_id = ${tenant_id}) as messages,
      (select count(*) from jobs where tenant_id = ${tenant_id}) as jobs,
      (select count(*) from events where tenant_id = ${tenant_id}) as events,
      (select count(*) from idempotency_keys where tenant_id = ${tenant_id}) as keys`
  expect(row).toEqual({ messages: 30, jobs: 30, events: 30, keys: 30 })
  // The next window begins with the full limit.
  await world.sql`update message_limits set window_start = now() - interval '2 minutes' where tenant_id = ${tenant_id} and scope = 'minute'`
  expect((await email(client, {}, ASYNC, limited)).status).toBe(202)
})

test('of 100 concurrent messages to one destination, exactly the number that its limit still permits is accepted, whatever their other destinations', async ({
  world,
  client,
}) => {
  const { key, tenant_id } = await world.clientOf()
  const limited = await apiWith(world, { MESSAGES_PER_DESTINATION_HOUR: 10 }, key)
  expect((await email(client, {}, ASYNC, limited)).status).toBe(202)
  await extendWindows(world, tenant_id)
  const recipients = (n: number) => ({ to: [`a${n}@example.com`], cc: ['ADA@example.com'] })
  const messages = Array.from({ length: 50 }, (_, n) => ({
    ...EMAIL,
    ...recipients(n),
    idempotency_key: freshKey(),
  }))
  const [batch, ...responses] = await Promise.all([
    limited.post('/v1/messages/email/batch', { messages }),
    ...Array.from({ length: 50 }, (_, n) => email(client, recipients(100 + n), ASYNC, limited)),
  ])
  const statuses = [...batch.body.map(({ status }: any) => status), ...responses.map(({ status }) => status)]
  expect([202, 429].map((status) => statuses.filter((each) => each === status).length)).toEqual([9, 91])
  const refused = await email(client, recipients(1), ASYNC, limited)
  expect(refused.body.error.context).toEqual({
    limit: { of: 'destination', messages: 10, window_s: 3600 },
    address: 'ADA@example.com',
  })
  expect((await email(client, { to: ['b@example.com'] }, ASYNC, limited)).status).toBe(202)
})

test('a message can be canceled until it is sent', async ({ world, client }) => {
  const scheduled = (await email(client, { send_at: later(1) })).body
  const idempotency_key = freshKey()
  const cancel = async (id: string, body?: object, by = client) =>
    await by.post(`/v1/messages/${id}/cancel`, body)
  const other_tenant = await world.clientOf()
  expect((await cancel(scheduled.id, undefined, other_tenant)).body.error.code).toBe('message_not_found')
  const canceled = await cancel(scheduled.id, { idempotency_key })
  expect([canceled.status, canceled.body]).toEqual([
    200,
    { ...scheduled, status: 'canceled', updated_at: canceled.body.updated_at },
  ])
  const again = await cancel(scheduled.id, { idempotency_key })
  expect([again.status, again.body, again.headers.get('idempotent-replayed')]).toEqual([
    200,
    canceled.body,
    'true',
  ])
  const events =
    await world.sql`select type from events where subject_id = ${scheduled.id} order by created_at`
  expect(events.map(({ type }) => type)).toEqual(['message.created', 'message.canceled'])

  expect((await cancel((await sms(client)).body.id)).body.status).toBe('canceled')
  const sending = (await sms(client)).body.id
  await world.sql`update messages set status = 'sending' where id = ${sending}`
  expect(await cancel(sending)).toMatchObject({
    status: 409,
    body: { error: { code: 'message_not_cancelable', context: { status: 'sending' } } },
  })
  const cancellations = await Promise.all(Array.from({ length: 20 }, async () => await cancel(scheduled.id)))
  expect(countOf(cancellations, 409)).toBe(20)
})

test('lists are filtered, omit texts, and contain no message of another tenant', async ({
  world,
  client,
}) => {
  const own = await world.clientOf()
  const other_tenant = await world.clientOf()
  const first = (await email(client, { tags: ['a', 'b'], cc: ['Eve <eve@example.com>'] }, ASYNC, own)).body
  const second = (await sms(client, {}, ASYNC, own)).body
  const third = (await email(client, { tags: ['b'], to: ['bob@example.com'], send_at: later(1) }, ASYNC, own))
    .body
  await email(client, { tags: ['a', 'b'] }, ASYNC, other_tenant)
  const listed = async (query: string, by: Client = own) => {
    const { status, body } = await by.get(`/v1/messages?${query}`)
    expect([query, status]).toEqual([query, 200])
    return body.map(({ id }: any) => id)
  }
  expect(await listed('')).toEqual([third.id, second.id, first.id])
  for (const [query, ...found] of [
    ['channel=sms', second],
    ['channel=email', third, first],
    ['status=scheduled', third],
    ['status=queued&channel=email', first],
    ['status=sent'],
    ['status=failed'],
    ['to=ADA@example.com', first],
    ['to=eve@example.com', first],
    [`to=${encodeURIComponent(SMS.to)}`, second],
    ['to=nobody@example.com'],
    ['tag=b', third, first],
    ['tag=b&to=ada@example.com', first],
    ['tag=A'],
    [`created_from=${second.created_at}&created_to=${third.created_at}`, second],
    [`before=${second.created_at}`, first],
  ] as [string, ...{ id: string }[]][])
    expect([query, await listed(query)]).toEqual([query, found.map(({ id }) => id)])
  const [, , list_item] = (await own.get('/v1/messages')).body
  expect(list_item).toEqual({ ...first, text: null })
  for (const query of ['to=x', 'to=a%20b', 'tag=', 'channel=fax', 'status=lost', 'nope=1'])
    expect([query, (await own.get(`/v1/messages?${query}`)).status]).toEqual([query, 400])
  for (const path of ['', '/timeline'])
    expect((await other_tenant.get(`/v1/messages/${first.id}${path}`)).body.error.code).toBe(
      'message_not_found',
    )
  const timeline = (await own.get(`/v1/messages/${first.id}/timeline`)).body
  expect(timeline.map(({ name }: any) => name)).toEqual(['message.created'])
})

test('attachments are stored once and encrypted, and the body limit of an email is higher than that of other requests', async ({
  world,
  client,
}) => {
  const content = randomBytes(3 * 1024 * 1024).toString('base64')
  const { status, body } = await email(client, { attachments: [FILE, { ...FILE, content }] })
  expect([status, body.attachments.map(({ size }: any) => size)]).toEqual([202, [5, 3 * 1024 * 1024]])
  const files =
    await world.sql`select nth, length(content) as length from message_attachments where message_id = ${body.id} order by nth`
  expect(files.map(({ nth }) => nth)).toEqual([0, 1])
  expect(files[1]!['length']).toBeGreaterThan(content.length)
  expect(JSON.stringify(await jobOf(world, body.id)).length).toBeLessThan(2_000)
  const [row] = await world.sql`select length(content) as length from messages where id = ${body.id}`
  expect(row!['length']).toBeLessThan(2_000)
  expect((await sms(client, { metadata: 'x'.repeat(300 * 1024) })).status).toBe(413)
  const huge = await email(client, { text: 'x'.repeat(15 * 1024 * 1024) })
  expect([huge.status, huge.body.error.message]).toEqual([413, 'The body exceeds 15728640 bytes.'])
})

test('large emails of one tenant neither delay nor exclude emails of other tenants', async ({
  world,
  client,
}) => {
  const withMemory = createMemoryLimiter()
  const [pending, mib] = [new Promise<never>(() => {}), 1024 * 1024]
  for (const tenant of ['a', 'a', 'b']) void withMemory(tenant, 16 * mib, () => pending)
  await expect(withMemory('a', mib, async () => 'performed')).rejects.toMatchObject({ code: 'overloaded' })
  expect(await withMemory('b', 16 * mib, async () => 'performed')).toBe('performed')

  const attachments = [{ ...FILE, content: 'A'.repeat(300 * 1024) }]
  const own = await world.clientOf()
  const messages = Array.from({ length: 40 }, () => ({ ...EMAIL, idempotency_key: freshKey(), attachments }))
  let finished = false
  const many = own.post('/v1/messages/email/batch', { messages }).finally(() => (finished = true))
  await until('the first message is stored', async () => {
    const rows = await world.sql`select from messages where tenant_id = ${own.tenant_id} limit 1`
    return rows.length > 0
  })
  expect([(await email(client, { attachments })).status, finished]).toEqual([202, false])
  expect((await many).body.map(({ status }: any) => status)).toEqual(Array(40).fill(202))
})

test('an erased message shows its recipients and no text', async ({ world, client }) => {
  const { body } = await email(client, { attachments: [FILE], headers: { 'X-A': 'b' } })
  await world.sql`update messages set content = null, redacted_at = now() where id = ${body.id}`
  const erased = (await client.get(`/v1/messages/${body.id}`)).body
  expect(erased).toEqual({
    ...body,
    text: null,
    headers: null,
    attachments: null,
    redacted_at: expect.any(String),
  })
})

test('a missing template is reported as an error', async ({ client }) => {
  const none = { text: undefined, subject: undefined, template: 'nobody' }
  expect((await email(client, none)).body.error).toMatchObject({
    code: 'template_not_found',
    param: 'template',
  })
  expect((await email(client, { ...none, html: 'x' })).body.error).toMatchObject({
    code: 'invalid_request',
    param: 'template',
  })
  expect((await sms(client, { body: undefined, template: 'nobody' })).body.error.code).toBe(
    'template_not_found',
  )
})

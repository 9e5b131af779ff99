// Templates are stored, validated and rendered within limits of time and memory.
import { describe, expect } from 'vitest'
import { freshKey, type Answer } from '#test/client.ts'
import { openUnfinished, requestBytes } from '#test/raw.ts'
import { testIn, type World } from '#test/world.ts'

const UNKNOWN_ID = '0198f6f0-1234-7000-8000-123456789abc'
const EMAIL = { channel: 'email', subject: 'Order {{ order.number }}', text: 'Hello {{ name }}' }

const test = testIn({ parts: ['api'] })

let names = 0
const freshName = () => `template-${(names += 1)}`

async function create(world: World, fields: Record<string, unknown> = {}): Promise<Answer> {
  return await world.client.post('/v1/messages/templates', { name: freshName(), ...EMAIL, ...fields })
}

async function preview(
  world: World,
  fields: Record<string, unknown>,
  variables?: unknown,
  client = world.client,
) {
  const { body } = await client.post('/v1/messages/templates', { name: freshName(), ...EMAIL, ...fields })
  return await client.post(`/v1/messages/templates/${body.id}/preview`, { variables })
}

/** The rendered text of an email, or the code, message and context of the refusal. */
async function textOf(world: World, text: string, variables: unknown = {}): Promise<unknown> {
  const { status, body } = await preview(world, { subject: 'x', text }, variables)
  return status === 200 ? body.text : [body.error.code, body.error.message, body.error.context]
}

test('a template is created, read, listed, updated and deleted, and each change has an event', async ({
  world,
}) => {
  const { client, sql, tenant_id } = world
  const created = await create(world, { html: '<p>{{ name }}</p>', metadata: { a: 1 } })
  expect([created.status, created.body]).toMatchObject([
    201,
    { ...EMAIL, tenant_id, html: '<p>{{ name }}</p>', body: null, idempotency_key: null, metadata: { a: 1 } },
  ])
  const path = `/v1/messages/templates/${created.body.id}`
  expect((await client.get(path)).body).toEqual(created.body)
  const changed = await client.patch(path, { text: null, subject: 'Shipped' })
  expect([changed.status, changed.body]).toMatchObject([200, { text: null, subject: 'Shipped' }])
  expect(changed.body.updated_at > created.body.updated_at).toBe(true)
  expect((await client.patch(path, { subject: 'Shipped' })).body).toEqual(changed.body)
  expect((await client.send('PATCH', path)).body).toEqual(changed.body)
  const listed = await client.get(`/v1/messages/templates?name=${created.body.name}&channel=email`)
  expect(listed.body).toEqual([{ ...changed.body, html: null }])
  const deleted = await client.delete(path)
  expect([deleted.status, deleted.body]).toMatchObject([200, { id: created.body.id, subject: 'Shipped' }])
  for (const response of [
    await client.get(path),
    await client.delete(path),
    await client.patch(path, {}),
    await client.post(`${path}/preview`, {}),
  ])
    expect([response.status, response.body.error.code]).toEqual([404, 'template_not_found'])
  expect((await client.get(`/v1/messages/templates?name=${created.body.name}`)).body).toEqual([])
  // The name of a deleted template can be used again.
  expect((await create(world, { name: created.body.name })).status).toBe(201)
  const events = await sql<{ type: string; data: object }[]>`
    select type, data from events where tenant_id = ${tenant_id} and subject_id = ${created.body.id} order by id`
  expect(events.map(({ type }) => type)).toEqual(['template.created', 'template.updated', 'template.deleted'])
  for (const { data } of events) expect(JSON.stringify(data)).not.toContain('{{')
})

test('concurrent requests with one name create one template', async ({ world }) => {
  const name = freshName()
  const answers = await Promise.all(Array.from({ length: 30 }, () => create(world, { name })))
  expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([201, ...Array(29).fill(409)])
  const refused = answers.find(({ status }) => status === 409)!
  expect(refused.body.error).toMatchObject({ code: 'template_exists', param: 'name' })
  const { body } = await create(world)
  const renamed = await world.client.patch(`/v1/messages/templates/${body.id}`, { name })
  expect([renamed.status, renamed.body.error.code]).toEqual([409, 'template_exists'])
  // Names are unique only within a tenant.
  const other = await world.clientOf()
  expect((await other.post('/v1/messages/templates', { ...EMAIL, name })).status).toBe(201)
})

test('an idempotency key creates one template and returns it until it is deleted', async ({ world }) => {
  const idempotency_key = freshKey()
  const name = freshName()
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => create(world, { idempotency_key, name })),
  )
  expect(new Set(answers.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1)
  const [first] = answers
  const repeated = await create(world, { idempotency_key, name })
  expect([repeated.status, repeated.headers.get('idempotent-replayed'), repeated.body]).toEqual([
    201,
    'true',
    first!.body,
  ])
  const other = await create(world, { idempotency_key, name, text: 'other' })
  expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused'])
  await world.client.delete(`/v1/messages/templates/${first!.body.id}`)
  const retried = await create(world, { idempotency_key, name })
  expect([retried.status, retried.body.error.code]).toEqual([404, 'template_not_found'])
})

test('a template has only the parts of its channel, even after an update', async ({ world }) => {
  for (const [fields, param] of [
    [{ subject: undefined }, 'subject'],
    [{ text: undefined }, 'text'],
    [{ body: 'x' }, 'body'],
    [{ channel: 'sms' }, 'body'],
    [{ channel: 'sms', subject: undefined, text: undefined }, 'body'],
    [{ channel: 'fax' }, 'channel'],
    [{ name: 'No' }, 'name'],
    [{ name: UNKNOWN_ID }, 'name'],
    [{ text: '' }, 'text'],
    [{ text: 'x'.repeat(100_001) }, 'text'],
    [{ file: 'x' }, 'file'],
  ] as const) {
    const { status, body } = await create(world, fields)
    expect([fields, status, body.error?.code, body.error?.param]).toEqual([
      fields,
      400,
      'invalid_request',
      param,
    ])
  }
  const { id } = (await create(world)).body
  for (const [change, param] of [
    [{ text: null }, 'text'],
    [{ subject: null }, 'subject'],
    [{ body: 'x' }, 'body'],
    [{ channel: 'sms' }, 'channel'],
    [{ idempotency_key: 'x' }, 'idempotency_key'],
  ] as const) {
    const { status, body } = await world.client.patch(`/v1/messages/templates/${id}`, change)
    expect([change, status, body.error?.param]).toEqual([change, 400, param])
  }
  // Each update alone leaves one part; both updates together would leave no part.
  const both = (await create(world, { html: '<p>x</p>' })).body
  const path = `/v1/messages/templates/${both.id}`
  const racing = await Promise.all([
    world.client.patch(path, { text: null }),
    world.client.patch(path, { html: null }),
  ])
  expect(racing.map(({ status }) => status).sort((a, b) => a - b)).toEqual([200, 400])
})

test('on creation and update, a template that does not parse is refused, and the error names the line', async ({
  world,
}) => {
  const { id } = (await create(world)).body
  for (const [text, line, reported] of [
    ['a\n{{ x', 2, 'not closed'],
    ['a\nb\n{% if x %}', 3, 'not closed'],
    ['{% nope %}', 1, 'tag "nope" not found'],
    ["{% if false %}\n{{ 'x' | nope }}{% endif %}", 2, 'undefined filter: nope'],
    ["{% include '/etc/passwd' %}", 1, 'tag "include" not found'],
    ["{% render 'constructor' %}", 1, 'tag "render" not found'],
    ["{% layout 'x' %}", 1, 'tag "layout" not found'],
    ['{% block a %}{% endblock %}', 1, 'tag "block" not found'],
    ['{% if true %}'.repeat(6_000), null, 'nested too deep'],
  ] as const)
    for (const { status, body } of [
      await create(world, { text }),
      await world.client.patch(`/v1/messages/templates/${id}`, { text }),
    ])
      expect([text, status, body.error]).toMatchObject([
        text,
        400,
        {
          code: 'template_invalid',
          param: 'text',
          message: expect.stringContaining(reported),
          context: { line, variable: null },
        },
      ])
})

test('a preview has the content of the message, and only HTML is escaped', async ({ world }) => {
  const variables = { name: '<b>"Ada"</b>', order: { number: 'A&17' }, items: [{ price: 1 }, { price: 2.5 }] }
  const rendered = await preview(
    world,
    {
      text: 'Hello {{ name }}{% for i in items %} {{ i.price }}{% endfor %}',
      html: "{{ name }}|{{ name | escape }}|{{ name | raw }}|{% cycle name, 'x' %}|{% echo name %}",
    },
    variables,
  )
  const escaped = '&lt;b&gt;&#34;Ada&#34;&lt;/b&gt;'
  expect([rendered.status, rendered.body]).toEqual([
    200,
    {
      subject: 'Order A&17',
      text: 'Hello <b>"Ada"</b> 1 2.5',
      html: [escaped, escaped, variables.name, escaped, escaped].join('|'),
      body: null,
      livemode: true,
    },
  ])
  const sms = { channel: 'sms', subject: undefined, text: undefined, body: '{{ name }}' }
  expect((await preview(world, sms, variables)).body).toEqual({
    subject: null,
    text: null,
    html: null,
    body: variables.name,
    livemode: true,
  })
})

test('an undefined variable is refused except in `if` and `default`, and the error names the line and the variable', async ({
  world,
}) => {
  expect(await textOf(world, 'a\nb\n{{ order.number }}', { order: {} })).toEqual([
    'template_invalid',
    'The template does not render: undefined variable: order.number (text, line 3).',
    { line: 3, variable: 'order.number' },
  ])
  expect(await textOf(world, '{% if nobody %}a{% else %}b{% endif %}{{ nobody | default: "c" }}')).toBe('bc')
  for (const name of [
    'constructor',
    '__proto__',
    'toString',
    'a.constructor',
    'a.__proto__',
    'b.constructor',
  ])
    expect(await textOf(world, `{{ ${name} }}`, { a: {}, b: 'x' })).toMatchObject([
      'template_invalid',
      expect.any(String),
      { line: 1, variable: name },
    ])
  expect(await textOf(world, '{{ a | map: "constructor" | join }}', { a: [{}] })).toBe('')
  // A rendering does not affect the next rendering.
  expect(await textOf(world, '{% increment __proto__ %}{% increment b %}{{ b }}', { b: 4 })).toMatch(/45$/)
  expect(await textOf(world, '{{ b }}', {})).toMatchObject([
    'template_invalid',
    expect.any(String),
    { variable: 'b' },
  ])
  expect(await textOf(world, "{{ 0 | date: '%Y-%m-%d %H:%M %z' }}")).toBe('1970-01-01 00:00 +0000')
})

test('the filters for money and dates format valid values and refuse invalid values', async ({ world }) => {
  const variables = { amount_minor: 7100, currency: 'usd', at: '2026-11-26T23:30:00Z', big: 999_999_999_999 }
  const textOf = async (text: string) => (await preview(world, { subject: 'x', text }, variables)).body.text
  for (const [text, expected] of [
    ['{{ amount_minor | money: currency }}', 'USD 71.00'],
    ['{{ 71 | money: "JPY" }}', 'JPY 71'],
    ['{{ 71005 | money: "KWD" }}', 'KWD 71.005'],
    ['{{ -5 | money: "EUR" }}', 'EUR -0.05'],
    ['{{ big | money: "EUR" }}', 'EUR 9,999,999,999.99'],
    ['{{ -123456789 | money: "JPY" }}', 'JPY -123,456,789'],
    ['{{ 100000 | money: "BTN" }}', 'BTN 1,000.00'],
    ['{{ 710000 | money: "EUR", "de" }}', '7.100,00\u00a0€'],
    ['{{ amount_minor | money: currency, "en-US" }}', '$71.00'],
    ['{{ at | date_in: "Europe/Berlin" }}', 'Nov 27, 2026'],
    ['{{ at | date_in: "America/New_York", "de", "long" }}', '26. November 2026'],
    ['{{ at | date_in: "UTC", "en-GB", "short", "short" }}', '26/11/2026, 23:30'],
    ['{{ 0 | date_in: "UTC" }}', 'Jan 1, 1970'],
    ['{{ "2026-11-26T23:30:00.5+01:00" | date_in: "UTC", "en-GB", "short", "short" }}', '26/11/2026, 22:30'],
    // A day is the same in all time zones.
    ['{{ "2026-11-26" | date_in: "America/New_York" }}', 'Nov 26, 2026'],
    ['{{ "2026-11-26" | date_in: "Pacific/Auckland", "de", "long" }}', '26. November 2026'],
  ])
    expect([text, await textOf(text!)]).toEqual([text, expected])
  for (const wrong of [
    '{{ amount_minor | money }}',
    '{{ amount_minor | money: "XXX" }}',
    '{{ amount_minor | money: "constructor" }}',
    '{{ 7.5 | money: "USD" }}',
    '{{ "much" | money: "USD" }}',
    '{{ 1 | money: "USD", "no locale" }}',
    '{{ at | date_in }}',
    '{{ at | date_in: "Mars/Olympus" }}',
    '{{ "never" | date_in: "UTC" }}',
    '{{ at | date_in: "UTC", "de", "huge" }}',
  ]) {
    const { status, body } = await preview(world, { subject: 'x', text: `\n${wrong}` }, variables)
    expect([wrong, status, body.error?.code, body.error?.context.line]).toEqual([
      wrong,
      400,
      'template_invalid',
      2,
    ])
  }
  for (const [wrong, message] of [
    ['{{ none | money: "USD" }}', 'money needs an amount: it got null'],
    ['{{ none | date_in: "UTC" }}', 'it got null'],
    ['{{ 5 | money: none }}', 'money: "USD"'],
    [
      '{{ "soon" | date_in: "UTC" }}',
      '2026-11-26T14:00:00Z, a day such as 2026-11-26, or a number (not text) of seconds since 1970',
    ],
    ['{{ "2026-11-26T14:00:00" | date_in: "UTC" }}', 'a time with its offset'],
    ['{{ "Nov 26, 2026" | date_in: "UTC" }}', 'a time with its offset'],
    [
      '{{ "2026-11-26" | date_in: "UTC", "de", "long", "short" }}',
      '2026-11-26 is a day, so omit the fourth argument',
    ],
    ['{{ 1 | money: "EUR", "en-US-US" }}', 'the locale must be a language such as "de"'],
    ['{{ 1 | money: "EUR", "jp" }}', 'the locale must be a language such as "de"'],
    ['{{ "2026-02-30" | date_in: "UTC" }}', 'a day such as 2026-11-26'],
    ['{{ "2026-02-30T10:00:00Z" | date_in: "UTC" }}', 'a day such as 2026-11-26'],
    ['{{ "1795701600" | date_in: "UTC" }}', 'a number (not text) of seconds since 1970'],
  ] as const)
    expect(
      (await preview(world, { subject: 'x', text: wrong }, { none: null })).body.error?.message,
    ).toContain(message)
})

test('an object or a list in a text is refused, and the error names the line and the variable', async ({
  world,
}) => {
  const variables = { order: { id: 'A-17', tags: ['a', 'b'] }, list: [1, 2] }
  for (const part of ['text', 'html'] as const)
    for (const [text, variable] of [
      ['{{ order }}', 'order'],
      ['{{ order.tags }}', 'order.tags'],
      ['{{- list -}}', 'list'],
      ['{{ order | escape }}', 'order'],
      ['{% for each in list %}{{ order }}{% endfor %}', 'order'],
    ]) {
      const { status, body } = await preview(
        world,
        { subject: 'x', text: undefined, [part]: `a\n${text}` },
        variables,
      )
      expect([part, text, status, body.error?.code, body.error?.context]).toEqual([
        part,
        text,
        400,
        'template_invalid',
        { line: 2, variable },
      ])
    }
  const text = '{{ order.id }} {{ order.tags | join: ", " }} {{ list | size }} {{ order | json }}'
  expect((await preview(world, { subject: 'x', text }, variables)).body.text).toBe(
    'A-17 a, b 2 {"id":"A-17","tags":["a","b"]}',
  )
})

test('a rendered subject with several lines and a rendered text that cannot be stored are refused', async ({
  world,
}) => {
  for (const [fields, variables] of [
    [{ subject: '{{ s }}' }, { s: 'a\r\nBcc: eve@example.com' }],
    [{ subject: '{{ s }}' }, { s: 'a\nb' }],
    [{ subject: '{{ s }}' }, { s: ' ' }],
    [{ subject: 'x', text: '{{ "%00" | url_decode }}' }, {}],
    [{ subject: 'x', text: '{{ "😀" | split: "" | first }}' }, {}],
  ] as const) {
    const { status, body } = await preview(world, { text: 'x', ...fields }, variables)
    expect([fields, status, body.error?.code, body.error?.context]).toEqual([
      fields,
      400,
      'template_invalid',
      { line: null, variable: null },
    ])
  }
})

const DOUBLED = `{% assign a = "xxxxxxxxxxxxxxxx" %}${'{% capture a %}{{ a }}{{ a }}{% endcapture %}'.repeat(25)}`
const NESTED = `{% assign a = 'x,y' | split: ',' %}${'{% assign a = a | push: a | push: a %}'.repeat(30)}`

describe('templates with excessive use of time or memory', () => {
  test.for([
    ['a nested loop', '{% for i in (1..2000) %}{% for j in (1..400) %}x{% endfor %}{% endfor %}'],
    [
      'a nested loop without output',
      '{% assign c = s | split: "" %}{% for i in c %}{% for j in c %}{% endfor %}{% endfor %}',
    ],
    ['a long range', '{% for i in (1..100000000) %}{% endfor %}'],
    ['an infinite range', '{% for i in (9007199254740992..9007199254740994) %}{% endfor %}'],
    ['an infinite range of texts', '{% assign n = "9007199254740992" %}{{ (n.."9007199254740994") }}'],
    ['a doubling text', `${DOUBLED}{{ a }}`],
    ['a search in a doubling text', `${DOUBLED}{% if a contains "zzz" %}{% endif %}`],
    ['a conversion of a doubling text', `${DOUBLED}{{ a | slugify }}`],
    ['a recursive list', `${NESTED}{{ a }}`],
    ['a comparison of a recursive list', `${NESTED}{% if a == a %}{% endif %}`],
    [
      'a list of long texts',
      `{% assign a = s | split: '|' %}${'{% assign a = a | concat: a %}'.repeat(9)}{{ a }}`,
    ],
    ['a wide number', "{{ 0 | date: '%999999999d' }}"],
    [
      'a condition of many parts',
      `{% assign c = s | split: "" %}{% if ${'c contains "z" or '.repeat(3_000)}false %}{% endif %}`,
    ],
  ] as const)('%s is refused', async ([_name, text], { world }) => {
    const { status, body } = await preview(world, { subject: 'x', text }, { s: 'x,'.repeat(50_000) })
    expect([status, body.error]).toMatchObject([
      400,
      {
        code: 'template_invalid',
        message: expect.stringMatching(/too|end of a range/),
        context: { variable: null },
      },
    ])
    expect(await textOf(world, 'Hello {{ name }}', { name: 'Ada' })).toBe('Hello Ada')
  })
})

test('a template belongs to one tenant and needs the scopes of messages', async ({ world }) => {
  const { body } = await create(world)
  const path = `/v1/messages/templates/${body.id}`
  const other = await world.clientOf()
  for (const { status } of [
    await other.get(path),
    await other.patch(path, { subject: 'x' }),
    await other.delete(path),
    await other.post(`${path}/preview`, {}),
  ])
    expect(status).toBe(404)
  expect((await other.get('/v1/messages/templates')).body).toEqual([])
  const reader = await world.clientOf({ tenant: 'acme', scopes: ['messaging:read'] })
  expect((await reader.get(path)).status).toBe(200)
  expect(
    (await reader.post(`${path}/preview`, { variables: { order: { number: 1 }, name: 'x' } })).status,
  ).toBe(200)
  expect((await reader.delete(path)).body.error.code).toBe('missing_scope')
})

describe('waiting renderings are limited', () => {
  /**
   * Takes some hundredths of a second. The variable's value is different in each request, so that each request is
   * rendered anew.
   */
  const SLOW = '{% for i in (1..50000) %}{% assign a = mark %}{% endfor %}x'
  const slow = async (world: World) => (await create(world, { subject: 'x', text: SLOW, html: SLOW })).body
  const bytesOf = (world: World, target: string, body: object) =>
    requestBytes(
      'POST',
      target,
      { host: 'localhost', authorization: `Bearer ${world.client.key}`, 'content-type': 'application/json' },
      JSON.stringify(body),
    )

  /** Sends a request many times and disconnects. Returns the text of a later preview of the same tenant. */
  async function abandonMany(world: World, count: number, bytes: Buffer): Promise<unknown> {
    const many = openUnfinished(world.client.url, count, bytes)
    const other = await world.clientOf()
    for (let n = 0; n < 5; n++)
      expect((await preview(world, { text: 'x' }, { order: {} }, other)).status).toBe(400)
    await many.reset()
    return await textOf(world, 'Hello {{ name }}', { name: 'Ada' })
  }

  test('previews of disconnected callers are not rendered', async ({ world }) => {
    const { id } = await slow(world)
    const bytes = bytesOf(world, `/v1/messages/templates/${id}/preview`, { variables: { mark: 'x' } })
    expect(await abandonMany(world, 800, bytes)).toBe('Hello Ada')
  })

  test('messages in the batches of disconnected callers are not rendered', async ({ world }) => {
    const { id } = await slow(world)
    const variables = { mark: 'x' }
    const message = { template: id, variables, to: ['ada@example.com'] }
    const messages = Array.from({ length: 10 }, () => ({ ...message, idempotency_key: freshKey() }))
    expect(await abandonMany(world, 200, bytesOf(world, '/v1/messages/email/batch', { messages }))).toBe(
      'Hello Ada',
    )
  })

  test('too many or too large previews are refused with 429, and the previews of another tenant are rendered', async ({
    world,
  }) => {
    const { id } = await slow(world)
    const requestPreview = async (nth: number) =>
      world.client.post(`/v1/messages/templates/${id}/preview`, {
        variables: { mark: `${nth}`.slice(-1), rest: 'x'.repeat(100_000) },
      })
    const requests = Array.from({ length: 300 }, (_, nth) => requestPreview(nth))
    await Promise.race(requests)
    const other = await preview(world, { subject: 'x', text: 'Hello' }, {}, await world.clientOf())
    expect([other.status, other.body.text]).toEqual([200, 'Hello'])
    const answers = await Promise.all(requests)
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]))
    for (const { status, body, headers } of answers.filter((each) => each.status === 429)) {
      expect([status, body.error.code]).toEqual([429, 'rate_limited'])
      expect(body.error.message).toMatch(/your templates wait/)
      expect(headers.get('retry-after')).toBe('1')
    }
  })
})

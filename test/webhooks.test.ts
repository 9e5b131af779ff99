// Tests the webhooks host: signatures, bodies, responses, and that each event is applied once.
import { createConnection, createServer, type AddressInfo, type Socket } from 'node:net'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { describe, expect, onTestFinished } from 'vitest'
import { pino } from 'pino'
import { MAX_BUFFERED_BODY_BYTES } from '#core/bodies.ts'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { createAddressHash } from '#core/addresses.ts'
import { connectDatabase } from '#core/pool.ts'
import { signStripe } from '#emulators/stripe/main.ts'
import { buildWebhooks } from '#webhooks/app.ts'
import { startWebhooks } from '#webhooks/main.ts'
import { startWorker } from '#workers/main.ts'
import { checkInvariants } from './support/books.ts'
import { CURRENT_DATABASE } from './support/databases.ts'
import { eventually, authorizedPayment } from './support/payments.ts'
import { until } from './support/process.ts'
import { memoryInUse, openUnfinished, requestBytes, sendBytes } from './support/raw.ts'
import {
  deliver,
  deliverAll,
  listEvents,
  fabricatedEvent,
  notificationId,
  pick,
  postWebhook,
  shuffled,
  mapConcurrently,
  stateOf,
  paymentSummary,
} from './support/stripe-events.ts'
import { urlAs } from './support/users.ts'
import { createWorld, testIn, type World } from './support/world.ts'

/** The current secret of the emulator and the previous secret. */
const [SECRET, OLD_SECRET] = ['whsec_test_current', 'whsec_test_old']

const test = testIn({
  notifications: false,
  env: { STRIPE_WEBHOOK_SECRET: `${SECRET},${OLD_SECRET}` },
})

const nowS = () => Math.floor(Date.now() / 1000)

const pay = (world: World) => authorizedPayment(world.client)

/** The counts of notifications, jobs and attempts of an event. */
async function countsOf(world: World, event: { id: string }) {
  const [row] = await world.sql`
    with n as (select id from notifications where event_id = ${event.id}),
    j as (select j.id from jobs j join n on j.payload ->> 'notification_id' = n.id::text)
    select (select count(*) from n) as stored, (select count(*) from j) as jobs,
      (select count(*) from all_job_attempts a join j on j.id = a.job_id) as attempts`
  return { ...row }
}

describe('the host', () => {
  test('serves only POST /stripe', async ({ world }) => {
    for (const [method, path] of [
      ['GET', '/'],
      ['POST', '/'],
      ['GET', '/stripe'],
      ['PUT', '/stripe'],
      ['DELETE', '/stripe'],
      ['POST', '/stripe/'],
      ['POST', '/stripe/x'],
      ['POST', '/v1/payments'],
      ['GET', '/v1/customers'],
      ['GET', '/metrics'],
      ['GET', '/openapi.json'],
      ['GET', '/docs'],
      ['POST', '/stripe%2f'],
      ['POST', '/stripe/%ff'],
    ]) {
      const response = await postWebhook(world, '{}', {}, { method, path })
      expect([method, path, response.status, response.body.error.code]).toEqual([
        method,
        path,
        404,
        'route_not_found',
      ])
    }
  })

  test('answers 200 to an event, and marks a duplicate in its response', async ({ world }) => {
    const event = fabricatedEvent('customer.created', { id: 'cus_1', object: 'customer' })
    const first = await deliver(world, event)
    expect([first.status, first.body]).toEqual([200, { received: true }])
    const second = await deliver(world, event)
    expect([second.status, second.body]).toEqual([200, { received: true, duplicate: true }])
    await world.drain()
    expect(await stateOf(world, event)).toBe('ignored')
    expect(await countsOf(world, event)).toEqual({ stored: 1, jobs: 1, attempts: 1 })
    // The job has the id of the notification, which makes it unique: a key would be a second index entry.
    const jobs = await world.sql`
      select n.event_id, j.dedupe_key from notifications n join jobs j on j.id = n.id where n.event_id = ${event.id}`
    expect([...jobs]).toEqual([{ event_id: event.id, dedupe_key: null }])
  })

  test('accepts an event with any content type or none, and an event whose object has no id', async ({
    world,
  }) => {
    for (const type of [
      'text/plain',
      'application/octet-stream',
      'application/x-www-form-urlencoded',
      null,
    ]) {
      const event = fabricatedEvent('balance.available', { object: 'balance' })
      const body = JSON.stringify(event)
      const response = await fetch(`${world.config.WEBHOOKS_URL}/stripe`, {
        method: 'POST',
        headers: {
          'stripe-signature': signStripe(body, SECRET),
          ...(type !== null && { 'content-type': type }),
        },
        body: new TextEncoder().encode(body),
      })
      expect([type, response.status]).toEqual([type, 200])
      await world.drain()
      expect(await stateOf(world, event)).toBe('ignored')
    }
  })
})

describe('a signature', () => {
  /** Signs and sends within the same second of the clock, so that the age is exact. */
  async function sendAged(world: World, age_s: number) {
    for (;;) {
      const event = fabricatedEvent('customer.created', { id: 'cus_2', object: 'customer' })
      const body = JSON.stringify(event)
      const now_s = nowS()
      const response = await postWebhook(world, body, {
        'stripe-signature': signStripe(body, SECRET, now_s - age_s),
      })
      if (nowS() === now_s) return { ...response, event }
    }
  }

  test('is valid 300 seconds before and after its time, and invalid after 301', async ({ world }) => {
    for (const age_s of [0, 300, -300])
      expect([age_s, (await sendAged(world, age_s)).status]).toEqual([age_s, 200])
    for (const age_s of [301, -301, 86_400, -86_400]) {
      const { status, body, event } = await sendAged(world, age_s)
      expect([age_s, status, body.error.code]).toEqual([age_s, 400, 'invalid_signature'])
      expect(await stateOf(world, event)).toBeUndefined()
    }
  })

  test('is valid with either secret during a rotation, and as one of several signatures', async ({
    world,
  }) => {
    const event = () =>
      JSON.stringify(fabricatedEvent('customer.created', { id: 'cus_3', object: 'customer' }))
    const v1 = (body: string, secret: string) => signStripe(body, secret).split('v1=')[1]!
    const headers: ((body: string) => string)[] = [
      (body) => signStripe(body, SECRET),
      (body) => signStripe(body, OLD_SECRET),
      (body) => `t=${nowS()},v1=${'0'.repeat(64)},v1=${v1(body, OLD_SECRET)}`,
      (body) => `t=${nowS()},v1=${v1(body, SECRET)},v1=${v1(body, 'whsec_other')},v0=whatever`,
      (body) => `v0=x,v1=${v1(body, SECRET)},t=${nowS()}`,
    ]
    for (const sign of headers) {
      const body = event()
      const response = await postWebhook(world, body, { 'stripe-signature': sign(body) })
      expect(response.status).toBe(200)
    }
  })

  test('that is missing, malformed or made with another secret is refused, and nothing is stored', async ({
    world,
  }) => {
    const event = fabricatedEvent('customer.created', { id: 'cus_4', object: 'customer' })
    const body = JSON.stringify(event)
    const valid = signStripe(body, SECRET)
    const v1 = valid.split('v1=')[1]!
    const headers: Record<string, string>[] = [
      {},
      { 'stripe-signature': '' },
      { 'stripe-signature': 'nonsense' },
      { 'stripe-signature': `t=${nowS()}` },
      { 'stripe-signature': `v1=${v1}` },
      { 'stripe-signature': `t=,v1=${v1}` },
      { 'stripe-signature': `t=${nowS()}.5,v1=${v1}` },
      { 'stripe-signature': `t=-1,v1=${v1}` },
      { 'stripe-signature': `t=${nowS()},v1=` },
      { 'stripe-signature': `t=${nowS()},v1=${v1.slice(0, -2)}` },
      { 'stripe-signature': `t=${nowS()},v1=${v1}00` },
      { 'stripe-signature': `t=${nowS()},v0=${v1}` },
      { 'stripe-signature': `t=${nowS() + 1},t=${nowS()},v1=${v1}` },
      { 'stripe-signature': valid.replace(/t=\d+/, `t=${nowS() + 5}`) },
      { 'stripe-signature': signStripe(body, 'whsec_wrong') },
      { 'stripe-signature': signStripe(body, '') },
      { 'stripe-signature': signStripe(body, `${SECRET},${OLD_SECRET}`) },
      { 'stripe-signature': signStripe(body.replace('cus_4', 'cus_5'), SECRET) },
    ]
    for (const header of headers) {
      const response = await postWebhook(world, body, header)
      expect([header, response.status, response.body.error.code]).toEqual([header, 400, 'invalid_signature'])
      expect(response.headers.get('content-type')).toContain('application/json')
    }
    expect(await countsOf(world, event)).toEqual({ stored: 0, jobs: 0, attempts: 0 })
  })

  test('that is refused is counted each time, and is logged at most once per second', async ({ world }) => {
    const lines: string[] = []
    const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) })
    const host = await startWebhooks({ ...world.config, WEBHOOKS_PORT: 0 }, log)
    const host_world: World = { ...world, config: { ...world.config, WEBHOOKS_URL: host.url } }
    const counted = async () =>
      (await metrics.notificationsRefused.get()).values.find(
        ({ labels }) => labels.reason === 'malformed' && labels.provider === 'stripe',
      )?.value ?? 0
    try {
      const before = await counted()
      const began_at = performance.now()
      await Promise.all(Array.from({ length: 200 }, () => postWebhook(host_world, '{}', {})))
      const seconds = (performance.now() - began_at) / 1000
      expect(await counted()).toBe(before + 200)
      // The log may contain a line about a slow queue too.
      const refusals = lines.filter((line) => line.includes('"verdict"'))
      expect(refusals.length).toBeGreaterThanOrEqual(1)
      expect(refusals.length).toBeLessThanOrEqual(1 + seconds)
      expect(JSON.parse(refusals[0]!)).toMatchObject({ verdict: 'malformed', ip: '127.0.0.1', suppressed: 0 })
    } finally {
      await host.close()
    }
  })

  test('covers every byte of the body', async ({ world }) => {
    const body = Buffer.from(
      JSON.stringify(fabricatedEvent('customer.created', { id: 'cus_6', object: 'customer' })),
    )
    const signature = signStripe(body.toString(), SECRET)
    const changed = Array.from(body.keys(), (index) => {
      const copy = Buffer.from(body)
      copy[index]! ^= 1
      return copy
    })
    for (const bytes of [
      ...changed,
      Buffer.concat([body, Buffer.from('\n')]),
      body.subarray(0, -1),
      Buffer.alloc(0),
    ])
      expect((await postWebhook(world, bytes, { 'stripe-signature': signature })).status).toBe(400)
    expect((await postWebhook(world, body, { 'stripe-signature': signature })).status).toBe(200)
  })
})

describe('a signed body', () => {
  const sign = (body: string | Buffer) => {
    const t = nowS()
    const digest = createHmac('sha256', SECRET).update(`${t}.`).update(body).digest('hex')
    return { 'stripe-signature': `t=${t},v1=${digest}` }
  }
  const send = (world: World, body: string | Buffer) => postWebhook(world, body, sign(body))

  test('in an invalid HTTP request is refused with the error body of the API', async ({ world }) => {
    const response = await sendBytes(
      world.config.WEBHOOKS_URL!,
      'POST /stripe HTTP/1.1\r\nhost: x\r\nstripe-signature: \x1b\r\n\r\n',
    )
    expect([response.status, response.body]).toEqual([
      400,
      { error: { code: 'invalid_request', message: expect.any(String) } },
    ])
  })

  test('that contains no event is answered 400 and not stored', async ({ world }) => {
    const [before] = await world.sql`select count(*) from notifications`
    const id = 'evt_none'
    for (const body of [
      '',
      'x',
      'null',
      '[]',
      '"ok"',
      '42',
      '{}',
      '{"id":"evt_none"',
      JSON.stringify({ id: '', type: 'x', data: { object: {} } }),
      JSON.stringify({ id: 7, type: 'x', data: { object: {} } }),
      JSON.stringify({ id, type: '', data: { object: {} } }),
      JSON.stringify({ id: 'e'.repeat(256), type: 'x', data: { object: {} } }),
      JSON.stringify({ id, data: { object: {} } }),
      // Only Sluice itself creates lookups.
      JSON.stringify({ id, type: 'reconciliation.lookup', data: { object: { id: 'pi_1' } } }),
    ]) {
      const response = await send(world, body)
      expect([body.slice(0, 60), response.status, response.body.error.code]).toEqual([
        body.slice(0, 60),
        400,
        'invalid_request',
      ])
    }
    expect(await world.sql`select count(*) from notifications`).toEqual([before])
  })

  test('with an event of an unexpected form is answered 200, counted and not stored', async ({ world }) => {
    const [before] = await world.sql`select count(*) from notifications`
    const counted = async () => {
      const { values } = await metrics.notificationsStored.get()
      return values.find(({ labels }) => labels.state === 'unknown_form')?.value ?? 0
    }
    const [first, id] = [await counted(), 'evt_other']
    const bodies = [
      {
        id,
        object: 'v2.core.event',
        type: 'v2.core.account.updated',
        created: '2026-11-26T12:00:00.000Z',
        livemode: false,
        reason: null,
        related_object: { id: 'acct_1', type: 'v2.core.account', url: '/v2/core/accounts/acct_1' },
      },
      { id, object: 'event', type: 'x' },
      { id, type: 'x', data: null },
      { id, type: 'x', data: { object: 'pi_1' } },
    ]
    for (const body of bodies) {
      const response = await send(world, JSON.stringify(body))
      expect([response.status, response.body]).toEqual([200, { received: true }])
    }
    expect((await counted()) - first).toBe(bodies.length)
    expect(await world.sql`select count(*) from notifications`).toEqual([before])
  })

  test('that does not arrive in time is answered 408, even if that time is longer than the timeout of the database', async ({
    world,
  }) => {
    const host = await startWebhooks(
      { ...world.config, WEBHOOKS_PORT: 0, REQUEST_TIMEOUT_MS: 5_400 },
      createLog('silent', 'test'),
    )
    try {
      const signature = sign('')['stripe-signature']
      const head = `POST /stripe HTTP/1.1\r\nhost: x\r\nstripe-signature: ${signature}\r\ncontent-length: 100000\r\n\r\n`
      const response = await sendBytes(host.url, head, (socket) => {
        const timer = setInterval(() => socket.write(' '), 200)
        return () => clearInterval(timer)
      })
      expect([response.status, response.body]).toEqual([
        408,
        { error: { code: 'request_timeout', message: expect.any(String) } },
      ])
      expect(response.headers.get('connection')).toBe('close')
    } finally {
      await host.close()
    }
  })

  test('above the size limit is answered 413, and a body at the limit is accepted', async ({ world }) => {
    const event = fabricatedEvent('customer.created', { id: 'cus_7', object: 'customer' })
    const padded = (bytes: number) => {
      const body = JSON.stringify({ ...event, padding: '' })
      return body.replace('"padding":""', `"padding":"${'x'.repeat(bytes - body.length)}"`)
    }
    const refused = await send(world, padded(1024 * 1024 + 1))
    expect([refused.status, refused.body.error.code]).toEqual([413, 'payload_too_large'])
    expect(await stateOf(world, event)).toBeUndefined()
    expect((await send(world, padded(1024 * 1024))).status).toBe(200)
    expect(await stateOf(world, event)).toBeDefined()
  })

  test('that cannot be stored is refused, and the other bodies of its statement are stored', async ({
    world,
  }) => {
    const url = urlAs('webhooks', world.config.DATABASE_URL!)
    const sql = connectDatabase(url, { max: 4, application_name: 'test' })
    onTestFinished(() => sql.end())
    const wakeups = { admits: () => false, wake() {}, jobsEnded() {} }
    const log = createLog('silent', 'test')
    const app = await buildWebhooks({
      config: world.config,
      sql,
      database: CURRENT_DATABASE,
      log,
      wakeups,
      hashOf: createAddressHash(world.config.ADDRESS_KEY!),
    })
    onTestFinished(() => app.close())
    const post = async (body: string) =>
      (await app.inject({ method: 'POST', url: '/stripe', body, headers: sign(body) })).statusCode
    const small = () =>
      JSON.stringify(fabricatedEvent('customer.created', { id: 'cus_9', object: 'customer' }))
    // 60 KB in the request, which become megabytes in the text format of the database.
    const huge = small().replace('"cus_9"', `"cus_9","numbers":[${Array(10_000).fill('1e300').join()}]`)

    const bodies = Array.from({ length: 40 }, (_, nth) => (nth % 10 === 5 ? huge : small()))
    const expected = bodies.map((body) => (body === huge ? 500 : 200))
    expect(await Promise.all(bodies.map(post))).toEqual(expected)
  })

  test('with an invalid signature header is refused before it arrives', async ({ world }) => {
    const body = '{"id":'
    const v1 = sign(body)['stripe-signature'].split('v1=')[1]!
    for (const [path, header, status] of [
      ['/stripe', {}, 400],
      ['/stripe', { 'stripe-signature': 'nonsense' }, 400],
      ['/stripe', { 'stripe-signature': `t=${nowS() - 400},v1=${v1}` }, 400],
      ['/nowhere', sign(body), 404],
    ] as const) {
      const headers = { ...header, 'content-type': 'application/json', 'content-length': '1000' }
      const unfinished = openUnfinished(
        world.config.WEBHOOKS_URL!,
        20,
        requestBytes('POST', path, headers, body),
      )
      await until('all requests are refused', () => unfinished.statuses.length === 20)
      expect(new Set(unfinished.statuses)).toEqual(new Set([status]))
      await unfinished.reset()
    }
  })

  test('that never ends uses limited memory with 100 others, and the host accepts an event in the meantime', async ({
    world,
  }) => {
    const bytes = 1024 * 1024
    const headers = { 'content-length': String(bytes), ...sign('') }
    const waiting = openUnfinished(world.config.WEBHOOKS_URL!, 5, requestBytes('POST', '/stripe', headers))
    const before = memoryInUse().arrayBuffers
    const unfinished = openUnfinished(
      world.config.WEBHOOKS_URL!,
      100,
      requestBytes('POST', '/stripe', headers, Buffer.alloc(bytes - 1, ' ')),
    )
    const max_bodies = MAX_BUFFERED_BODY_BYTES / bytes
    await until(
      'the oldest unfinished bodies are refused',
      () => unfinished.statuses.length === 100 - max_bodies,
    )
    expect(new Set(unfinished.statuses)).toEqual(new Set([503]))
    const allowed = before + MAX_BUFFERED_BODY_BYTES + 8 * bytes
    await until('the memory of refused bodies is free', () => memoryInUse().arrayBuffers < allowed)
    expect(
      (await deliver(world, fabricatedEvent('customer.created', { id: 'cus_11', object: 'customer' })))
        .status,
    ).toBe(200)
    // Requests without buffered bytes are not refused.
    expect(waiting.statuses).toEqual([])
    await unfinished.reset()
    await waiting.reset()
  })

  test('that arrives some time after its headers is accepted, among 200 requests that announce a body and send none', async ({
    world,
  }) => {
    const url = world.config.WEBHOOKS_URL!
    const body = JSON.stringify(fabricatedEvent('customer.created', { id: 'cus_12', object: 'customer' }))
    // The response 100 means that the host has read the headers.
    const headers = { expect: '100-continue', 'content-length': String(body.length), ...sign(body) }
    const event = request(`${url}/stripe`, { method: 'POST', headers })
    const response_promise = once(event, 'response') as Promise<[IncomingMessage]>
    await once(event, 'continue')
    const head = `POST /stripe HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nstripe-signature: ${sign('')['stripe-signature']}\r\n`
    const empty = ['content-length: 1048576', 'transfer-encoding: chunked'].map((length) =>
      openUnfinished(url, 100, Buffer.from(`${head}${length}\r\n\r\n`)),
    )
    await until('all requests have a response', () => empty.every(({ statuses }) => statuses.length === 100))
    event.end(body)
    const [response] = await response_promise
    expect(response.statusCode).toBe(200)
    for (const others of empty) await others.reset()
  })

  test('with characters or nesting that the database refuses is not answered with 500', async ({ world }) => {
    const event = (id: string, extra: string) =>
      `{"id":"evt_odd_${id}","type":"customer.created","data":{"object":{"id":"cus_8","object":"customer",${extra}}}}`
    const deep = (levels: number) => `"deep":${'['.repeat(levels)}${']'.repeat(levels)}`
    const bodies: [string, string | Buffer][] = [
      ['a NUL', event('nul', '"name":"a\\u0000b"')],
      ['a NUL in a name', event('nul_name', '"a\\u0000b":1')],
      ['a lone surrogate', event('lone', '"name":"a\\ud800b"')],
      ['a lone surrogate in a name', event('lone_name', '"a\\udfffb":1')],
      ['a NUL in the id', event('x', '"a":1').replace('evt_odd_x', 'evt_odd_\\u0000x')],
      ['a NUL in the kind', event('kind', '"a":1').replace('customer.created', 'customer\\u0000.created')],
      [
        'a raw NUL',
        Buffer.from(event('raw', '"name":"a?b"')).map((byte) => (byte === 63 ? 0 : byte)) as Buffer,
      ],
      [
        'bad UTF-8',
        Buffer.from(event('utf8', '"name":"a?b"')).map((byte) => (byte === 63 ? 0xff : byte)) as Buffer,
      ],
      [
        'numbers without end',
        event('numbers', '"big":1e999,"small":-1e999,"long":123456789012345678901234567890'),
      ],
      ['a prototype', event('proto', '"__proto__":{"id":"x"},"constructor":{"prototype":1}')],
      ['names twice', event('twice', '"id":"cus_9","id":"cus_10"')],
      ['100 levels', event('deep_100', deep(100))],
      ['10,000 levels', event('deep_10000', deep(10_000))],
      ['400,000 levels', event('deep_400000', deep(400_000))],
    ]
    for (const [name, body] of bodies) {
      const response = await send(world, Buffer.from(body))
      expect([name, [200, 400].includes(response.status), response.status]).toEqual([
        name,
        true,
        response.status,
      ])
    }
    await world.drain()
    expect(
      await world.sql`select event_id, state from notifications where event_id like 'evt_odd%' and state <> 'ignored'`,
    ).toEqual([])
  })
})

describe('a repeated webhook', () => {
  test('is stored, performed and applied once, after 100 concurrent and 100 later copies', async ({
    world,
  }) => {
    const payment = await pay(world)
    await world.provider('stripe').control('POST', `/payment_intents/${payment.processor_reference}/capture`)
    const [event] = pick(await listEvents(world, payment.processor_reference), ['payment_intent.succeeded'])
    const flood = () =>
      deliverAll(
        world,
        Array.from({ length: 100 }, () => event!),
      )

    const responses = await flood()
    expect(responses.every(({ status }) => status === 200)).toBe(true)
    expect(responses.filter(({ body }) => body.duplicate !== true)).toHaveLength(1)
    await world.drain()
    const again = await flood()
    expect(again.every(({ status, body }) => status === 200 && body.duplicate === true)).toBe(true)
    await world.drain()

    expect(await countsOf(world, event!)).toEqual({ stored: 1, jobs: 1, attempts: 1 })
    expect(await stateOf(world, event!)).toBe('applied')
    const summary = await paymentSummary(world, payment.id)
    expect(summary.payment).toMatchObject({ status: 'captured', amount_captured_minor: 1000 })
    expect(summary.postings).toEqual(['capture 1000'])
    expect(summary.events).toEqual(['payment.authorized', 'payment.captured', 'payment.created'])
    await checkInvariants(world)
  })

  test('is applied once, for 20 interleaved copies of each webhook of ten payments', async ({ world }) => {
    const payments = await Promise.all(Array.from({ length: 10 }, () => pay(world)))
    await Promise.all(payments.map(({ id }) => world.client.post(`/v1/payments/${id}/capture`)))
    const references = new Set(payments.map((payment) => payment.processor_reference))
    const events = (await listEvents(world)).filter((event) =>
      references.has(event.data.object.payment_intent ?? event.data.object.id),
    )
    const posts = Array.from({ length: 20 }, () => events).flat()
    for (const { status } of await deliverAll(world, shuffled(posts))) expect(status).toBe(200)
    await world.drain()
    const ids = events.map(notificationId)
    const [row] = await world.sql`
      select count(*) as stored, count(*) filter (where state = 'applied') as applied from notifications
      where id = any(${ids}::uuid[])`
    expect({ ...row }).toEqual({ stored: events.length, applied: events.length })
    for (const { id } of payments) {
      const summary = await paymentSummary(world, id)
      expect(summary.payment.status).toBe('captured')
      expect(summary.postings).toEqual(['capture 1000'])
    }
    await checkInvariants(world)
  })

  test('leads to the right state, among 1,000 shuffled webhooks with 20 % duplicates', async ({ world }) => {
    const payments = await mapConcurrently(Array.from({ length: 120 }), 20, () => pay(world))
    await mapConcurrently(payments, 20, async ({ id, processor_reference }, index) => {
      // Half of the captures use the API, the other half the processor's dashboard.
      if (index % 2 === 0) await world.client.post(`/v1/payments/${id}/capture`)
      else await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/capture`)
      await world
        .provider('stripe')
        .control('POST', '/refunds', { payment_intent: processor_reference, amount: 300 })
    })
    const references = new Set(payments.map((payment) => payment.processor_reference))
    const events = (await listEvents(world, undefined, { all_kinds: true })).filter((event) =>
      references.has(event.data.object.payment_intent ?? event.data.object.id),
    )
    const posts = shuffled([...events, ...shuffled(events).slice(0, events.length / 5)])
    expect(posts.length).toBeGreaterThanOrEqual(1000)
    for (const { status } of await deliverAll(world, posts)) expect(status).toBe(200)
    await world.drain()
    for (const { id } of payments) {
      const summary = await paymentSummary(world, id)
      expect(summary).toEqual({
        payment: {
          status: 'captured',
          known: true,
          amount_capturable_minor: 0,
          amount_captured_minor: 1000,
          amount_refunded_minor: 300,
          amount_refund_reserved_minor: 300,
          cancellation_reason: null,
          failure: null,
        },
        refunds: [{ status: 'succeeded', amount_minor: 300, imported: true, known: true }],
        postings: ['capture 1000', 'refund -300'],
        events: [
          'payment.authorized',
          'payment.captured',
          'payment.created',
          'refund.created',
          'refund.succeeded',
        ],
      })
    }
    await checkInvariants(world)
  })
})

describe('an outage', () => {
  test('of the database is answered 503 with Retry-After, and the same event is accepted after the outage', async ({
    world,
  }) => {
    const { hostname, port } = new URL(world.config.DATABASE_URL!)
    const sockets = new Set<Socket>()
    let silent = false
    const proxy = createServer((client) => {
      client.on('error', () => {})
      sockets.add(client)
      if (silent) return
      const server = createConnection(Number(port), hostname).on('error', () => {})
      sockets.add(server)
      client.pipe(server).pipe(client)
      client.on('close', () => server.destroy())
      server.on('close', () => client.destroy())
    })
    const listen = (at: number) => new Promise<void>((resolve) => proxy.listen(at, '127.0.0.1', resolve))
    const cut = () => {
      for (const socket of sockets) socket.destroy()
      sockets.clear()
    }
    await listen(0)
    const url = new URL(world.config.DATABASE_URL!)
    url.hostname = '127.0.0.1'
    url.port = String((proxy.address() as AddressInfo).port)
    const host = await startWebhooks(
      { ...world.config, DATABASE_URL: url.href, WEBHOOKS_PORT: 0 },
      createLog('silent', 'test'),
    )
    const host_world: World = { ...world, config: { ...world.config, WEBHOOKS_URL: host.url } }
    try {
      expect(
        (await deliver(host_world, fabricatedEvent('customer.created', { id: 'cus_11', object: 'customer' })))
          .status,
      ).toBe(200)
      proxy.close()
      cut()
      const event = fabricatedEvent('customer.created', { id: 'cus_12', object: 'customer' })
      const refused = async (...codes: string[]) => {
        const response = await deliver(host_world, event)
        expect([response.status, codes.includes(response.body.error.code)]).toEqual([503, true])
        expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
      }
      for (let times = 0; times < 3; times++) await refused('database_unavailable')
      // The proxy accepts connections and sends nothing.
      silent = true
      await listen(Number(url.port))
      await Promise.all(Array.from({ length: 3 }, () => refused('timeout', 'database_unavailable')))
      // An invalid signature is refused without the database.
      const body = JSON.stringify(event)
      expect(
        (await postWebhook(host_world, body, { 'stripe-signature': signStripe(body, 'whsec_wrong') })).status,
      ).toBe(400)
      expect(await stateOf(world, event)).toBeUndefined()
      silent = false
      cut()
      await eventually(async () => expect((await deliver(host_world, event)).status).toBe(200))
      await world.drain()
      expect(await countsOf(world, event)).toEqual({ stored: 1, jobs: 1, attempts: 1 })
    } finally {
      await host.close()
      proxy.close()
      cut()
    }
  })

  test('of the workers delays webhooks until a worker starts', async () => {
    const without_worker = await createWorld({ notifications: false, parts: ['api', 'webhooks'] })
    const silent = createLog('silent', 'test')
    let worker = await startWorker(without_worker.config, silent)
    try {
      const payments = await Promise.all(
        Array.from({ length: 10 }, () => authorizedPayment(without_worker.client, { currency: 'EUR' })),
      )
      await worker.close()
      for (const { processor_reference } of payments) {
        await without_worker
          .provider('stripe')
          .control('POST', `/payment_intents/${processor_reference}/capture`)
        await without_worker
          .provider('stripe')
          .control('POST', '/refunds', { payment_intent: processor_reference, amount: 100 })
      }
      const events = shuffled(await listEvents(without_worker))
      for (const event of events) expect((await deliver(without_worker, event)).status).toBe(200)
      for (const { id } of payments)
        expect((await paymentSummary(without_worker, id)).payment.status).toBe('authorized')
      const provider_events = events.filter(({ type }) => type !== 'payment_intent.amount_capturable_updated')
      for (const event of provider_events)
        expect(await stateOf(without_worker, event)).toBeOneOf(['received', 'waiting'])
      for (const event of events.filter((each) => !provider_events.includes(each)))
        expect(await stateOf(without_worker, event)).toBe('applied')

      worker = await startWorker(without_worker.config, silent)
      await without_worker.drain()
      for (const { id } of payments) {
        const summary = await paymentSummary(without_worker, id)
        expect(summary.payment).toMatchObject({ status: 'captured', amount_refunded_minor: 100 })
        expect(summary.postings).toEqual(['capture 1000', 'refund -100'])
      }
      await checkInvariants(without_worker)
    } finally {
      await worker.close()
      await without_worker.close()
    }
  })
})

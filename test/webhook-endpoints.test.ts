// Webhook endpoints in the API: creation, changes, deletion, secrets, statistics, deliveries, tests and recoveries.
import { openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import type { Scope } from '#domain/areas.ts'
import { createLog } from '#core/log.ts'
import { connectDatabase } from '#core/pool.ts'
import { createVault } from '#core/secrets.ts'
import { payloadOf } from '#domain/deliveries/payload.ts'
import { endpointSealingContext, MAX_ENDPOINTS } from '#domain/webhook-endpoints/endpoint.ts'
import { findEndpointHours, findEndpointSeries } from '#domain/webhook-endpoints/series.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import { createClient, freshKey, type Answer, type Client } from '#test/client.ts'
import { readAllRows } from '#test/databases.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { startInThisProcess } from '#test/parts.ts'
import { eventually } from '#test/payments.ts'
import { postgresUrl } from '#test/suite.ts'
import { deliveryTo } from '#test/webhook-deliveries.ts'
import { testIn, type World } from '#test/world.ts'

const PATH = '/v1/webhook_endpoints'
const DELIVERIES = '/v1/webhook_deliveries'
const URL = 'https://shop.example/webhooks'
const UNKNOWN_ID = '0198f6f0-1234-7000-8000-123456789abc'
const SECRET = /^whsec_[A-Za-z0-9+/]{43}=$/

const test = testIn({ parts: ['api'] })

type Tenant = Client & { tenant_id: string }

async function create(client: Client, fields: object = {}): Promise<Answer> {
  return await client.post(PATH, { url: URL, types: ['*'], ...fields })
}

async function endpointOf(client: Client, fields: object = {}): Promise<any> {
  const { status, body } = await create(client, fields)
  expect([status, body.error]).toEqual([201, undefined])
  return body
}

const typesOf = async (world: World, id: string) =>
  (
    await world.sql<
      { type: string }[]
    >`select type from events where subject_id = ${id} order by created_at, id`
  ).map(({ type }) => type)

/** The stored secrets, newest first: decrypted, with the remaining seconds in which they sign. */
async function secretsOf(world: World, { tenant_id, id }: { tenant_id: string; id: string }) {
  const [row] = await world.sql<{ secrets: { sealed: string; until: string | null }[]; now: string }[]>`
    select secrets, clock_timestamp() as now from webhook_endpoints where tenant_id = ${tenant_id} and id = ${id}`
  const vault = createVault(world.env['ENCRYPTION_KEY']!)
  return row!.secrets.map(({ sealed, until }) => ({
    secret: vault.open(sealed, endpointSealingContext(tenant_id, id, 'secrets')),
    remaining_s: until === null ? null : (Date.parse(until) - Date.parse(row!.now)) / 1000,
  }))
}

test('an endpoint is created, read, listed, changed and deleted, and each change emits an event', async ({
  world,
}) => {
  const client = await world.clientOf()
  const created = await create(client, {
    types: ['payment.*', 'refund.succeeded'],
    description: 'The shop',
    headers: { 'X-Shop': '17' },
    ordered: true,
    max_in_flight: 3,
    rate_per_s: 50,
    metadata: { a: 1 },
  })
  const shown = {
    tenant_id: client.tenant_id,
    idempotency_key: null,
    url: URL,
    types: ['payment.*', 'refund.succeeded'],
    description: 'The shop',
    headers: { 'X-Shop': '17' },
    ordered: true,
    max_in_flight: 3,
    rate_per_s: 50,
    status: 'enabled',
    disabled_reason: null,
    metadata: { a: 1 },
  }
  expect([created.status, created.body]).toMatchObject([
    201,
    { ...shown, secret: expect.stringMatching(SECRET) },
  ])
  const path = `${PATH}/${created.body.id}`
  const without_secret = { ...created.body, secret: null }
  expect((await client.get(path)).body).toEqual(without_secret)
  expect((await client.get(PATH)).body).toEqual([without_secret])
  const changed = await client.patch(path, { rate_per_s: null, headers: {}, types: ['*'] })
  expect([changed.status, changed.body]).toEqual([
    200,
    { ...without_secret, rate_per_s: null, headers: {}, types: ['*'], updated_at: changed.body.updated_at },
  ])
  // Equal values and an empty body change nothing.
  for (const change of [{ types: ['*'], headers: {}, status: 'enabled' }, {}])
    expect((await client.patch(path, change)).body).toEqual(changed.body)
  expect((await client.send('PATCH', path)).body).toEqual(changed.body)
  const deleted = await client.delete(path)
  expect([deleted.status, deleted.body.id]).toEqual([200, created.body.id])
  for (const not_found of [
    await client.get(path),
    await client.delete(path),
    await client.patch(path, { ordered: false }),
    await client.post(`${path}/rotate_secret`),
    await client.post(`${path}/test`),
    await client.post(`${path}/recover`, { since: '2026-01-01T00:00:00Z' }),
    await client.get(`${path}/stats`),
    await client.get(`${path}/deliveries`),
  ])
    expect([not_found.status, not_found.body.error.code]).toEqual([404, 'webhook_endpoint_not_found'])
  expect((await client.get(PATH)).body).toEqual([])
  expect(await typesOf(world, created.body.id)).toEqual(
    ['created', 'updated', 'deleted'].map((change) => `webhook_endpoint.${change}`),
  )
})

test('omitted fields have their defaults, and secret and headers are not stored in plaintext', async ({
  world,
}) => {
  const client = await world.clientOf()
  const { body } = await create(client)
  expect(body).toMatchObject({
    description: null,
    headers: {},
    ordered: false,
    max_in_flight: 10,
    rate_per_s: null,
    metadata: {},
  })
  const { secret } = await endpointOf(client, { headers: { authorization: 'Bearer witness-of-headers' } })
  const rows = await readAllRows(world.sql)
  expect(rows).toContain(body.id)
  for (const hidden of [secret, secret.slice(6), 'witness-of-headers', 'whsec_'])
    expect(rows.includes(hidden)).toBe(false)
})

test('a key creates one endpoint, and the replay does not show the secret', async ({ world }) => {
  const client = await world.clientOf()
  const idempotency_key = freshKey()
  const answers = await Promise.all(Array.from({ length: 10 }, () => create(client, { idempotency_key })))
  expect(new Set(answers.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1)
  expect(answers.filter(({ body }) => body.secret !== null)).toHaveLength(1)
  const replayed = await create(client, { idempotency_key })
  expect([replayed.status, replayed.headers.get('idempotent-replayed'), replayed.body.secret]).toEqual([
    201,
    'true',
    null,
  ])
  const other = await create(client, { idempotency_key, ordered: true })
  expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused'])
  expect(await typesOf(world, replayed.body.id)).toEqual(['webhook_endpoint.created'])
  await client.delete(`${PATH}/${replayed.body.id}`)
  const late = await create(client, { idempotency_key })
  expect([late.status, late.body.error.code]).toEqual([404, 'webhook_endpoint_not_found'])
})

test('twenty of thirty concurrent requests create an endpoint, and a deletion makes room for another endpoint', async ({
  world,
}) => {
  const client = await world.clientOf()
  const idempotency_key = freshKey()
  const first = await endpointOf(client, { idempotency_key })
  const answers = await Promise.all(Array.from({ length: 29 }, () => create(client)))
  expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([
    ...Array(19).fill(201),
    ...Array(10).fill(422),
  ])
  const refused = answers.find(({ status }) => status === 422)!
  expect([refused.body.error.code, refused.body.error.message]).toEqual([
    'too_many_webhook_endpoints',
    `The limit of ${MAX_ENDPOINTS} webhook endpoints is reached.`,
  ])
  expect((await client.get(`${PATH}?limit=100`)).body).toHaveLength(20)
  // A replay does not count towards the limit.
  expect((await create(client, { idempotency_key })).body.id).toBe(first.id)
  await client.delete(`${PATH}/${first.id}`)
  expect((await create(client)).status).toBe(201)
  expect((await create(client)).status).toBe(422)
  // The limit is per tenant.
  expect((await create(await world.clientOf())).status).toBe(201)
})

test('an invalid URL, event type or option is refused, and the error names the field', async ({ world }) => {
  const client = await world.clientOf()
  const { id } = await endpointOf(client)
  for (const [fields, param] of [
    [{ url: undefined }, 'url'],
    [{ url: 'nowhere' }, 'url'],
    [{ url: 'ftp://shop.example/' }, 'url'],
    [{ url: 'https://user:pass@shop.example/' }, 'url'],
    [{ url: 'http://127.0.0.1/' }, 'url'],
    [{ url: 'http://[::1]/' }, 'url'],
    [{ url: 'http://10.0.0.1:8080/' }, 'url'],
    [{ url: 'http://localhost/' }, 'url'],
    [{ url: `https://shop.example/${'x'.repeat(2048)}` }, 'url'],
    [{ types: undefined }, 'types'],
    [{ types: [] }, 'types'],
    [{ types: ['payment'] }, 'types.0'],
    [{ types: ['*', 'nothing.*'] }, 'types.1'],
    [{ types: ['payment.unheard_of'] }, 'types.0'],
    [{ types: ['webhook_delivery.*'] }, 'types.0'],
    [{ types: '*' }, 'types'],
    [{ headers: { host: 'a' } }, 'headers.host'],
    [{ headers: { 'Webhook-Id': 'a' } }, 'headers.Webhook-Id'],
    [{ headers: { 'x-a': 'a\nb' } }, 'headers.x-a'],
    [{ max_in_flight: 0 }, 'max_in_flight'],
    [{ max_in_flight: 101 }, 'max_in_flight'],
    [{ rate_per_s: 0 }, 'rate_per_s'],
    [{ rate_per_s: 1001 }, 'rate_per_s'],
    [{ description: 'x'.repeat(1001) }, 'description'],
    [{ secret: 'mine' }, 'secret'],
  ] as const) {
    const refused = await create(client, fields)
    expect([fields, refused.status, refused.body.error?.code, refused.body.error?.param]).toEqual([
      fields,
      400,
      'invalid_request',
      param,
    ])
  }
  const many = await create(client, { url: 'https://u:p@shop.example/', types: ['foo'], rate_per_s: 0 })
  expect(many.body.error.details.map(({ param }: { param: string }) => param)).toEqual([
    'url',
    'types.0',
    'rate_per_s',
  ])
  for (const [change, param] of [
    [{ url: 'http://169.254.169.254/latest' }, 'url'],
    [{ types: [] }, 'types'],
    [{ headers: { 'content-length': '1' } }, 'headers.content-length'],
    [{ status: 'gone' }, 'status'],
    [{ idempotency_key: 'x' }, 'idempotency_key'],
  ] as const) {
    const changed = await client.patch(`${PATH}/${id}`, change)
    expect([change, changed.status, changed.body.error?.param]).toEqual([change, 400, param])
  }
  expect((await client.get(PATH)).body).toHaveLength(1)
  expect(await typesOf(world, id)).toEqual(['webhook_endpoint.created'])
})

test('an endpoint is disabled manually, and enabling it clears the reason', async ({ world }) => {
  const client = await world.clientOf()
  const { id } = await endpointOf(client)
  const path = `${PATH}/${id}`
  expect((await client.patch(path, { status: 'disabled', ordered: true })).body).toMatchObject({
    status: 'disabled',
    disabled_reason: 'manual',
    ordered: true,
  })
  const rowOf = async () =>
    (
      await world.sql`
        select status, disabled_reason, failing_since, notified_at, enabled_at from webhook_endpoints where id = ${id}`
    )[0]
  await world.sql`
    update webhook_endpoints set disabled_reason = 'failing', failing_since = now(), notified_at = now() where id = ${id}`
  const before = await rowOf()
  // The endpoint is already disabled, so its reason stays.
  expect((await client.patch(path, { status: 'disabled' })).body.disabled_reason).toBe('failing')
  expect((await client.patch(path, { status: 'enabled' })).body).toMatchObject({
    status: 'enabled',
    disabled_reason: null,
  })
  const after = await rowOf()
  expect(after).toMatchObject({
    status: 'enabled',
    disabled_reason: null,
    failing_since: null,
    notified_at: null,
  })
  expect(after!['enabled_at'] > before!['enabled_at']).toBe(true)
  expect(await typesOf(world, id)).toEqual([
    'webhook_endpoint.created',
    'webhook_endpoint.updated',
    'webhook_endpoint.disabled',
    'webhook_endpoint.enabled',
  ])
})

test('concurrent changes are all applied', async ({ world }) => {
  const client = await world.clientOf()
  const { id } = await endpointOf(client)
  const changes = [
    { ordered: true },
    { max_in_flight: 7 },
    { rate_per_s: 9 },
    { description: 'ours' },
    { headers: { 'x-a': 'b' } },
    { status: 'disabled' },
  ]
  const answers = await Promise.all(changes.map((change) => client.patch(`${PATH}/${id}`, change)))
  expect(answers.map(({ status }) => status)).toEqual(changes.map(() => 200))
  expect((await client.get(`${PATH}/${id}`)).body).toMatchObject(Object.assign({}, ...changes))
  expect(await typesOf(world, id)).toHaveLength(7)
})

test('a hundred concurrent changes lead to a hundred writes and events', async ({ world }) => {
  const client = await world.clientOf()
  const { id } = await endpointOf(client)
  const server = connectDatabase(await postgresUrl(), { max: 1, application_name: 'test' })
  onTestFinished(() => server.end())
  const database = new globalThis.URL(world.config.DATABASE_URL!).pathname.slice(1)
  const writes = async () => {
    const [row] = await server<{ calls: number }[]>`
      select coalesce(sum(calls), 0)::integer as calls from pg_stat_statements
      where dbid = (select oid from pg_database where datname = ${database})
        and query like '%update webhook_endpoints e set (url%' and query not like '%pg_stat_statements%'`
    return row!.calls
  }
  const before = await writes()
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, n) => client.patch(`${PATH}/${id}`, { description: `the ${n}th` })),
  )
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
  expect([(await writes()) - before, (await typesOf(world, id)).length]).toEqual([100, 101])
})

test('many concurrent changes of one endpoint use one connection', async ({ world }) => {
  const client = await world.clientOf()
  const { id } = await endpointOf(client)
  const [locked, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const locking = world.sql.begin(async (tx) => {
    await tx`select from webhook_endpoints where id = ${id} for update`
    locked.resolve()
    await release.promise
  })
  await locked.promise
  let ended = 0
  const requests = Array.from({ length: 300 }, async (_, n) => {
    const answer =
      n < 290
        ? await client.patch(`${PATH}/${id}`, {})
        : await client.post(`${PATH}/${id}/recover`, { since: '2026-01-01T00:00:00Z' })
    ended += 1
    return answer
  })
  const countWaiting = async () =>
    (
      await world.sql`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
          and query like '%webhook_endpoints%'`
    ).length
  // Waits until requests are refused and one connection waits, or until two connections wait.
  while ((await countWaiting()) < (ended === 0 ? 2 : 1));
  const waiting_connections = await countWaiting()
  release.resolve()
  await locking
  const answers = await Promise.all(requests)
  expect(waiting_connections).toBe(1)
  const refused = answers.filter(({ status }) => status === 429)
  expect(refused.length).toBeGreaterThan(0)
  expect(refused.map(({ body, headers }) => [body.error.code, headers.get('retry-after')])).toEqual(
    refused.map(() => ['rate_limited', '1']),
  )
  expect(answers.every(({ status }) => [200, 202, 409, 429].includes(status))).toBe(true)
})

test('a deletion erases headers and secrets, and its response shows the last state', async ({ world }) => {
  const client = await world.clientOf()
  const headers = { 'x-shop': '17' }
  const { id, secret: _secret, ...shown } = await endpointOf(client, { headers })
  const { status, body } = await client.delete(`${PATH}/${id}`)
  expect([status, body]).toMatchObject([200, { id, headers, url: shown.url }])
  const rows = await world.sql`select headers, secrets from webhook_endpoints where id = ${id}`
  expect([...rows]).toEqual([{ headers: null, secrets: [] }])
})

test('in production the rules of a URL are reported together with other invalid fields', async ({
  world,
}) => {
  const env = { ...world.env, NODE_ENV: 'production' }
  const api = await startInThisProcess('api', env, createLog('silent', 'test'))
  onTestFinished(() => api.close())
  const { key } = await world.clientOf()
  const client = createClient(api.url!, key)
  for (const [url, message] of [
    ['http://shop.example/', 'must be https'],
    ['https://shop.example:8080/', 'must have port 443 or 8443'],
  ] as const) {
    const { status, body } = await create(client, { url, rate_per_s: 0 })
    expect([status, body.error.details]).toMatchObject([
      400,
      [{ param: 'url', message }, { param: 'rate_per_s' }],
    ])
  }
})

test('headers that cannot be decrypted are shown as empty and stay stored until new headers replace them', async ({
  world,
}) => {
  const folder = await createTemporaryFolder('headers')
  onTestFinished(() => folder.remove())
  const file = join(folder.path, 'log')
  const api = await startInThisProcess('api', world.env, createLog('error', 'test', openSync(file, 'a')))
  onTestFinished(() => api.close())
  const { key } = await world.clientOf()
  const client = createClient(api.url!, key)
  const { id } = await endpointOf(client, { headers: { 'x-shop': '17' } })
  await world.sql`update webhook_endpoints set headers = 'spoiled' where id = ${id}`
  const readSealed = async () =>
    (
      await world.sql<{ headers: string | null }[]>`select headers from webhook_endpoints where id = ${id}`
    )[0]!.headers
  const path = `${PATH}/${id}`
  const answers = [await client.get(path), await client.patch(path, { ordered: true })]
  expect(answers.map(({ status, body }) => [status, body.headers])).toEqual([
    [200, {}],
    [200, {}],
  ])
  expect((await client.get(PATH)).body).toMatchObject([{ id, headers: {}, ordered: true }])
  expect(await readSealed()).toBe('spoiled')
  expect((await client.patch(path, { headers: {} })).status).toBe(200)
  expect(await readSealed()).toBeNull()
  await world.sql`update webhook_endpoints set headers = 'spoiled' where id = ${id}`
  expect(await client.delete(path)).toMatchObject({ status: 200, body: { id, headers: {} } })
  await eventually(async () => expect(await readFile(file, 'utf8')).toContain(id))
  expect(
    (await readFile(file, 'utf8')).split('\n').filter((line) => line.includes('cannot be decrypted')),
  ).toHaveLength(1)
})

test('events about an endpoint do not contain its secret or headers', async ({ world }) => {
  const client = await world.clientOf()
  const { id } = await endpointOf(client, { headers: { 'x-hidden': 'hidden' } })
  const [event] = await world.sql<{ data: object }[]>`select data from events where subject_id = ${id}`
  expect(event!.data).toMatchObject({ id, url: URL, types: ['*'], status: 'enabled' })
  expect(event!.data).not.toHaveProperty('headers')
  expect(event!.data).not.toHaveProperty('secret')
  expect(JSON.stringify(event!.data)).not.toMatch(/hidden|sealed|secret/)
})

test('a rotated secret signs until its grace period ends, and at most ten rotated secrets sign', async ({
  world,
}) => {
  const client = await world.clientOf()
  const created = await endpointOf(client)
  const path = `${PATH}/${created.id}/rotate_secret`
  const rotate = async (body?: object) => await client.post(path, body)
  const second = await rotate()
  expect([second.status, second.body]).toMatchObject([
    200,
    { id: created.id, secret: expect.stringMatching(SECRET) },
  ])
  expect(await secretsOf(world, created)).toEqual([
    { secret: second.body.secret, remaining_s: null },
    { secret: created.secret, remaining_s: expect.closeTo(86_400, -2) },
  ])
  // A longer grace period does not extend the grace period of earlier secrets.
  const third = await rotate({ grace_s: 604_800 })
  expect(await secretsOf(world, created)).toEqual([
    { secret: third.body.secret, remaining_s: null },
    { secret: second.body.secret, remaining_s: expect.closeTo(604_800, -2) },
    { secret: created.secret, remaining_s: expect.closeTo(86_400, -2) },
  ])
  for (let nth = 0; nth < 12; nth++) await rotate()
  const many = await secretsOf(world, created)
  expect(many).toHaveLength(11)
  expect(many.some(({ secret }) => secret === created.secret)).toBe(false)
  const leaked = await rotate({ grace_s: 0 })
  expect(await secretsOf(world, created)).toEqual([{ secret: leaked.body.secret, remaining_s: null }])
  for (const grace_s of [-1, 604_801, 1.5, '1', null]) expect((await rotate({ grace_s })).status).toBe(400)
  expect((await client.get(`${PATH}/${created.id}`)).body.secret).toBe(null)
  expect(await typesOf(world, created.id)).toHaveLength(16)
})

test('a secret is rotated once per idempotency key', async ({ world }) => {
  const client = await world.clientOf()
  const created = await endpointOf(client)
  const path = `${PATH}/${created.id}/rotate_secret`
  const key = { 'idempotency-key': freshKey() }
  const answers = await Promise.all(Array.from({ length: 5 }, () => client.post(path, undefined, key)))
  expect(answers.map(({ status }) => status)).toEqual(Array(5).fill(200))
  expect(answers.filter(({ body }) => body.secret !== null)).toHaveLength(1)
  expect(await secretsOf(world, created)).toHaveLength(2)
})

test('an endpoint without deliveries has empty statistics', async ({ world }) => {
  const client = await world.clientOf()
  const { id } = await endpointOf(client)
  expect((await client.get(`${PATH}/${id}/stats`)).body).toEqual({
    livemode: true,
    delivered: 0,
    failed: 0,
    pending: 0,
    p50_ms: null,
    p95_ms: null,
    last_success_at: null,
    last_failure_at: null,
  })
})

test('the statistics cover seven days, all shards and pending deliveries', async ({ world }) => {
  const { sql } = world
  const client = await world.clientOf()
  const { id } = await endpointOf(client)
  const { tenant_id } = client
  const row = (ago: string, bucket: number, shard: number, count: number) => sql`
    insert into webhook_stats (tenant_id, endpoint_id, hour, bucket, shard, count, last_at)
    values (${tenant_id}, ${id}, date_trunc('hour', now()) - ${ago}::interval, ${bucket}, ${shard}, ${count},
      now() - ${ago}::interval)`
  await row('8 days', 0, 0, 1000)
  await row('1 day', 48, 0, 90)
  await row('0 days', 48, 3, 4)
  await row('2 days', 72, 1, 6)
  await row('0 days', -1, 0, 2)
  await row('1 hour', -2, 0, 30)
  await sql`
    insert into webhook_due (tenant_id, endpoint_id, sequence, delivery_id, delivery_created_at, due_at, queued_at)
    select ${tenant_id}, ${id}, nth, uuidv7(), now(), now(), now() from generate_series(1, 3) nth`
  await sql`
    insert into jobs (id, tenant_id, queue, name, resource_id, payload, max_attempts)
    select uuidv7(), ${tenant_id}, 'deliveries', ${sendDelivery.name}, ${id}, '{}', 1 from generate_series(1, 2)`
  const { body } = await client.get(`${PATH}/${id}/stats`)
  expect(body).toMatchObject({ delivered: 100, failed: 2, pending: 5, p50_ms: 97, p95_ms: 956 })
  const [times] = await sql<{ correct: boolean }[]>`
    select ${body.last_success_at}::timestamptz > now() - interval '10 minutes'
      and ${body.last_failure_at}::timestamptz between now() - interval '70 minutes' and now() - interval '50 minutes' as correct`
  expect(times!.correct).toBe(true)

  const hours = await findEndpointHours(sql, tenant_id, id)
  expect(hours).toHaveLength(7 * 24)
  const empty_hour = { delivered: 0, failed: 0, failed_attempts: 0, p50_ms: null, p95_ms: null }
  expect(hours.at(-1)).toMatchObject({ ...empty_hour, delivered: 4, failed: 2, p50_ms: 97, p95_ms: 97 })
  expect(hours.at(-2)).toMatchObject({ ...empty_hour, failed_attempts: 30 })
  expect(hours.at(-1 - 24)).toMatchObject({ ...empty_hour, delivered: 90, p50_ms: 97, p95_ms: 97 })
  expect(hours.at(-1 - 48)).toMatchObject({ ...empty_hour, delivered: 6, p50_ms: 956, p95_ms: 956 })
  const [own, ...others] = await findEndpointSeries(sql, tenant_id)
  expect([own?.endpoint_id, own?.points.length, others.length]).toEqual([id, 28, 0])
  const sums = own!.points.reduce(
    (sum, { delivered, failed_attempts }) => [sum[0]! + delivered, sum[1]! + failed_attempts],
    [0, 0],
  )
  expect(sums).toEqual([100, 30])
})

/** Stores a delivery of a new event. */
const deliver = async (
  world: World,
  { tenant_id }: Tenant,
  id: string,
  fields: Parameters<typeof deliveryTo>[2] = {},
) => await deliveryTo(world.sql, { tenant_id, id }, fields)

test('deliveries can be filtered by status, type, event and time, and are newest first and in pages', async ({
  world,
}) => {
  const client = await world.clientOf()
  const [endpoint, other] = [await endpointOf(client), await endpointOf(client)]
  const created: { id: string; event_id: string }[] = []
  for (const [status, type] of [
    ['pending', 'payment.captured'],
    ['delivered', 'payment.authorized'],
    ['failed', 'refund.succeeded'],
    ['exhausted', 'payment.captured'],
    ['skipped', 'payout.paid'],
  ] as const)
    created.unshift(await deliver(world, client, endpoint.id, { status, type }))
  const other_delivery = await deliver(world, client, other.id)
  const path = `${PATH}/${endpoint.id}/deliveries`
  const found = async (query: string) =>
    (await client.get(`${path}?${query}`)).body.map(({ id }: { id: string }) =>
      created.findIndex((each) => each.id === id),
    )
  expect(await found('')).toEqual([0, 1, 2, 3, 4])
  for (const [nth, status] of ['skipped', 'exhausted', 'failed', 'delivered', 'pending'].entries())
    expect(await found(`status=${status}`)).toEqual([nth])
  expect(await found('type=payment.captured')).toEqual([1, 4])
  expect(await found('type=payment.*')).toEqual([1, 3, 4])
  expect(await found('type=*')).toEqual([0, 1, 2, 3, 4])
  expect(await found('type=payment.*&status=exhausted')).toEqual([1])
  expect(await found(`event_id=${created[2]!.event_id}`)).toEqual([2])
  expect(await found(`event_id=${other_delivery.event_id}`)).toEqual([])
  const page = await client.get(`${path}?limit=2`)
  const next = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1]
  expect((await client.get(next!)).body.map(({ id }: { id: string }) => id)).toEqual([
    created[2]!.id,
    created[3]!.id,
  ])
  const [newest] = page.body
  expect(newest).toEqual({
    id: created[0]!.id,
    tenant_id: client.tenant_id,
    livemode: true,
    endpoint_id: endpoint.id,
    event_id: created[0]!.event_id,
    type: 'payout.paid',
    sequence: 17,
    status: 'skipped',
    attempts: 0,
    next_attempt_at: null,
    last_status_code: null,
    last_error: null,
    delivered_at: null,
    created_at: expect.any(String),
    updated_at: expect.any(String),
  })
  expect(await found(`created_from=${newest.created_at}`)).toEqual([0])
  expect(await found(`created_to=${newest.created_at}`)).toEqual([1, 2, 3, 4])
  expect((await client.get(`${path}?type=payout.payd`)).body.error.message).toBe(
    'type `payout.payd` is not an event type; did you mean `payout.paid`? The reference at /docs lists all types.',
  )
  for (const query of [
    'status=sent',
    'type=payment',
    'type=nothing.*',
    'event_id=x',
    'endpoint_id=x',
    'limit=0',
  ])
    expect([query, (await client.get(`${path}?${query}`)).status]).toEqual([query, 400])
})

test('a delivery shows its attempts and its exact payload', async ({ world }) => {
  const client = await world.clientOf()
  const { id: endpoint_id } = await endpointOf(client)
  const data = { id: UNKNOWN_ID, note: 'ü'.repeat(10), list: [1, 2.5, null] }
  const created = await deliver(world, client, endpoint_id, { status: 'delivered', data })
  const { body, text } = await client.get(`${DELIVERIES}/${created.id}`)
  expect(body.attempts_log).toEqual([
    {
      at: '2026-11-20T10:15:30.123456Z',
      status_code: 200,
      duration_ms: 84,
      error: null,
      response_excerpt: 'ok',
      manual: false,
    },
  ])
  const [event] = await world.sql<{ created_at: string }[]>`
    select created_at from events where id = ${created.event_id}`
  const sent = {
    id: created.event_id,
    type: 'payment.captured',
    created_at: event!.created_at,
    sequence: 17,
    tenant_id: client.tenant_id,
    livemode: true,
    data,
  }
  const { created_at: timestamp, ...rest } = sent
  expect(body.payload).toEqual({ ...rest, data: { ...data, livemode: true }, timestamp })
  expect(text).toContain(`"payload":${JSON.stringify(body.payload)}`)
  expect(JSON.stringify(body.payload)).toBe(
    payloadOf({
      ...sent,
      data: (await world.sql`select data from events where id = ${created.event_id}`)[0]!['data'],
    }),
  )
  // One byte above the size limit of a complete payload.
  const empty = payloadOf({ ...sent, data: { id: UNKNOWN_ID, text: '' } })
  const payloadOfSize = (bytes: number) =>
    payloadOf({ ...sent, data: { id: UNKNOWN_ID, text: 'x'.repeat(bytes - empty.length) } })
  expect(JSON.parse(payloadOfSize(20_000))).not.toHaveProperty('truncated')
  expect(JSON.parse(payloadOfSize(20_001))).toEqual({
    ...rest,
    timestamp,
    data: { id: UNKNOWN_ID, truncated: true },
  })
})

test('a test delivery and its job are created once per idempotency key, even for a disabled endpoint', async ({
  world,
}) => {
  const client = await world.clientOf()
  const { id } = await endpointOf(client, { types: ['payout.paid'] })
  await client.patch(`${PATH}/${id}`, { status: 'disabled' })
  const idempotency_key = freshKey()
  const sendRequest = async (body?: object) => await client.post(`${PATH}/${id}/test`, body)
  const accepted = await sendRequest({ type: 'refund.succeeded', idempotency_key })
  expect([accepted.status, accepted.body]).toMatchObject([
    202,
    { endpoint_id: id, type: 'refund.succeeded', sequence: null, status: 'pending', attempts: 0 },
  ])
  const path = `${DELIVERIES}/${accepted.body.id}`
  expect(accepted.headers.get('location')).toBe(path)
  const replayed = await sendRequest({ type: 'refund.succeeded', idempotency_key })
  expect([replayed.status, replayed.headers.get('idempotent-replayed'), replayed.body]).toEqual([
    202,
    'true',
    accepted.body,
  ])
  const several = await Promise.all(['customer.*', '*'].map(async (type) => await sendRequest({ type })))
  expect(several.map(({ body }) => body.error.message)).toEqual([
    'type `customer.*` means several types; a test needs a single type. The reference at /docs lists all types.',
    'type `*` means several types; a test needs a single type. The reference at /docs lists all types.',
  ])
  const { payload, attempts_log } = (await client.get(path)).body
  expect(attempts_log).toEqual([])
  expect(payload).toMatchObject({
    id: accepted.body.event_id,
    type: 'refund.succeeded',
    sequence: null,
    tenant_id: client.tenant_id,
    data: { tenant_id: client.tenant_id, status: 'succeeded', amount_minor: expect.any(Number) },
  })
  const jobs = await world.sql`
    select name, queue, resource_id, payload, state from jobs where tenant_id = ${client.tenant_id}`
  expect(jobs).toEqual([
    {
      name: 'webhook_endpoint.test',
      queue: 'deliveries',
      resource_id: id,
      payload: { delivery_id: accepted.body.id, created_at: accepted.body.created_at },
      state: 'ready',
    },
  ])
  for (const [types, type] of [
    [['payout.paid'], 'payout.paid'],
    [['refund.*', 'payout.paid'], 'refund.created'],
    [['refund.*', 'payment.*'], 'payment.captured'],
    [['*'], 'payment.captured'],
  ] as const) {
    await client.patch(`${PATH}/${id}`, { types })
    for (const body of [undefined, {}])
      expect([types, (await sendRequest(body)).body.type]).toEqual([types, type])
  }
  for (const type of ['payment.*', '*', 'nothing.happened', 1])
    expect((await sendRequest({ type })).status).toBe(400)
  expect((await client.get(`/v1/idempotency_keys/${idempotency_key}`)).body).toMatchObject([
    { resource: 'webhook_delivery', resource_id: accepted.body.id, status: 'under_way' },
  ])
})

test("a replayed test without a type returns the first test, even after a change of the endpoint's types", async ({
  world,
}) => {
  const client = await world.clientOf()
  const { id } = await endpointOf(client, { types: ['payout.paid'] })
  const idempotency_key = freshKey()
  const sendRequest = async () => await client.post(`${PATH}/${id}/test`, { idempotency_key })
  const accepted = await sendRequest()
  await client.patch(`${PATH}/${id}`, { types: ['customer.*'] })
  const replayed = await sendRequest()
  expect([replayed.status, replayed.body]).toEqual([202, accepted.body])
})

test('a delivery is sent again by a job with the API key of the request, unless the event is erased', async ({
  world,
}) => {
  const client = await world.clientOf()
  const { id: endpoint_id } = await endpointOf(client)
  const created = await deliver(world, client, endpoint_id, { status: 'failed' })
  const replay = async (id: string) => await client.post(`${DELIVERIES}/${id}/replay`)
  const accepted = await replay(created.id)
  expect([accepted.status, accepted.headers.get('location')]).toEqual([202, `${DELIVERIES}/${created.id}`])
  const {
    attempts_log: _log,
    payload: _payload,
    ...shown
  } = (await client.get(`${DELIVERIES}/${created.id}`)).body
  expect(accepted.body).toEqual(shown)
  const jobs = await world.sql`
    select name, resource_id, payload from jobs where tenant_id = ${client.tenant_id}`
  expect(jobs).toEqual([
    {
      name: 'webhook_endpoint.replay',
      resource_id: endpoint_id,
      payload: { delivery_id: created.id, created_at: shown.created_at, key_id: client.key_id },
    },
  ])
  // The event is erased after its retention.
  await world.sql`delete from events where id = ${created.event_id}`
  const expired = await replay(created.id)
  expect([expired.status, expired.body.error.code]).toEqual([409, 'event_expired'])
  expect((await client.get(`${DELIVERIES}/${created.id}`)).body.payload).toBe(null)
  const missing = await replay(UNKNOWN_ID)
  expect([missing.status, missing.body.error.code]).toEqual([404, 'webhook_delivery_not_found'])
  await client.delete(`${PATH}/${endpoint_id}`)
  for (const not_found of [await replay(created.id), await client.get(`${DELIVERIES}/${created.id}`)])
    expect([not_found.status, not_found.body.error.code]).toEqual([404, 'webhook_delivery_not_found'])
})

test('an endpoint has one recovery at a time, and the progress of the recovery can be read', async ({
  world,
}) => {
  const client = await world.clientOf()
  const { id } = await endpointOf(client)
  await client.patch(`${PATH}/${id}`, { status: 'disabled' })
  const sendRequest = async (body?: object) => await client.post(`${PATH}/${id}/recover`, body)
  const window = { since: '2026-01-01T00:00:00Z', until: '2026-01-01T00:00:00.000001Z' }
  for (const [body, param] of [
    [undefined, 'since'],
    [{}, 'since'],
    [{ since: 'yesterday' }, 'since'],
    [{ since: window.until, until: window.since }, 'since'],
    [{ since: window.since, until: window.since }, 'since'],
    [{ since: '2999-01-01T00:00:00Z' }, 'since'],
    [{ ...window, endpoint_id: id }, 'endpoint_id'],
  ] as const) {
    const refused = await sendRequest(body)
    expect([body, refused.status, refused.body.error?.param]).toEqual([body, 400, param])
  }
  const idempotency_key = freshKey()
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => sendRequest({ ...window, idempotency_key })),
  )
  expect(new Set(answers.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1)
  const [accepted] = answers
  expect([accepted!.status, accepted!.body]).toMatchObject([
    202,
    {
      endpoint_id: id,
      tenant_id: client.tenant_id,
      since: '2026-01-01T00:00:00.000000Z',
      until: window.until,
      status: 'pending',
      found: 0,
      sent: 0,
    },
  ])
  const path = `/v1/webhook_recoveries/${accepted!.body.id}`
  expect(accepted!.headers.get('location')).toBe(path)
  expect((await client.get(path)).body).toEqual(accepted!.body)
  const second = await sendRequest({ since: window.since })
  expect([second.status, second.body.error.code, second.body.error.context]).toEqual([
    409,
    'recovery_in_progress',
    { webhook_recovery_id: accepted!.body.id },
  ])
  await world.sql`update webhook_recoveries set status = 'completed', after_at = null where id = ${accepted!.body.id}`
  const racing = await Promise.all(Array.from({ length: 6 }, () => sendRequest({ since: window.since })))
  expect(racing.map(({ status }) => status).sort((a, b) => a - b)).toEqual([202, ...Array(5).fill(409)])
  expect((await client.get(`/v1/webhook_recoveries/${UNKNOWN_ID}`)).body.error.code).toBe(
    'webhook_recovery_not_found',
  )
  await client.delete(`${PATH}/${id}`)
  expect((await client.get(path)).status).toBe(404)
})

test('recoveries are read on the database connections for lists', async ({ world }) => {
  const client = await world.clientOf()
  const { id } = await endpointOf(client)
  const recovery = { since: '2026-01-01T00:00:00Z', idempotency_key: freshKey() }
  const sendRequest = async () => await client.post(`${PATH}/${id}/recover`, recovery)
  const { body } = await sendRequest()
  const readers = async (read: () => Promise<Answer>) => {
    const [before] = await world.sql<{ now: string }[]>`select clock_timestamp() as now`
    expect((await read()).body).toEqual(body)
    const rows = await world.sql<{ name: string }[]>`
      select application_name as name from pg_stat_activity
      where datname = current_database() and query_start >= ${before!.now} and query like '%as sent%'
        and query not like '%pg_stat_activity%'`
    return rows.map(({ name }) => name)
  }
  expect(await readers(() => client.get(`/v1/webhook_recoveries/${body.id}`))).toEqual(['sluice-api-lists'])
  expect(await readers(sendRequest)).toEqual(['sluice-api-lists'])
})

test('the scope to read does not permit writing, and the scope to write does not permit reading', async ({
  world,
}) => {
  const { client } = world
  const endpoint = await endpointOf(client)
  const path = `${PATH}/${endpoint.id}`
  const routes: [method: string, path: string, scope: Scope][] = [
    ['GET', PATH, 'events:read'],
    ['GET', path, 'events:read'],
    ['GET', `${path}/stats`, 'events:read'],
    ['GET', `${path}/deliveries`, 'events:read'],
    ['POST', PATH, 'webhooks:write'],
    ['PATCH', path, 'webhooks:write'],
    ['POST', `${path}/rotate_secret`, 'webhooks:write'],
    ['POST', `${path}/test`, 'webhooks:write'],
    ['POST', `${path}/recover`, 'webhooks:write'],
    ['POST', `${DELIVERIES}/${UNKNOWN_ID}/replay`, 'webhooks:write'],
    ['DELETE', path, 'webhooks:write'],
  ]
  for (const scope of ['events:read', 'webhooks:write'] as const) {
    const limited = await world.clientOf({ tenant: 'acme', scopes: [scope] })
    for (const [method, to, needed] of routes) {
      const { status } = await limited.send(method, to)
      expect([method, to, scope, status === 403]).toEqual([method, to, scope, needed !== scope])
    }
  }
})

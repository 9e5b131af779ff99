// Accepted requests are recorded in Redis, and those that the database loses are reported to their tenants.
import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { describe, expect, onTestFinished } from 'vitest'
import { recoverCommand } from '#commands/recover.ts'
import { queueConfig } from '#core/config.ts'
import { metrics } from '#core/metrics.ts'
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { signWitness } from '#core/witness-signature.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { findEmailLoss } from '#domain/lost-requests/email-losses.ts'
import { ROUTES_WITH_VISIBLE_EFFECT } from '#domain/lost-requests/visible-effects.ts'
import { recoverParty } from '#domain/recovered/parties.ts'
import { acceptedKeysOf } from '#domain/switches/kept-facts.ts'
import { createAcceptedStream, type AcceptedRequest } from '#queue/accepted.ts'
import type { BackendWatch } from '#queue/away.ts'
import type { Backend } from '#queue/backend.ts'
import { createProducer } from '#queue/producer.ts'
import { openQueue, type RecordedRequest } from '#queue/queue.ts'
import type { FindAcceptedKeys } from '#queue/settings.ts'
import { freshKey, type Client } from '#test/client.ts'
import { runHere } from '#test/commands.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { ASYNC, authorizedPayment, createPayment, eventually } from '#test/payments.ts'
import { createRedis } from '#test/redis.ts'
import { verificationOf } from '#test/verifications.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

type Shop = Client & { tenant_id: string }

const test = testIn()
const CUSTOMER = { name: 'Ada' }
/** These create something, change nothing, or may be done any number of times. */
const WITHOUT_VISIBLE_EFFECT = [
  'POST /v1/compliance/kyc/:id/link',
  'POST /v1/messages/templates/:id/preview',
  'POST /v1/payments/:id/refunds',
  'POST /v1/webhook_deliveries/:id/replay',
  'POST /v1/webhook_endpoints/:id/recover',
  'POST /v1/webhook_endpoints/:id/rotate_secret',
  'POST /v1/webhook_endpoints/:id/test',
]

function openStream(
  config: { redis_url: string | null; database_url: string },
  {
    accepted_max = 1_000,
    findAcceptedKeys = async () => [Buffer.alloc(32)],
  }: { accepted_max?: number; findAcceptedKeys?: FindAcceptedKeys } = {},
) {
  let unrecorded = 0
  const queue = openQueue(
    { ...config, accepted_max },
    {
      log: () => {},
      process_id: randomUUID(),
      findAcceptedKeys,
      onUnrecorded: (requests) => (unrecorded += requests),
    },
  )
  onTestFinished(() => queue.close())
  return { queue, stream: queue.accepted!, unrecorded: () => unrecorded }
}

/** The recorded requests of a tenant. */
async function recordedOf(world: World, { tenant_id }: Shop): Promise<RecordedRequest[]> {
  const { stream } = openStream(queueConfig(world.config), {
    findAcceptedKeys: acceptedKeysOf(world.sql, () => world.config.ENCRYPTION_KEY!),
  })
  const { requests } = await stream.read(0, 100_000)
  return requests.filter((request) => request.tenant_id === tenant_id)
}

/** Records a switch of the database that has lost what happened in the last minutes. */
async function recordSwitch({ sql }: World, { lists_read = true } = {}): Promise<number> {
  const [row] = await sql<{ number: number }[]>`
    insert into database_switches (number, kind, sign, from_system_identifier, from_timeline, to_system_identifier,
      to_timeline, newest_at, switched_at, recorded_at, lists_read_at)
    select coalesce(max(number), 0) + 1, 'failover', 'lineage', '1', 1, '1', 2, now() - interval '1 minute', now(), now(),
      case when ${lists_read} then now() end
    from database_switches
    returning number`
  return row!.number
}

/** Resolves when the accepted requests have been compared after this switch. */
async function untilCompared({ sql }: World, number: number): Promise<void> {
  await eventually(async () => {
    const rows = await sql`
      select from recurring_work where name = 'lost requests' and (position ->> 'number')::bigint >= ${number}
        and lease_until is null`
    expect(rows.count).toBe(1)
  })
}

async function lose({ sql }: World, { tenant_id }: Shop, resource_id: string): Promise<void> {
  await sql.begin(async (tx) => {
    // No event moves into the feed meanwhile.
    await tx`select from event_sequences where tenant_id = ${SYSTEM_TENANT_ID} for update`
    await tx`alter table messages disable trigger all`
    await tx`delete from idempotency_keys where tenant_id = ${tenant_id} and resource_id = ${resource_id}`
    await tx`delete from events where tenant_id = ${tenant_id} and data ->> 'id' = ${resource_id}`
    for (const table of ['customers', 'payments', 'recipients', 'messages'])
      await tx`delete from ${tx(table)} where tenant_id = ${tenant_id} and id = ${resource_id}`
    await tx`delete from jobs where tenant_id = ${tenant_id} and resource_id = ${resource_id}`
    await tx`alter table messages enable trigger all`
  })
}

const lostOf = async (shop: Shop) =>
  (await shop.get('/v1/events?type=request.lost&limit=100')).body.map(({ data }: { data: object }) => data)

test('each accepted request is recorded with its key and resource, and without its content', async ({
  world,
}) => {
  const shop = await world.clientOf()
  const [key, payment_key, capture_key] = [freshKey(), freshKey(), freshKey()]
  const customer = (await shop.post('/v1/customers', { ...CUSTOMER, idempotency_key: key })).body
  await shop.post('/v1/customers', { ...CUSTOMER, idempotency_key: key })
  const payment = (
    await shop.post('/v1/payments', {
      amount_minor: 1000,
      currency: 'USD',
      method: 'card',
      idempotency_key: payment_key,
    })
  ).body
  await shop.post(`/v1/payments/${payment.id}/cancel`, { idempotency_key: capture_key })
  // A refused request is not recorded.
  await shop.post(`/v1/payments/${newId()}/capture`, { idempotency_key: freshKey() })
  await eventually(async () => expect(await recordedOf(world, shop)).toHaveLength(3))
  const recorded = await recordedOf(world, shop)
  expect(
    recorded.map(({ route, key: of_request, resource_id, is_created }) => [
      route,
      of_request,
      resource_id,
      is_created,
    ]),
  ).toEqual([
    ['POST /v1/customers', key, customer.id, true],
    ['POST /v1/payments', payment_key, payment.id, true],
    [`POST /v1/payments/:id/cancel ${payment.id}`, capture_key, payment.id, false],
  ])
  expect(JSON.stringify(recorded)).not.toContain('Ada')
})

test('after a switch, each lost request is reported once to its tenant, and no other request', async ({
  world,
}) => {
  const shop = await world.clientOf()
  const create = async (
    idempotency_key: string | undefined,
    path = '/v1/customers',
    body: object = CUSTOMER,
  ) => (await shop.post(path, { ...body, idempotency_key })).body
  const keys = [freshKey(), freshKey(), freshKey()] as const
  const lost = await create(keys[0])
  const kept = await create(keys[1])
  const again = await create(keys[2])
  const payment = await create(freshKey(), '/v1/payments', {
    amount_minor: 1000,
    currency: 'USD',
    method: 'card',
  })
  const email = {
    to: ['ada@example.com'],
    subject: 'Hello',
    text: 'Hello',
    send_at: new Date(Date.now() + 3_600_000).toISOString(),
  }
  const emails = [
    await create(freshKey(), '/v1/messages/email', email),
    await create(freshKey(), '/v1/messages/email', email),
    await create(freshKey(), '/v1/messages/email', email),
  ]
  const cancel_key = freshKey()
  for (const path of [`payments/${payment.id}`, `messages/${emails[0].id}`])
    await shop.post(`/v1/${path}/cancel`, { idempotency_key: cancel_key })
  for (const { id } of emails.slice(1)) await shop.post(`/v1/messages/${id}/cancel`, {})
  await world.drain()
  await eventually(async () => expect(await recordedOf(world, shop)).toHaveLength(11))
  await lose(world, shop, lost.id)
  await lose(world, shop, again.id)
  // The rows of the payment and of one email show that they are canceled; those of two emails do not.
  await world.sql`
    delete from idempotency_keys where tenant_id = ${shop.tenant_id} and key = ${cancel_key}`
  await world.sql`delete from jobs where resource_id = ${payment.id} and name = 'payment.cancel'`
  await world.sql`
    update messages set status = 'scheduled' where id = any(${[emails[0].id, emails[1].id]}::uuid[])`
  // A provider has brought back the row of this request, without its key.
  await world.sql`delete from idempotency_keys where tenant_id = ${shop.tenant_id} and key = ${keys[1]}`
  // The caller has repeated this one.
  await create(keys[2])
  // Of this one, only the id is known again.
  const nameless = await create(freshKey())
  await eventually(async () => expect(await recordedOf(world, shop)).toHaveLength(13))
  await lose(world, shop, nameless.id)
  await world.sql.begin((tx) => recoverParty(tx, 'customer', { tenant_id: shop.tenant_id, id: nameless.id }))
  // Earlier and later requests have the same effect as the lost ones, or may have it.
  const verification = await verificationOf(shop)
  const decision = { decision: 'approved', reason: 'checked', idempotency_key: freshKey() }
  expect((await shop.post(`/v1/compliance/kyc/${verification.id}/decide`, decision)).status).toBe(200)
  const captured = await authorizedPayment(shop)
  const [canceling, canceled_since] = [await authorizedPayment(shop), await authorizedPayment(shop)]
  const payments = { tenant_id: shop.tenant_id, queue: 'payments' } as const
  await pauseJobs(world.sql, payments)
  const capture = await shop.post(
    `/v1/payments/${captured.id}/capture`,
    { idempotency_key: freshKey() },
    ASYNC,
  )
  expect(capture.body).toMatchObject({ status: 'capturing' })
  for (const { id } of [canceling, canceled_since])
    expect((await shop.post(`/v1/payments/${id}/cancel`, {}, ASYNC)).body).toMatchObject({
      status: 'canceling',
    })
  // After the switch.
  await world.sql`
    update payments set cancel_requested_at = now() + interval '5 minutes' where id = ${canceled_since.id}`
  await world.sql`
    update verifications set decided_at = now() + interval '5 minutes' where id = ${verification.id}`

  // Entries that somebody else has written do not stop the reports, and report nothing. A NUL would make the database
  // refuse the batch.
  const foreign = new Redis(queueConfig(world.config).redis_url!)
  onTestFinished(() => foreign.disconnect())
  const malformed = [shop.tenant_id, 'POST /v1/customers', 'nul \0', lost.id, true, null]
  const forged = [shop.tenant_id, 'POST /v1/customers', 'forged', newId(), true, null]
  const sign = (keys: Buffer[], items: unknown[], at = Date.now(), spaces = 0) =>
    signWitness(keys, 'sluice:accepted', JSON.stringify([at, items]).padEnd(spaces))
  const own_keys = await acceptedKeysOf(world.sql, () => world.config.ENCRYPTION_KEY!)()
  const written = [
    'no JSON',
    JSON.stringify([Date.now(), [forged]]),
    sign([Buffer.alloc(32)], [forged]),
    sign(own_keys, [malformed]),
    sign(own_keys, [forged], Date.now(), 300_000),
  ]
  const write = (text: string) => foreign.xadd('{sluice}:accepted', '*', 'requests', text, 'count', 1)
  for (const text of written) await write(text)
  // The database has forgotten the requests of the time from which this one was copied.
  await write(sign(own_keys, [forged], Date.now() - 2 * 86_400_000))
  const without_key = [shop.tenant_id, 'POST /v1/customers', null, newId(), true, null]
  const copied = sign(own_keys, [without_key])
  await write(copied)
  for (const route of [
    `payments/:id/capture ${captured.id}`,
    `compliance/kyc/:id/decide ${verification.id}`,
    `payments/:id/cancel ${canceling.id}`,
    `payments/:id/cancel ${canceled_since.id}`,
  ]) {
    const id = route.split(' ')[1]
    const overtaken = [[shop.tenant_id, `POST /v1/${route}`, freshKey(), id, false, newId()]]
    await write(sign(own_keys, overtaken))
  }
  // Nothing shows whether a link was requested again.
  const kyc_id = newId()
  await write(
    sign(own_keys, [
      [shop.tenant_id, `POST /v1/compliance/kyc/:id/link ${kyc_id}`, null, kyc_id, false, newId()],
    ]),
  )

  const number = await recordSwitch(world)
  await untilCompared(world, number)
  const [run] = await world.sql`select result from recurring_work where name = 'lost requests'`
  expect(run!.result).toMatchObject({ malformed: written.length })
  await eventually(async () => expect(await lostOf(shop)).toHaveLength(8))
  await resumeJobs(world.sql, payments)
  const reports = await lostOf(shop)
  expect(reports).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        idempotency_key: keys[0],
        path: 'POST /v1/customers',
        resource_id: lost.id,
        tenant_id: shop.tenant_id,
      }),
      expect.objectContaining({
        idempotency_key: cancel_key,
        path: `POST /v1/messages/${emails[0].id}/cancel`,
        resource_id: emails[0].id,
      }),
      expect.objectContaining({ idempotency_key: null, resource_id: emails[1].id }),
      expect.objectContaining({ idempotency_key: null, resource_id: without_key[3] }),
      ...[nameless, captured, verification, canceling].map(({ id }) =>
        expect.objectContaining({ resource_id: id }),
      ),
    ]),
  )
  expect(kept.id).not.toBe(lost.id)
  const { paths } = (await shop.get('/openapi.json')).body
  const actions = Object.entries<any>(paths).flatMap(([path, { post }]) =>
    post && path.includes('{id}') ? [`POST ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`] : [],
  )
  expect(ROUTES_WITH_VISIBLE_EFFECT.filter((route) => !actions.includes(route))).toEqual([])
  const others = actions.filter((route) => !ROUTES_WITH_VISIBLE_EFFECT.includes(route))
  expect(others.toSorted()).toEqual(WITHOUT_VISIBLE_EFFECT)
  await world.sql`
    update database_switches set released_at = now(), released_by = ${'Ada\u009b2J\nEve'}, messages = 'discard'`
  const { stdout } = await runHere(recoverCommand, ['status'], world.env)
  expect(stdout).toContain(' by Ada 2J Eve, messages: discard')
  const [{ slug }] = (await world.sql`select slug from tenants where id = ${shop.tenant_id}`) as any
  expect(stdout).toContain(`POST /v1/customers of tenant ${slug}, key ${keys[0]}`)
  expect(stdout).toMatch(
    /^recorded {4}all accepted requests since 20\S+; 4 earlier records cannot be verified/m,
  )
  // The `npm start` of a folder publishes the addresses of its servers, and stores its keys.
  const folder = await createTemporaryFolder()
  onTestFinished(folder.remove)
  const { DATABASE_URL: database_url, REDIS_URL: redis_url, ENCRYPTION_KEY: encryption_key } = world.config
  await writeFile(join(folder.path, 'dev.json'), JSON.stringify({ database_url, redis_url }))
  await writeFile(join(folder.path, 'secrets.json'), JSON.stringify({ encryption_key }))
  const started = await runHere(recoverCommand, ['status'], { DATA_DIR: folder.path })
  expect(started.stdout).toMatch(/^recorded {4}all accepted requests since 20/m)
  expect(started.stdout).not.toContain('without REDIS_URL')

  // A copy is not another request.
  await write(copied)
  await untilCompared(world, await recordSwitch(world))
  expect(await lostOf(shop)).toHaveLength(8)
  const { problems } = await auditEverything(world.sql)
  expect(
    problems.filter(({ tenant_id, check }) => tenant_id === shop.tenant_id && check === 'tenants'),
  ).toEqual([])
})

test('an email whose request a switch has lost waits for the comparison, and is not sent again', async ({
  world,
}) => {
  const shop = await world.clientOf()
  const emailTo = (name: string, more: object = {}) => ({
    idempotency_key: freshKey(),
    to: [`${name}-${shop.tenant_id}@example.com`],
    subject: 'Hello',
    text: 'Hello',
    ...more,
  })
  type Email = ReturnType<typeof emailTo>
  const send = async (email: Email) =>
    (await shop.post('/v1/messages/email', email, { prefer: 'wait=0' })).body
  const statusOf = async (id: string) => (await shop.get(`/v1/messages/${id}`)).body.status
  const sent = async ({ to }: Email) =>
    await world.provider('smtp').control('GET', `/messages?to=${encodeURIComponent(to[0]!)}`)
  const send_at = new Date(Date.now() + 3_600_000).toISOString()
  const [reported, early, fresh] = [emailTo('reported'), emailTo('early'), emailTo('fresh')]
  const later = emailTo('later', { send_at })
  const ids = [(await send(reported)).id, (await send(early)).id, (await send(later)).id]
  await eventually(async () => {
    expect([await statusOf(ids[0]), await statusOf(ids[1])]).toEqual(['sent', 'sent'])
    expect(await recordedOf(world, shop)).toHaveLength(3)
  })
  for (const id of ids) await lose(world, shop, id)
  const number = await recordSwitch(world, { lists_read: false })
  expect([(await send(early)).id, (await send(later)).id]).toEqual([ids[1], ids[2]])
  // A caller repeats a lost request at least a second after it was accepted.
  await world.sql`
    update messages set created_at = created_at + interval '2 seconds' where id in (${ids[1]}, ${ids[2]})`
  const { id: fresh_id } = await send(fresh)
  await eventually(async () => {
    const waiting = await world.sql`
      select from jobs where resource_id = any(${[ids[1], fresh_id]}::uuid[]) and state = 'ready'
        and outcome is null and attempt > 0 and failures = 0`
    expect(waiting).toHaveLength(2)
  })
  expect(await sent(fresh)).toEqual([])

  await world.sql`update database_switches set lists_read_at = now() where number = ${number}`
  await untilCompared(world, number)
  await world.sql`
    update jobs set run_at = now(), wakeup_sent_at = null
    where resource_id = any(${[ids[1], ids[2], fresh_id]}::uuid[]) and state = 'ready'`
  expect((await send(reported)).id).toBe(ids[0])
  await eventually(async () => {
    expect(await Promise.all([...ids, fresh_id].map(statusOf))).toEqual([
      'unknown',
      'unknown',
      'sent',
      'sent',
    ])
  })
  expect(
    await Promise.all([reported, early, later, fresh].map(async (email) => (await sent(email)).length)),
  ).toEqual([1, 1, 1, 1])
  const [job] = await world.sql`select state, last_error from jobs where resource_id = ${ids[0]}`
  expect(job).toMatchObject({ state: 'unknown', last_error: { message: expect.stringContaining('switch') } })
  // By the clock of the previous server, the email was due before the switch.
  const message = { tenant_id: shop.tenant_id, message_id: ids[2] }
  expect(await findEmailLoss(world.sql, message)).toBeNull()
  await world.sql`update database_switches set witnessed_at = ${send_at} where number = ${number}`
  expect(await findEmailLoss(world.sql, message)).toBe('lost')
})

test('a repetition of an action without a key is not recorded and not lost', async ({ world }) => {
  const shop = await world.clientOf()
  const { id } = await authorizedPayment(shop)
  const job = { tenant_id: shop.tenant_id, queue: 'payments' } as const
  await pauseJobs(world.sql, job)
  for (let times = 0; times < 3; times++)
    expect((await shop.post(`/v1/payments/${id}/cancel`, {}, ASYNC)).status).toBe(202)
  // Its cancellation waits for the job of the payment, and has no job of its own.
  const pending = (await createPayment(shop, {}, ASYNC)).body
  expect((await shop.post(`/v1/payments/${pending.id}/cancel`, {}, ASYNC)).status).toBe(202)
  const customer = (await shop.post('/v1/customers', { ...CUSTOMER, idempotency_key: freshKey() })).body
  await eventually(async () => {
    const recorded = await recordedOf(world, shop)
    expect(recorded.map(({ resource_id }) => resource_id)).toContain(customer.id)
    expect(recorded.filter(({ route }) => route.includes(`/cancel ${id}`))).toHaveLength(1)
  })
  // The switch has lost nothing, and the cancellation is still in progress.
  await untilCompared(world, await recordSwitch(world))
  expect(await lostOf(shop)).toEqual([])
  await resumeJobs(world.sql, job)
})

describe('the stream', () => {
  const request = (nth: number) => ({
    tenant_id: newId(),
    route: 'POST /v1/customers',
    key: `key-${nth}`,
    resource_id: newId(),
    is_created: true,
    job_id: null,
  })

  test('has at most as many requests as configured', async ({ world }) => {
    const redis = await createRedis()
    onTestFinished(() => redis.kill())
    const { database_url } = queueConfig(world.config)
    const { queue, stream } = openStream({ redis_url: redis.url, database_url }, { accepted_max: 5 })
    const keysNow = async () => (await stream.read(0, 100)).requests.map(({ key }) => key)
    for (let nth = 1; nth <= 12; nth++) {
      queue.record(request(nth))
      await eventually(async () => expect((await keysNow()).at(-1)).toBe(`key-${nth}`))
    }
    expect(await keysNow()).toEqual([8, 9, 10, 11, 12].map((nth) => `key-${nth}`))
    // The bytes are bounded too: a long request takes the place of several.
    queue.record({ ...request(13), route: `POST /v1/${'x'.repeat(800)}` })
    await eventually(async () => expect(await keysNow()).toEqual(['key-12', 'key-13']))
    // Requests that do not fit in one entry are recorded in several. No such key is accepted, so they are malformed.
    const long = openStream({ redis_url: redis.url, database_url }, { accepted_max: 10_000 })
    for (const nth of [14, 15, 16, 17]) long.queue.record({ ...request(nth), key: `${nth}`.repeat(50_000) })
    await eventually(async () => expect((await stream.read(0, 100)).malformed).toBe(4))
    long.queue.record({ ...request(18), key: '18'.repeat(200_000) })
    await eventually(async () => expect(long.unrecorded()).toBe(1))
  })

  test('shows since when it is complete: requests are counted that Redis refuses or does not receive', async ({
    world,
  }) => {
    const redis = await createRedis()
    onTestFinished(() => redis.kill())
    const { database_url } = queueConfig(world.config)
    const { queue, stream, unrecorded } = openStream({ redis_url: redis.url, database_url })
    const completeSince = async () => (await stream.completeness()).since
    expect(await completeSince()).toBeNull()
    queue.record(request(1))
    await eventually(async () => expect(await completeSince()).not.toBeNull())
    const since = await completeSince()
    await redis.kill()
    await eventually(async () => expect(queue.isDown()).toBe(true))
    queue.record(request(2))
    await eventually(async () => expect(unrecorded()).toBe(1))
    await redis.start()
    await eventually(async () => {
      queue.record(request(3))
      expect((await stream.read(0, 100)).requests.map(({ key }) => key)).toContain('key-3')
    })
    expect(Date.parse((await completeSince())!)).toBeGreaterThan(Date.parse(since!))
    // The key that has signed the entries is removed: none of them can be read.
    const { queue: rotated, stream: unreadable } = openStream(
      { redis_url: redis.url, database_url },
      { findAcceptedKeys: async () => [Buffer.alloc(32, 1)] },
    )
    const { since: readable_since, unverified } = await unreadable.completeness()
    expect(readable_since).toBeNull()
    expect(unverified).toBeGreaterThan(0)
    rotated.record(request(4))
    await eventually(async () => {
      const { since: since_rotation } = await unreadable.completeness()
      expect(Date.parse(since_rotation!)).toBeGreaterThan(Date.parse(since!))
    })
  })

  test('stays bounded and usable, whatever somebody else writes to its keys', async () => {
    const redis = await createRedis()
    const client = new Redis(redis.url)
    onTestFinished(async () => {
      client.disconnect()
      await redis.kill()
    })
    const most = 500
    const warnings: string[] = []
    const stream = createAcceptedStream(client, Promise.resolve(), {
      most,
      findKeys: async () => [Buffer.alloc(32)],
      warn: (problem) => warnings.push(problem),
    })
    const [STREAM, LENGTH] = ['{sluice}:accepted', '{sluice}:accepted:length']
    const append = (requests: number, key = 'k') =>
      stream.append(
        Array.from({ length: requests }, () => ({ ...request(1), key })),
        false,
      )
    const length = async () => Number(await client.get(LENGTH))
    await Promise.all(Array.from({ length: most }, () => append(1)))
    // A batch of long keys takes the place of many requests at once.
    await append(100, '"'.repeat(255))
    expect(await length()).toBeLessThanOrEqual(most)
    for (const count of ['1.5', 'nan', '1e30', '-1000000000000000', '1000000']) {
      await client.del(STREAM, LENGTH)
      await client.xadd(STREAM, '*', 'requests', 'x', 'count', count)
      await Promise.all(Array.from({ length: 6 }, () => append(100)))
      expect([count, await client.xlen(STREAM)]).toEqual([count, 5])
    }
    expect(warnings).toEqual([])
    const tomorrow = Date.now() + 86_400_000
    const damages = [
      ...['x', '-1000000000000000', '9223372036854775807'].map((text) => () => client.set(LENGTH, text)),
      () => client.lpush(LENGTH, 'x'),
      () => client.set(STREAM, 'x'),
      () => client.xadd(STREAM, `${tomorrow}-0`, 'requests', 'x', 'count', '1'),
      () => client.xadd(STREAM, '18446744073709551615-18446744073709551615', 'requests', 'x', 'count', '1'),
    ]
    for (const [nth, damage] of damages.entries()) {
      await client.del(STREAM, LENGTH)
      await damage()
      for (const _ of [1, 2, 3]) await append(1)
      expect([await client.xlen(STREAM), await length(), warnings.length]).toEqual([3, 3, nth + 1])
      expect(Date.parse((await stream.completeness()).since!)).toBeLessThan(tomorrow - 3_600_000)
      expect((await stream.read(Date.now() - 60_000, 10)).requests).toHaveLength(3)
    }
  })

  test('has what was accepted while Redis was down for a moment', async () => {
    const appended: [string | null, boolean][] = []
    const accepted = {
      async append(requests: AcceptedRequest[], is_incomplete: boolean) {
        for (const { key } of requests) appended.push([key, is_incomplete])
      },
    }
    let missed = 0
    const producer = createProducer(
      { accepted, limit_ms: 100 } as unknown as Backend,
      { isDown: () => true, markUsed: () => {}, probeNow: () => {} } as BackendWatch,
      { drop: () => {}, miss: (requests) => (missed += requests) },
    )
    producer.record(request(1))
    producer.discard()
    producer.record(request(2))
    await producer.close()
    producer.disconnected()
    producer.record(request(3))
    await producer.close()
    expect([appended, missed]).toEqual([
      [
        ['key-1', false],
        ['key-2', false],
        ['key-3', true],
      ],
      0,
    ])
  })

  test('costs an accepted request nothing if Redis refuses to record it', async () => {
    const redis = await createRedis()
    onTestFinished(() => redis.kill())
    const own_world = await createWorld({ parts: ['api'], env: { REDIS_URL: redis.url } })
    onTestFinished(() => own_world.close())
    const operator = new Redis(redis.url)
    await operator.config('SET', 'maxmemory', '1')
    operator.disconnect()
    const unrecorded = async () => (await metrics.requestsUnrecorded.get()).values[0]!.value
    const before = await unrecorded()
    const { client } = own_world
    const { status } = await client.post('/v1/customers', { ...CUSTOMER, idempotency_key: freshKey() })
    expect(status).toBe(201)
    await eventually(async () => expect(await unrecorded()).toBe(before + 1))
  })
})

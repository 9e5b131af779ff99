// The test clock: a tenant in test mode moves its time forward, and everything that is due by then runs, in its order.
import { expect, onTestFinished } from 'vitest'
import { createLog } from '#core/log.ts'
import { startStripeEmulator } from '#emulators/stripe/main.ts'
import { deadlineRulesOf } from '#domain/test-clocks/deadlines.ts'
import { moveTestClock } from '#domain/test-clocks/move.ts'
import { advanceTestClock, type TestClock } from '#domain/test-clocks/test-clock.ts'
import { freshKey } from '#test/client.ts'
import {
  createEvent,
  deliveriesOf,
  LOOPBACK,
  openHook,
  registerEndpoint,
  untilArrived,
} from '#test/deliveries.ts'
import { startInThisProcess } from '#test/parts.ts'
import { authorizedPayment, createPayment, eventually, paymentIn } from '#test/payments.ts'
import { clockOf, DAY_MS, eventTypes, inDays, passDays, testTenant, untilReady } from '#test/test-clocks.ts'
import { verificationIn, verificationOf } from '#test/verifications.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

const [TEST_KEY, TEST_SECRET] = ['sk_test_of_the_clocks', 'whsec_of_the_clocks']

/** `restartWorker` stops the worker, runs `meanwhile`, and starts another worker. */
type ClockWorld = World & { restartWorker(meanwhile: () => Promise<void>): Promise<void> }

async function createClockWorld(): Promise<ClockWorld> {
  await using cleanup = new AsyncDisposableStack()
  const world = await createWorld({
    parts: ['api', 'webhooks'],
    env: { STRIPE_TEST_SECRET_KEY: TEST_KEY, STRIPE_TEST_WEBHOOK_SECRET: TEST_SECRET, ...LOOPBACK },
  })
  cleanup.defer(() => world.close())
  const account = await startStripeEmulator({
    port: 0,
    api_key: TEST_KEY,
    webhook_url: `${world.env['WEBHOOKS_URL']}/stripe`,
    webhook_secret: TEST_SECRET,
  })
  cleanup.defer(() => account.close())
  const start = () =>
    startInThisProcess(
      'worker',
      { ...world.env, STRIPE_TEST_API_BASE: account.url },
      createLog('silent', 'test'),
    )
  let worker = await start()
  cleanup.defer(() => worker.close())
  const disposables = cleanup.move()
  return {
    ...world,
    async restartWorker(meanwhile) {
      await worker.close()
      await meanwhile()
      worker = await start()
    },
    close: () => disposables.disposeAsync(),
  }
}

const test = testIn(createClockWorld)

/** An open receiver that holds requests until the end of the test, or until they are released. */
async function openHookIn(...[reply]: Parameters<typeof openHook>) {
  const hook = await openHook(reply)
  onTestFinished(async () => {
    hook.release(204)
    await hook.close()
  })
  return hook
}

test('a live key reads and moves no clock', async ({ client }) => {
  const body = { advance_to: '2100-01-01T00:00:00Z' }
  for (const answer of [await client.get('/v1/test_clock'), await client.post('/v1/test_clock', body)])
    expect([answer.status, answer.body.error.code]).toEqual([403, 'test_mode_only'])
})

test('no process can give a live tenant a clock', async ({ world }) => {
  const { sql } = world
  const shop = await testTenant(world)
  const insert = sql`insert into test_clocks (tenant_id, clock_offset) values (${world.tenant_id}, '1 day')`
  await expect(insert).rejects.toThrow('is no tenant in test mode')
  await sql`insert into test_clocks (tenant_id) values (${shop.tenant_id})`
  const move = sql`update test_clocks set tenant_id = ${world.tenant_id} where tenant_id = ${shop.tenant_id}`
  await expect(move).rejects.toThrow('is no tenant in test mode')
})

test('a clock that fails keeps no other from moving', async ({ world }) => {
  const { sql } = world
  const [broken, other] = [await testTenant(world), await testTenant(world)]
  // The table refuses an offset of more than a year, which the API refuses before.
  await sql`insert into test_clocks (tenant_id, advance_to) values (${broken.tenant_id}, now() + interval '10 years')`
  onTestFinished(async () => void (await sql`delete from test_clocks where tenant_id = ${broken.tenant_id}`))
  await passDays(other, 2)
  const [clock] = await sql`select clock_offset::text from test_clocks where tenant_id = ${broken.tenant_id}`
  expect(clock).toEqual({ clock_offset: '00:00:00' })
})

test('a clock shows the real time until it is moved, and then goes on from there', async ({ world }) => {
  const shop = await testTenant(world)
  const first = await clockOf(shop)
  expect(first).toEqual({
    now: expect.any(String),
    advance_to: null,
    status: 'ready',
    remaining: 0,
    livemode: false,
  })
  const drift_ms = (clock: TestClock) => Date.parse(clock.now) - Date.now()
  expect(Math.abs(drift_ms(first))).toBeLessThan(60_000)
  const moved = await passDays(shop, 10)
  expect(Math.abs(drift_ms(moved) - 10 * DAY_MS)).toBeLessThan(120_000)
  const customer = await shop.post('/v1/customers', { idempotency_key: freshKey() })
  expect(Date.parse(customer.body.created_at)).toBeLessThan(Date.parse(first.now) + DAY_MS)
  const other = await testTenant(world)
  expect(Math.abs(drift_ms(await clockOf(other)))).toBeLessThan(60_000)
})

test('a clock never goes back, and is at most a year ahead of the real time', async ({ world }) => {
  const shop = await testTenant(world)
  const advance = (advance_to: string) => shop.post('/v1/test_clock', { advance_to })
  const past = await advance('2026-01-01T00:00:00Z')
  expect([past.status, past.body.error]).toMatchObject([
    409,
    { code: 'test_clock_ahead', context: { now: expect.any(String), advance_to: null } },
  ])
  await passDays(shop, 1)
  const real_now = await advance(new Date().toISOString())
  expect([real_now.status, real_now.body.error.code]).toEqual([409, 'test_clock_ahead'])
  // A day of the year has passed on the clock.
  const far = await advance(await inDays(shop, 365))
  expect([far.status, far.body.error]).toMatchObject([400, { code: 'invalid_request', param: 'advance_to' }])
  for (const body of [{}, { advance_to: null }, { advance_to: 'tomorrow' }, { advance_to: 17 }])
    expect((await shop.post('/v1/test_clock', body)).status).toBe(400)
  expect((await passDays(shop, 363)).status).toBe('ready')
})

test('a clock that moves accepts the same time again and a later one, and waits for work in progress', async ({
  world,
}) => {
  const shop = await testTenant(world)
  const hook = await openHookIn(() => 'hold')
  await registerEndpoint(shop, { url: hook.url })
  await createEvent(shop)
  // The event of the endpoint, and that of the customer.
  await untilArrived(hook, 2)
  const [two, three, four] = [await inDays(shop, 2), await inDays(shop, 3), await inDays(shop, 4)]
  const advance = (advance_to: string) => shop.post('/v1/test_clock', { advance_to })
  expect((await advance(three)).status).toBe(202)
  expect((await advance(three)).body).toMatchObject({ status: 'advancing' })
  const earlier = await advance(two)
  expect([earlier.status, earlier.body.error.code]).toEqual([409, 'test_clock_ahead'])
  expect((await advance(four)).status).toBe(202)
  expect(Date.parse((await clockOf(shop)).now)).toBeLessThan(Date.parse(two))
  hook.release(204)
  const { now } = await untilReady(shop)
  expect(Date.parse(now)).toBeGreaterThanOrEqual(Date.parse(four))
})

test('all retries of a delivery come due in one move, and the deliveries show times of the clock', async ({
  world,
}) => {
  const shop = await testTenant(world)
  const hook = await openHookIn(() => 500)
  const endpoint = await registerEndpoint(shop, { url: hook.url, types: ['customer.created'] })
  await createEvent(shop)
  await createEvent(shop)
  await untilArrived(hook, 2)
  await passDays(shop, 5)
  const exhausted = await deliveriesOf(shop, endpoint.id)
  expect(exhausted).toMatchObject([
    { status: 'exhausted', attempts: 10, next_attempt_at: null },
    { status: 'exhausted', attempts: 10, next_attempt_at: null },
  ])
  // Signatures have the real time.
  const signed = hook.arrived.map(({ headers }) => Number(headers['webhook-timestamp']) * 1000)
  expect(Math.max(...signed)).toBeLessThan(Date.now() + DAY_MS)
  await createEvent(shop)
  const { now } = await clockOf(shop)
  const retried = await eventually(async () => {
    const delivery = (await deliveriesOf(shop, endpoint.id)).at(-1)
    expect(delivery).toMatchObject({ status: 'pending', attempts: 2 })
    return delivery
  })
  // The second retry follows after five minutes, with a deviation of a fifth.
  const delay_ms = Date.parse(retried.next_attempt_at) - Date.parse(now)
  expect(delay_ms).toBeGreaterThan(200_000)
  expect(delay_ms).toBeLessThan(DAY_MS / 2)
})

test('holds, buyers and persons expire in the order of their deadlines, with their events', async ({
  world,
}) => {
  const shop = await testTenant(world)
  const held = await authorizedPayment(shop)
  const { id: abandoned } = (await createPayment(shop, { payment_method: 'pm_card_threeDSecure2Required' }))
    .body
  const verification = await verificationOf(shop)
  await passDays(shop, 31)
  expect(await paymentIn(shop, held.id, 'canceled')).toMatchObject({ cancellation_reason: 'expired' })
  expect(await paymentIn(shop, abandoned, 'canceled')).toMatchObject({ cancellation_reason: 'abandoned' })
  expect(await verificationIn(shop, verification.id, 'rejected')).toMatchObject({
    failure: { code: 'abandoned' },
  })
  // The buyer has a day; a hold lasts for a week, and its event comes a day before the end; a person has 30 days.
  await eventually(async () =>
    expect((await eventTypes(shop, [held.id, abandoned, verification.id])).slice(-4)).toEqual([
      ['payment.canceled', 1],
      ['payment.capture_expiring', 0],
      ['payment.canceled', 0],
      ['kyc.rejected', 2],
    ]),
  )
})

test('a deadline that is made after the clock was moved is counted from there', async ({ world }) => {
  const shop = await testTenant(world)
  await passDays(shop, 60)
  const held = await authorizedPayment(shop)
  const { id: waiting } = (await createPayment(shop, { payment_method: 'pm_card_threeDSecure2Required' }))
    .body
  const verification = await verificationOf(shop)
  await passDays(shop, 0.5)
  const expectStatuses = (statuses: string[]) =>
    eventually(async () =>
      expect([
        (await shop.get(`/v1/payments/${held.id}`)).body.status,
        (await shop.get(`/v1/payments/${waiting}`)).body.status,
        (await shop.get(`/v1/compliance/kyc/${verification.id}`)).body.status,
      ]).toEqual(statuses),
    )
  await expectStatuses(['authorized', 'requires_action', 'requires_input'])
  await passDays(shop, 1)
  await expectStatuses(['authorized', 'canceled', 'requires_input'])
  await passDays(shop, 6)
  await expectStatuses(['canceled', 'canceled', 'requires_input'])
  await passDays(shop, 24)
  await expectStatuses(['canceled', 'canceled', 'rejected'])
})

test('a scheduled message is sent when the clock has come to its time', async ({ world }) => {
  const shop = await testTenant(world)
  const at = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString()
  const schedule = (send_at: string) =>
    shop.post('/v1/messages/email', {
      idempotency_key: freshKey(),
      to: ['ada@example.com'],
      subject: 'Shipped',
      text: 'It is on its way.',
      send_at,
    })
  const [second, first] = [(await schedule(at(5))).body.id, (await schedule(at(4))).body.id]
  const later = (await schedule(at(20))).body.id
  await advanceTestClock(world.sql, shop.tenant_id, at(6))
  const status = async (id: string) => (await shop.get(`/v1/messages/${id}`)).body.status
  await eventually(async () => expect(await status(second)).toMatch(/^(?:sent|delivered)$/))
  expect(await status(later)).toBe('scheduled')
  const sent = (await eventTypes(shop, [first, second])).filter(([type]) => type === 'message.sent')
  expect(sent).toEqual([
    ['message.sent', 0],
    ['message.sent', 1],
  ])
  await eventually(async () => {
    const [clock] = await world.sql`select advance_to from test_clocks where tenant_id = ${shop.tenant_id}`
    expect(clock).toEqual({ advance_to: null })
  })
  expect([(await schedule(at(5.5))).status, (await schedule(at(35))).status]).toEqual([400, 201])
})

test('a clock is moved by one worker at a time, and another worker continues where it stopped', async ({
  world,
}) => {
  const shop = await testTenant(world)
  const held = await authorizedPayment(shop)
  await world.drain()
  const rules = deadlineRulesOf(world.config, { processor_follows: false })
  const position = { tenant_id: shop.tenant_id, clock_offset: '00:00:00' }
  const pass = () => moveTestClock(world.sql, position, rules, { limit: 500, sandbox_due_at: null })
  await world.restartWorker(async () => {
    const advance_to = await inDays(shop, 8)
    expect((await shop.post('/v1/test_clock', { advance_to })).status).toBe(202)
    // Whatever the stopped worker has left, such as a notification, is not waited for any more.
    await world.sql`
      update test_clocks set moved_at = now() - interval '1 hour' where tenant_id = ${shop.tenant_id}`
    await world.sql.begin(async (tx) => {
      await tx`select from test_clocks where tenant_id = ${shop.tenant_id} for update`
      expect(await pass()).toBe(false)
    })
    expect(await pass()).toBe(true)
    // The warning a day before the end of the hold is the first deadline, and its end the second.
    const { now, status, remaining } = await clockOf(shop)
    expect([status, remaining]).toEqual(['advancing', 1])
    expect(Date.parse(now)).toBeLessThan(Date.parse(held.capture_before))
    expect(Date.parse(now)).toBeGreaterThan(Date.parse(held.capture_before) - 1.1 * DAY_MS)
    // A worker that prepared its pass before does not move the clock past what has become due meanwhile.
    expect(await pass()).toBe(true)
    expect(await clockOf(shop)).toMatchObject({ status: 'advancing', remaining: 1 })
    // A request that is repeated does not begin the count of steps again.
    expect((await shop.post('/v1/test_clock', { advance_to })).status).toBe(202)
    const [clock] = await world.sql`select steps from test_clocks where tenant_id = ${shop.tenant_id}`
    expect(clock).toEqual({ steps: 1 })
  })
  await untilReady(shop)
  expect(await paymentIn(shop, held.id, 'canceled')).toMatchObject({ cancellation_reason: 'expired' })
})

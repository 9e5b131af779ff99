// Test mode: a tenant and its twin reach nothing of each other, in the API, at the processor, and by notifications.
import { describe, expect, onTestFinished, test as anyTest } from 'vitest'
import { ConfigError, loadConfig } from '#core/config.ts'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { signStripe, startStripeEmulator } from '#emulators/stripe/main.ts'
import { freshKey, type Client } from '#test/client.ts'
import { LOOPBACK, openHook, registerEndpoint, untilArrived } from '#test/deliveries.ts'
import { readDocument, routesOf, schemaOf } from '#test/documentation.ts'
import { createEveryResource } from '#test/every-resource.ts'
import { startInThisProcess } from '#test/parts.ts'
import { authorizedPayment, capturedPayment, eventually } from '#test/payments.ts'
import { handleOf, type Provider } from '#test/providers.ts'
import { fabricatedEvent, listEvents, postWebhook, type StripeEvent } from '#test/stripe-events.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

const [TEST_KEY, TEST_SECRET, LIVE_SECRET] = [
  'sk_test_of_the_twins',
  'whsec_of_the_twins',
  'whsec_test_current',
]
const UNKNOWN_ID = '0198f6f0-1234-7000-8000-123456789abc'

/** `twin`: a client of the twin of the world's first tenant. `test_account`: the processor of test mode. */
type ModesWorld = World & { twin: Client & { tenant_id: string }; test_account: Provider }

async function createModesWorld(): Promise<ModesWorld> {
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
  const worker = await startInThisProcess(
    'worker',
    { ...world.env, STRIPE_TEST_API_BASE: account.url },
    createLog('silent', 'test'),
  )
  cleanup.defer(() => worker.close())
  const twin = await world.clientOf({ tenant: 'acme', mode: 'test' })
  const disposables = cleanup.move()
  return {
    ...world,
    twin,
    test_account: handleOf('stripe', { url: account.url }),
    close: () => disposables.disposeAsync(),
  }
}

const test = testIn(createModesWorld)

/** Posts an event, signed with this secret. */
async function post(world: World, event: StripeEvent & { livemode: boolean }, secret: string) {
  const body = JSON.stringify(event)
  return await postWebhook(world, body, { 'stripe-signature': signStripe(body, secret) })
}

/** Posts a form to the API of the account of test mode, as Stripe's SDK does. */
async function requestOfTestAccount(
  { test_account }: ModesWorld,
  path: string,
  params: Record<string, string>,
) {
  const response = await fetch(`${test_account.url}${path}`, {
    method: 'POST',
    body: new URLSearchParams(params),
    headers: { authorization: `Bearer ${TEST_KEY}`, 'idempotency-key': freshKey() },
  })
  expect(response.status).toBe(200)
  return (await response.json()) as { id: string; status: string }
}

/** The state of the notification of an event once its job has decided. */
async function decidedState({ sql }: World, event_id: string) {
  return await eventually(async () => {
    const [row] = await sql<{ state: string; livemode: boolean; tenant_id: string | null }[]>`
      select state, livemode, tenant_id from notifications where event_id = ${event_id}`
    expect(row?.state).toMatch(/^(?:applied|parked|ignored)$/)
    return { ...row! }
  })
}

/** What a notification could change of a payment. */
async function payment({ sql }: World, id: string) {
  const [row] = await sql`
    select p.status, p.processor_reference, p.updated_at, p.amount_captured_minor,
      (select count(*)::integer from drifts d where d.tenant_id = p.tenant_id and d.subject_id = p.id) as drifts
    from payments p where p.id = ${id}`
  return { ...row }
}

describe('the API', () => {
  test('shows a key no record of the other mode, by id or in a list', async ({ world }) => {
    const { client, twin } = world
    const live = {
      client,
      tenant_id: world.tenant_id,
      owned: await createEveryResource(world),
      livemode: true,
    }
    const of_twin = { ...world, client: twin, tenant_id: twin.tenant_id }
    const owned = await createEveryResource(of_twin)
    const test_mode = { client: twin, tenant_id: twin.tenant_id, owned, livemode: false }
    const routes = routesOf(await readDocument(client)).filter(
      // The clock of a tenant is no list, and a live tenant has none.
      ({ method, path }) => method === 'GET' && path !== '/v1/test_clock',
    )
    const [with_id, lists] = [true, false].map((has_id) =>
      routes.filter(({ path }) => path.includes('{') === has_id),
    )
    expect([with_id!.length, lists!.length].every((count) => count >= 10)).toBe(true)
    for (const { path } of with_id!) {
      const [resource] = path.split('/{')[0]!.split('/').slice(-1) as [string]
      for (const [reader, owner] of [
        [live, test_mode],
        [test_mode, live],
      ] as const) {
        const id = owner.owned[resource]
        if (id === undefined)
          throw new Error(`There is no row of ${resource}: create one in createEveryResource.`)
        const path_of_id = path.replace(/\{\w+\}/, id)
        const statuses = [
          (await owner.client.get(path_of_id)).status,
          (await reader.client.get(path_of_id)).status,
        ]
        expect([path, owner.livemode, ...statuses]).toEqual([path, owner.livemode, 200, 404])
      }
    }
    for (const { path } of lists!) {
      const [ours, theirs] = [(await client.get(path)).body as any[], (await twin.get(path)).body as any[]]
      for (const [items, { tenant_id, livemode }] of [
        [ours, live],
        [theirs, test_mode],
      ] as const)
        for (const item of items)
          expect([path, item]).toEqual([
            path,
            { ...item, livemode, ...('tenant_id' in item && { tenant_id }) },
          ])
      const ids = new Set(ours.map(({ id }) => id))
      ids.delete(undefined)
      expect([path, theirs.filter(({ id }) => ids.has(id))]).toEqual([path, []])
    }
  })

  test('says the mode of each record, also of those in a batch, and not that of an error', async ({
    world,
  }) => {
    const { client, twin } = world
    for (const [caller, livemode] of [
      [client, true],
      [twin, false],
    ] as const) {
      const created = await caller.post('/v1/customers', { idempotency_key: freshKey() })
      expect(created.body).toMatchObject({
        tenant_id: caller === twin ? twin.tenant_id : world.tenant_id,
        livemode,
      })
      const preview = { name: 'x', channel: 'sms', body: 'Hello', idempotency_key: freshKey() }
      const { id } = (await caller.post('/v1/messages/templates', { ...preview, name: freshKey() })).body
      const rendered = await caller.post(`/v1/messages/templates/${id}/preview`, {})
      expect([rendered.status, rendered.body]).toMatchObject([200, { body: 'Hello', livemode }])
      const unknown = await caller.get(`/v1/customers/${UNKNOWN_ID}`)
      expect([unknown.status, Object.keys(unknown.body)]).toEqual([404, ['error']])
    }
    const messages = [{ to: '+15005550001', body: 'Hi', idempotency_key: freshKey() }, { to: 17 }]
    const { body } = await client.post('/v1/messages/sms/batch', { messages })
    expect(body).toMatchObject([
      { status: 202, livemode: true, message: { livemode: true, tenant_id: world.tenant_id } },
      { status: 400, livemode: true, error: { code: 'invalid_request' } },
    ])
    expect(body[1].error).not.toHaveProperty('livemode')
  })

  test('answers a replay of test mode byte for byte as the first request', async ({ world }) => {
    const body = { idempotency_key: freshKey(), name: 'Ada', metadata: { livemode: true } }
    const [first, replay] = [
      await world.twin.post('/v1/customers', body),
      await world.twin.post('/v1/customers', body),
    ]
    expect(replay.headers.get('idempotent-replayed')).toBe('true')
    expect(replay.text).toBe(first.text)
    expect(first.body).toMatchObject({ livemode: false, metadata: { livemode: true } })
    const live = await world.client.post('/v1/customers', body)
    expect([live.headers.get('idempotent-replayed'), live.body.livemode]).toEqual([null, true])
    expect(live.body.id).not.toBe(first.body.id)
  })

  test('documents the mode in every answer that is a record or a list of records, and in every webhook', async ({
    world,
  }) => {
    const document = await readDocument(world.client)
    for (const route of routesOf(document))
      for (const status of [200, 201, 202].filter((each) => route.operation.responses[each] !== undefined)) {
        const { example } = route.operation.responses[status].content['application/json']
        const schema = schemaOf(document, route, status)
        expect([route.path, schema.safeParse(example).success]).toEqual([route.path, true])
        const { livemode: _livemode, ...without } = [example].flat()[0]
        const incomplete = Array.isArray(example) ? [without] : without
        expect([route.path, schema.safeParse(incomplete).success]).toEqual([route.path, false])
      }
    for (const { post: operation } of Object.values<any>(document.webhooks)) {
      const { schema, example } = operation.requestBody.content['application/json']
      expect(document.components.schemas[schema.$ref.split('/').at(-1)].required).toContain('livemode')
      expect(example).toMatchObject({ livemode: true, data: { livemode: true } })
    }
  })

  test('says the mode of events and of their data, in the feed and in deliveries', async ({ world }) => {
    const { twin } = world
    await using hook = await openHookOf()
    const endpoint = await registerEndpoint(twin, { url: hook.url, types: ['customer.created'] })
    const created = await twin.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada' })
    await untilArrived(hook, 1)
    const [delivered] = hook.arrived
    expect(delivered!.body).toMatchObject({
      type: 'customer.created',
      tenant_id: twin.tenant_id,
      livemode: false,
      data: { id: created.body.id, livemode: false },
    })
    const event = await twin.get(`/v1/events/${delivered!.body.id}`)
    expect(event.body).toMatchObject({ livemode: false, data: { id: created.body.id, livemode: false } })
    const feed = await twin.get('/v1/events?type=customer.created&limit=100')
    expect(feed.body.find(({ id }: { id: string }) => id === event.body.id)).toEqual(event.body)
    const [listed] = (await twin.get(`/v1/webhook_endpoints/${endpoint.id}/deliveries`)).body
    const detail = await twin.get(`/v1/webhook_deliveries/${listed.id}`)
    expect(JSON.stringify(detail.body.payload)).toBe(delivered!.text)
    const [stored] = await world.sql`select data from events where id = ${event.body.id}`
    expect(stored!['data']).not.toHaveProperty('livemode')
    const sample = await twin.post(`/v1/webhook_endpoints/${endpoint.id}/test`, {})
    expect(sample.status).toBe(202)
    await untilArrived(hook, 2)
    expect(hook.arrived[1]!.body).toMatchObject({ livemode: false, data: { livemode: false } })
  })
})

async function openHookOf() {
  const hook = await openHook()
  return Object.assign(hook, { [Symbol.asyncDispose]: () => hook.close() })
}

describe('the processor', () => {
  test('of a twin is the test account, and that of its tenant is the live one', async ({ world }) => {
    const live = await capturedPayment(world.client)
    const of_twin = await capturedPayment(world.twin)
    const effects = async (account: Provider) =>
      (await account.effects({ effect: 'capture' })).map(({ payment_intent }) => payment_intent as string)
    const [at_live, at_test] = [await effects(world.provider('stripe')), await effects(world.test_account)]
    expect(at_live).toContain(live.processor_reference)
    expect(at_live).not.toContain(of_twin.processor_reference)
    expect(at_test).toContain(of_twin.processor_reference)
    expect(at_test).not.toContain(live.processor_reference)
  })

  test('has an account of its own for each mode, and each call is recorded with the credentials of its mode', async ({
    world,
  }) => {
    const used = async (client: Client) => {
      const { id } = await capturedPayment(client)
      const rows = await world.sql<{ sent_with: string }[]>`
        select sent_with from jobs where resource_id = ${id} and sent_with is not null
        union select sent_with from job_history where resource_id = ${id} and sent_with is not null`
      return rows.map(({ sent_with }) => sent_with)
    }
    const [live, test_mode] = [await used(world.client), await used(world.twin)]
    const accounts = await eventually(async () => {
      const rows = await world.sql<{ provider: string; credentials: string }[]>`
        select provider, credentials from provider_accounts order by provider`
      expect(rows.map(({ provider }) => provider)).toEqual(['stripe', 'stripe test'])
      return rows.map(({ credentials }) => credentials)
    })
    expect([live, test_mode]).toEqual([[accounts[0]], [accounts[1]]])
  })

  test('of a twin is its sandbox if the worker has no key of a test account, and never the live one', async () => {
    const world = await createWorld()
    onTestFinished(() => world.close())
    const twin = await world.clientOf({ tenant: 'acme', mode: 'test' })
    expect(await capturedPayment(twin)).toMatchObject({ livemode: false })
    const live = await authorizedPayment(world.client)
    const made = (await world.provider('stripe').effects()).map(({ payment_intent }) => payment_intent)
    expect(new Set(made)).toEqual(new Set([live.processor_reference]))
  })
})

/** How often each of these was measured in this process, which runs all parts but the accounts. */
async function measuredCounts(): Promise<Record<string, number>> {
  const counted = [
    ['requests', metrics.request, { route: '/v1/payments', method: 'POST' }],
    ['calls', metrics.providerCall, { operation: 'authorize' }],
    ['waits', metrics.jobWait, { job: 'payment.authorize' }],
    ['attempts', metrics.jobRun, { job: 'payment.authorize' }],
    ['jobs', metrics.jobTotal, { job: 'payment.authorize' }],
  ] as const
  const counts = counted.map(async ([name, metric, wanted]) => {
    const { values } = await metric.get()
    const counts = values.filter(
      ({ metricName, labels }) =>
        metricName?.endsWith('_count') === true &&
        Object.entries(wanted).every(([label, value]) => labels[label as never] === value),
    )
    return [name, counts.reduce((sum, { value }) => sum + value, 0)] as const
  })
  return Object.fromEntries(await Promise.all(counts))
}

test('metrics measure nothing of test mode', async ({ world }) => {
  await world.drain()
  const before = await measuredCounts()
  await authorizedPayment(world.twin)
  await world.drain()
  // Whatever the twin's job left to measure has been measured before the end of a later one.
  await authorizedPayment(world.client)
  await eventually(async () => {
    const after = await measuredCounts()
    const added = Object.entries(after).map(([name, count]) => [name, count - before[name]!])
    expect(Object.fromEntries(added)).toEqual({ requests: 1, calls: 1, waits: 1, attempts: 1, jobs: 1 })
  })
})

describe('a notification', () => {
  test('with the secret of test mode reaches no live payment', async ({ world }) => {
    const live = await authorizedPayment(world.client)
    await world.drain()
    const before = await payment(world, live.id)
    const intent = { id: live.processor_reference, object: 'payment_intent', status: 'canceled' }
    const event = { ...fabricatedEvent('payment_intent.canceled', intent), livemode: false }
    expect((await post(world, event, TEST_SECRET)).status).toBe(200)
    expect(await decidedState(world, event.id)).toEqual({ state: 'parked', livemode: false, tenant_id: null })
    expect(await payment(world, live.id)).toEqual(before)
  })

  test('about an object of the test account with the marks of a live payment does not reach it', async ({
    world,
  }) => {
    const live = await authorizedPayment(world.client)
    await world.drain()
    const before = await payment(world, live.id)
    const [installation] = await world.sql`select id from installation`
    const { id } = await requestOfTestAccount(world, '/v1/payment_intents', {
      amount: '1000',
      currency: 'usd',
      confirm: 'true',
      payment_method: 'pm_card_visa',
      'automatic_payment_methods[enabled]': 'true',
      'automatic_payment_methods[allow_redirects]': 'never',
      'metadata[sluice_installation]': installation!['id'],
      'metadata[sluice_tenant_id]': world.tenant_id,
      'metadata[sluice_payment_id]': live.id,
    })
    const { id: event_id } = await eventually(async () => {
      const [row] = await world.sql`
        select event_id as id from notifications where object_id = ${id} and kind = 'payment_intent.succeeded'`
      expect(row).toBeDefined()
      return row as unknown as { id: string }
    })
    expect(await decidedState(world, event_id)).toMatchObject({ livemode: false, tenant_id: null })
    expect(await payment(world, live.id)).toEqual(before)
    const orphans = await world.sql`select from drifts where state = 'orphan'`
    expect(orphans).toHaveLength(0)
  })

  test('with the live secret reaches no payment of a twin', async ({ world }) => {
    const of_twin = await authorizedPayment(world.twin)
    await world.drain()
    const before = await payment(world, of_twin.id)
    const intent = { id: of_twin.processor_reference, object: 'payment_intent', status: 'requires_action' }
    const event = { ...fabricatedEvent('payment_intent.payment_failed', intent), livemode: false }
    expect((await post(world, event, LIVE_SECRET)).status).toBe(200)
    expect(await decidedState(world, event.id)).toEqual({ state: 'parked', livemode: true, tenant_id: null })
    expect(await payment(world, of_twin.id)).toEqual(before)
  })

  test('is refused if its mode is not that of its secret', async ({ world }) => {
    const eventOf = (livemode: boolean) => ({
      ...fabricatedEvent('payment_intent.succeeded', { id: 'pi_x' }),
      livemode,
    })
    const answer = await post(world, eventOf(true), TEST_SECRET)
    expect([answer.status, answer.body.error]).toMatchObject([
      400,
      {
        code: 'invalid_request',
        message: 'The event is of the other mode than the secret with which it is signed.',
      },
    ])
    // The live account of this installation is a test account of the processor. A worker has to find that first.
    await eventually(async () => expect((await post(world, eventOf(true), LIVE_SECRET)).status).toBe(400))
    for (const secret of [LIVE_SECRET, TEST_SECRET])
      expect((await post(world, eventOf(false), secret)).status).toBe(200)
  })

  test('of one event is stored once for each mode', async ({ world }) => {
    const event = {
      ...fabricatedEvent('customer.created', { id: 'cus_x', object: 'customer' }),
      livemode: false,
    }
    for (const secret of [LIVE_SECRET, TEST_SECRET, TEST_SECRET])
      expect((await post(world, event, secret)).status).toBe(200)
    const rows =
      await world.sql`select livemode from notifications where event_id = ${event.id} order by livemode`
    expect(rows.map(({ livemode }) => livemode)).toEqual([false, true])
  })

  test('requested by a settlement queries the account of its tenant', async ({ world }) => {
    const of_twin = await capturedPayment(world.twin)
    const reference = of_twin.processor_reference
    await world.sql`
      insert into notifications (id, provider, event_id, kind, object_id, payload, state, reported, due_at)
      values (gen_random_uuid(), 'stripe', ${`lookup:${reference}:test`}, 'reconciliation.lookup', ${reference},
        ${world.sql.json({ resource: 'payment', reference, tenant_id: world.twin.tenant_id })}, 'waiting', '{}', now())`
    expect(await decidedState(world, `lookup:${reference}:test`)).toEqual({
      state: 'applied',
      livemode: false,
      tenant_id: world.twin.tenant_id,
    })
    expect(await payment(world, of_twin.id)).toMatchObject({ status: 'captured', drifts: 0 })
  })
})

anyTest('one key or one signing secret for both modes is refused at the start', () => {
  const problemOf = (env: Record<string, string>) => {
    try {
      loadConfig(env, () => {})
      return ''
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigError)
      return (error as ConfigError).message
    }
  }
  expect(problemOf({ STRIPE_TEST_SECRET_KEY: 'sk_live_51AbCdEf' })).toContain('must be a key of test mode')
  const key = 'sk_test_51AbCdEf'
  expect(problemOf({ STRIPE_SECRET_KEY: key, STRIPE_TEST_SECRET_KEY: key })).toContain(
    'STRIPE_TEST_SECRET_KEY: must be another key than STRIPE_SECRET_KEY',
  )
  const secrets = {
    STRIPE_WEBHOOK_SECRET: 'whsec_of_live,whsec_of_both',
    STRIPE_TEST_WEBHOOK_SECRET: 'whsec_of_both',
  }
  expect(problemOf(secrets)).toContain(
    'STRIPE_TEST_WEBHOOK_SECRET: must share no secret with STRIPE_WEBHOOK_SECRET',
  )
  expect(problemOf({ STRIPE_SECRET_KEY: key, STRIPE_TEST_SECRET_KEY: `${key}X` })).toBe('')
})

anyTest('the emulator of the processor plays a live account if its key is live', async () => {
  const livemodeOf = async (api_key: string) => {
    const emulator = await startStripeEmulator({ port: 0, api_key })
    try {
      const world = { provider: () => ({ url: emulator.url, api_key }) } as unknown as World
      const answer = await fetch(`${emulator.url}/v1/payment_intents`, {
        method: 'POST',
        body: new URLSearchParams({ amount: '1000', currency: 'usd' }),
        headers: { authorization: `Bearer ${api_key}` },
      })
      expect(answer.status).toBe(200)
      const [event] = await listEvents(world, undefined, { all_kinds: true })
      return (event as StripeEvent & { livemode: boolean }).livemode
    } finally {
      await emulator.close()
    }
  }
  expect([await livemodeOf('sk_live_emulator'), await livemodeOf('sk_test_emulator')]).toEqual([true, false])
})

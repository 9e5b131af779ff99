// Operators see an outage of any kind, of any provider, within a minute.
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import pino from 'pino'
import { expect, test, vi, type TestContext } from 'vitest'
import { jobsCommand } from '#commands/jobs.ts'
import { queuesCommand } from '#commands/queues.ts'
import { PROVIDER_FACTS } from '#core/config/providers.ts'
import { VARIABLE_NAMES } from '#core/config/variables.ts'
import { metrics } from '#core/metrics.ts'
import { findOutages, writeOutages } from '#domain/operations/provider-outages.ts'
import type { AiCall } from '#providers/ai.ts'
import { openAi } from '#providers/ai/client.ts'
import type { FinishedCall } from '#providers/http.ts'
import { freePort } from '#start/ports.ts'
import { freshKey, type Answer } from '#test/client.ts'
import { runHere } from '#test/commands.ts'
import { CURRENT_DATABASE } from '#test/databases.ts'
import { startInThisProcess } from '#test/parts.ts'
import { ASYNC, createPayment, eventually } from '#test/payments.ts'
import { signedInAs } from '#test/people.ts'
import { createWorld, type World } from '#test/world.ts'
import { loadConfig } from '#core/config.ts'
import { watchProviders } from '#workers/provider-watch.ts'

const A_MINUTE_MS = 60_000
const HOST = '127.0.0.1'
const HTML = '<html><body>Back soon</body></html>'
const RESPONSE = `HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: ${HTML.length}\r\n\r\n${HTML}`

/** Starts a server with this connection handler, until the test ends. Returns its address. */
async function startServer(
  { onTestFinished }: TestContext,
  handle: (socket: Socket) => void,
): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    handle(socket)
  })
  server.listen(0, HOST)
  await once(server, 'listening')
  onTestFinished(() => {
    sockets.forEach((socket) => socket.destroy())
    server.close()
  })
  return `${HOST}:${(server.address() as AddressInfo).port}`
}

const providersAt = (http: string, smtp = http) => ({
  STRIPE_API_BASE: `http://${http}`,
  TWILIO_API_BASE: `http://${http}`,
  AI_BASE_URL: `http://${http}/v1`,
  SMTP_URL: `smtp://${smtp}`,
})

/** The variables of a worker, for each kind of outage. */
const OUTAGES = {
  down: async (_context: TestContext) => providersAt(`${HOST}:${await freePort(HOST)}`),
  slow: async (context: TestContext) => providersAt(await startServer(context, () => {})),
  'answering nonsense': async (context: TestContext) =>
    providersAt(
      await startServer(context, (socket) => socket.on('data', () => socket.write(RESPONSE))),
      await startServer(context, (socket) => socket.end(RESPONSE)),
    ),
  'refusing credentials': async (_context: TestContext, { provider }: World) => ({
    STRIPE_SECRET_KEY: 'sk_test_of_another',
    TWILIO_AUTH_TOKEN: 'of-another',
    AI_API_KEY: 'of-another',
    SMTP_URL: provider('smtp').addresses['smtp_url']!.replace(/:[^:@]+@/, ':of-another@'),
  }),
}

/** For each provider, a request that uses the provider, and the resource and queue of the request. */
const REQUESTS: Record<string, { resource: string; queue: string; send: (world: World) => Promise<Answer> }> =
  {
    stripe: {
      resource: 'payment',
      queue: 'payments',
      send: async ({ client }) => await createPayment(client, {}, ASYNC),
    },
    twilio: {
      resource: 'message',
      queue: 'messages',
      send: async ({ client }) =>
        await client.post(
          '/v1/messages/sms',
          { idempotency_key: freshKey(), to: '+15005550009', body: 'Hello' },
          ASYNC,
        ),
    },
    smtp: {
      resource: 'message',
      queue: 'messages',
      send: async ({ client }) =>
        await client.post(
          '/v1/messages/email',
          { idempotency_key: freshKey(), to: ['ada@people.example'], subject: 'Hello', text: 'Hello' },
          ASYNC,
        ),
    },
    ai: {
      resource: 'ai_task',
      queue: 'ai',
      send: async ({ client }) =>
        await client.post(
          '/v1/ai/tasks',
          { idempotency_key: freshKey(), kind: 'generate', input: { prompt: 'Hello' } },
          ASYNC,
        ),
    },
  }

// The tests run concurrently, because they mostly wait until an outage is old enough to be shown. Workers in one
// process share its metrics: provider-outages-partial.test.ts reads those of outages from processes of their own.
test.concurrent.for(Object.keys(OUTAGES) as (keyof typeof OUTAGES)[])(
  'within a minute, overview, providers, queues, commands and log show which providers are %s',
  async (outage_kind, context) => {
    const { onTestFinished } = context
    const world = await createWorld({ parts: ['api', 'dashboard'] })
    onTestFinished(() => world.close())
    const lines: Record<string, unknown>[] = []
    const log = pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line)) })
    const variables = await OUTAGES[outage_kind](context, world)
    const worker = await startInThisProcess('worker', { ...world.env, ...variables }, log)
    onTestFinished(() => worker.close())
    const operator = await signedInAs(world, { role: 'owner', is_operator: true })
    const problem = outage_kind === 'refusing credentials' ? 'credentials' : 'no_answer'
    const check_kind = problem === 'credentials' ? 'credentials' : 'address'
    const requests = Object.entries(REQUESTS)
    const names = requests.map(([provider]) => provider)
    for (const [provider, { send }] of requests) {
      const { status } = await send(world)
      expect([provider, status]).toEqual([provider, expect.toBeOneOf([201, 202])])
    }

    // An AI task with refused credentials fails without a retry. A slow AI task is not late: it may take two minutes.
    const retries = (provider: string) =>
      provider !== 'ai' || (outage_kind !== 'refusing credentials' && outage_kind !== 'slow')
    await eventually(async () => {
      const { attention, retrying } = (await operator.get('/api/overview')).body
      const outages = attention.filter((each: { kind: string }) => each.kind === 'provider_outage')
      expect(outages).toHaveLength(requests.length)
      for (const [provider, { resource }] of requests)
        expect(outages).toContainEqual(
          expect.objectContaining({
            oldest_at: expect.any(String),
            outage: {
              provider,
              title: PROVIDER_FACTS[provider]!.title,
              problem,
              text: expect.stringMatching(
                problem === 'credentials' ? /our credentials$/ : /does not answer$/,
              ),
              operations: [],
              waiting: retries(provider) ? [{ resource, count: 1 }] : [],
            },
          }),
        )
      expect(retrying).toBe(names.filter(retries).length)

      const { providers } = (await operator.get('/api/ops/providers')).body
      for (const provider of names) {
        const check = PROVIDER_FACTS[provider]!.check[check_kind]
        const row = providers.find((each: { provider: string }) => each.provider === provider)
        expect(row).toMatchObject({ outage: { problem, check }, retrying: retries(provider) ? 1 : 0 })
        expect([provider, row.failed > 0]).toEqual([provider, true])
        const refused = row.failures.some(({ outcome }: { outcome: string }) => outcome === 'misconfigured')
        expect([provider, refused]).toEqual([provider, problem === 'credentials'])
      }

      const { queues } = (await operator.get('/api/ops/queues')).body
      for (const name of new Set(requests.map(([, { queue }]) => queue))) {
        const count = requests.filter(([each, { queue }]) => queue === name && retries(each)).length
        const {
          queue,
          retrying: of_queue,
          outages: of_outages,
        } = queues.find((each: { queue: string }) => each.queue === name)
        expect([queue, of_queue]).toEqual([name, count])
        const texts = new Set(
          requests.filter(([, each]) => each.queue === name).map(([provider]) => provider),
        )
        expect([name, of_outages.length]).toEqual([name, texts.size])
      }

      const network =
        check_kind === 'address' ? ', and the network, name servers and firewall of the workers' : ''
      for (const { title, check } of names.map((name) => PROVIDER_FACTS[name]!))
        expect(lines.map(({ msg }) => msg)).toContainEqual(
          expect.stringMatching(
            new RegExp(`^${title} .*: check ${check[check_kind].join(' and ')}${network}$`),
          ),
        )
    }, A_MINUTE_MS)

    // The log has at most one line for each change of the outage, not one line for each call.
    for (const provider of names)
      expect(lines.filter((line) => line['provider'] === provider).length).toBeLessThanOrEqual(2)
    expect(lines.filter(({ msg }) => String(msg).includes('waits for the configuration'))).toEqual([])
    const { stdout } = await runHere(queuesCommand, ['list', '--json'], world.env)
    const payments = JSON.parse(stdout).queues.find((each: { queue: string }) => each.queue === 'payments')
    expect(payments).toMatchObject({ retrying: 1, oldest_retrying_s: expect.any(Number) })
    const listed = await runHere(jobsCommand, ['list', '--state', 'retrying'], world.env)
    expect(listed.stdout).toMatch(/payment\.authorize .*retrying since /)
    expect((await operator.get('/api/ops/jobs?state=retrying&queue=payments')).body.items).toMatchObject([
      { name: 'payment.authorize', failing_since: expect.any(String) },
    ])
  },
)

const LONG_LIST = `{"data":"${'x'.repeat(2 * 1024 * 1024)}"}`
const LISTS = [
  ['any response', RESPONSE],
  ['a list that is too long', `HTTP/1.1 200 OK\r\ncontent-length: ${LONG_LIST.length}\r\n\r\n${LONG_LIST}`],
] as const

test.concurrent.for(LISTS)(
  'a slow AI provider is checked with a list request, and %s proves that the provider is reachable',
  async ([, list], context) => {
    const [listed, finished] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const server = await startServer(context, (socket) =>
      socket.on('data', (chunk) => {
        if (String(chunk).startsWith('GET /v1/models ')) socket.write(list, () => listed.resolve())
        else void finished.promise.then(() => socket.destroy())
      }),
    )
    const calls: FinishedCall[] = []
    const ai = openAi({
      base_url: `http://${server}/v1`,
      api_key: 'sk-test',
      model: 'any',
      max_tokens_field: 'max_tokens',
      server_check_delay_ms: 1,
      onCall: (call) => void calls.push(call),
    })
    const call: AiCall = {
      tenant_id: 'any',
      input: { kind: 'generate', prompt: 'Hello', system: null },
      model: null,
      max_output_tokens: null,
    }
    const completion = ai.complete(call, freshKey(), new AbortController().signal)
    await listed.promise
    finished.resolve()
    expect((await completion).outcome.kind).toBe('ambiguous')
    await ai.close()
    expect(calls).toMatchObject([{ operation: 'complete' }])
  },
)

test.concurrent('a call is late only after its own deadline, so a slow AI provider has no outage', async ({
  onTestFinished,
}) => {
  const world = await createWorld({ parts: ['api'] })
  onTestFinished(() => world.close())
  const createWatch = () => {
    const lines: string[] = []
    const watch = watchProviders({
      log: pino({ level: 'warn' }, { write: (line) => void lines.push(line) }),
      config: world.config,
    })
    return { lines, watch }
  }
  const runInPast = (seconds: number, work: () => void) => {
    const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() - seconds * 1000)
    work()
    clock.mockRestore()
  }
  const [slow, overdue] = [createWatch(), createWatch()]
  runInPast(41, () => {
    for (const [provider, deadline_ms] of [
      ['ai', 120_000],
      ['smtp', 60_000],
    ] as const)
      slow.watch.sent(provider, deadline_ms)
  })
  runInPast(121, () => overdue.watch.sent('ai', 120_000))
  for (const { watch } of [overdue, slow]) {
    const loop = watch.report({ sql: world.sql, database: CURRENT_DATABASE }, `worker ${freshKey()}`)
    onTestFinished(() => loop.close())
  }
  await eventually(async () =>
    expect(await findOutages(world.sql)).toMatchObject([{ provider: 'ai' }, { provider: 'smtp' }]),
  )
  expect(slow.lines.map((line) => JSON.parse(line).provider)).toEqual(['smtp'])
  expect(overdue.lines.map((line) => JSON.parse(line).provider)).toEqual(['ai'])

  // A single late call among successful calls is no outage.
  const late_call = {
    operation: 'complete',
    outcome: 'ambiguous',
    duration_ms: 120_000,
    health: 'late',
  } as const
  const [with_success, without_success] = [createWatch(), createWatch()]
  with_success.watch.ended('ai', { operation: 'complete', outcome: 'done', duration_ms: 10 })
  for (const { watch } of [with_success, without_success]) watch.ended('ai', late_call)
  expect([with_success.lines.length, without_success.lines.length]).toEqual([0, 1])
})

test.concurrent.for([
  ['stripe', {}, ': check the network, name servers and firewall of the workers'],
  ['twilio', {}, ': check the network, name servers and firewall of the workers'],
  [
    'stripe',
    { STRIPE_API_BASE: 'http://127.0.0.1:1' },
    ': check STRIPE_API_BASE, and the network, name servers and firewall of the workers',
  ],
  [
    'smtp',
    { SMTP_URL: 'smtp://127.0.0.1:1' },
    ': check SMTP_URL, and the network, name servers and firewall of the workers',
  ],
] as const)(
  'an outage of %s with the variables %o is logged with what to check',
  ([provider, env, advice]) => {
    const lines: string[] = []
    const log = pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line).msg) })
    const watch = watchProviders({ log, config: loadConfig(env) })
    const late = { operation: 'list', outcome: 'ambiguous', duration_ms: 120_000, health: 'late' } as const
    watch.ended(provider, late)
    expect(lines[0]).toContain(advice)
  },
)

test.concurrent('an outage ends if no job waits for its provider, and is logged only while calls fail', async ({
  onTestFinished,
}) => {
  const world = await createWorld({ parts: ['api'] })
  onTestFinished(() => world.close())
  const lines: { failed: number }[] = []
  const watch = watchProviders({
    log: pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line)) }),
    config: world.config,
  })
  const failInPast = (
    provider: 'smtp' | 'twilio',
    outcome: 'ambiguous' | 'misconfigured',
    seconds: number,
  ) => {
    const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() - seconds * 1000)
    const operation = provider === 'smtp' ? 'send_email' : 'send_sms'
    watch.ended(provider, { operation, outcome, duration_ms: 10 })
    clock.mockRestore()
  }
  failInPast('smtp', 'ambiguous', 120)
  failInPast('twilio', 'misconfigured', 61)
  const loop = watch.report({ sql: world.sql, database: CURRENT_DATABASE }, `worker ${freshKey()}`)
  onTestFinished(() => loop.close())
  const durations = async () => {
    const rows = await world.sql<{ provider: string; seconds: number }[]>`
      select provider, extract(epoch from seen_at - since)::float8 as seconds from provider_outages order by provider`
    return Object.fromEntries(rows.map(({ provider, seconds }) => [provider, seconds]))
  }
  await eventually(async () => expect(await durations()).toEqual({ twilio: expect.any(Number) }), 20_000)
  expect(lines).toMatchObject([
    { provider: 'twilio', failed: 1 },
    { provider: 'smtp', failed: 1 },
  ])
  // The next failed call begins another outage.
  failInPast('smtp', 'ambiguous', 0)
  await eventually(async () => expect((await durations())['smtp']).toBeLessThan(60), 20_000)
})

test.concurrent('a recovered provider has no outage, and its jobs are no longer retried', async ({
  onTestFinished,
}) => {
  const world = await createWorld({ parts: ['api', 'worker', 'dashboard'] })
  onTestFinished(() => world.close())
  const operator = await signedInAs(world, { role: 'owner', is_operator: true })
  const fault = await world.provider('stripe').fault({ fault: 'refuse_401', times: 1000 })
  await createPayment(world.client, {}, ASYNC)
  const kinds = async () =>
    (await operator.get('/api/overview')).body.attention.map(({ kind }: { kind: string }) => kind)
  // The list may also contain recurring work that the provider refused in the meantime.
  await eventually(async () => expect(await kinds()).toContain('provider_outage'), A_MINUTE_MS)
  await fault.remove()
  await world.sql`update jobs set run_at = now() where finished_at is null`
  await eventually(async () => {
    expect(await kinds()).not.toContain('provider_outage')
    expect((await operator.get('/api/overview')).body).toMatchObject({ retrying: 0, oldest_retrying_s: 0 })
    // The figures still count the failures of the last hour.
    const { providers } = (await operator.get('/api/ops/providers')).body
    expect(providers[0]).toMatchObject({
      outage: null,
      retrying: 0,
      failures: [{ outcome: 'misconfigured' }],
    })
  }, A_MINUTE_MS)
  const [row] = await world.sql`select count(*) from jobs where failing_since is not null`
  expect(row).toEqual({ count: 0 })
})

test.concurrent('a message whose outcome becomes unknown during an outage shows the outage, and an earlier message does not', async ({
  onTestFinished,
}) => {
  const world = await createWorld()
  onTestFinished(() => world.close())
  const { body } = await eventually(async () => {
    const answer = await REQUESTS['twilio']!.send(world)
    expect(answer.status).toBeOneOf([201, 202])
    return answer
  })
  await world.drain()
  const of_provider = { operation: null, failed_ms: 0, is_partial: false }
  await writeOutages(world.sql, 'a worker', {
    failed: [],
    outages: [{ ...of_provider, provider: 'twilio', outcome: 'ambiguous', lasts_ms: A_MINUTE_MS }],
  })
  const unknownSince = async (interval: string) => {
    await world.sql`
      update jobs set state = 'unknown', outcome = null, finished_at = null, run_at = now() + interval '1 hour',
        unknown_since = now() - ${interval}::interval
      where resource_id = ${body.id}`
    return (await findOutages(world.sql)).map(({ provider }) => provider)
  }
  expect(await unknownSince('1 hour')).toEqual([])
  expect(await unknownSince('30 seconds')).toEqual(['twilio'])
})

test.concurrent('an operation that has not failed since others were answered has no outage of its own', async ({
  onTestFinished,
}) => {
  const world = await createWorld({ parts: [] })
  onTestFinished(() => world.close())
  const { sql, tenant_id } = world
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at, failing_since)
    values (gen_random_uuid(), ${tenant_id}, 'payouts', 'payout.create', '{}', 25, now() + interval '1 hour', now())`
  await sql`
    insert into job_rollups (resolution, at, queue, name, succeeded)
    values (60, date_trunc('minute', now()) - interval '3 minutes', 'payments', 'payment.capture', 1)`
  const lastFailed = async (minutes: number) => {
    const failing = { outcome: 'retry', lasts_ms: 9 * A_MINUTE_MS, failed_ms: minutes * A_MINUTE_MS } as const
    await writeOutages(sql, 'a worker', {
      failed: [],
      outages: [null, 'payout'].map((operation) => ({
        ...failing,
        provider: 'stripe',
        operation,
        is_partial: false,
      })),
    })
    return (await findOutages(sql)).map(({ operations }) => operations)
  }
  expect(await lastFailed(4)).toEqual([])
  expect(await lastFailed(1)).toEqual([['payout']])
})

test.concurrent('a job that succeeds at once is not recorded as retried, and the variables that an outage names exist', async ({
  onTestFinished,
}) => {
  const world = await createWorld()
  onTestFinished(() => world.close())
  await createPayment(world.client)
  await world.drain()
  const [row] = await world.sql`
    select (select count(*) from provider_failures) as failures, (select count(*) from provider_outages) as outages,
      (select count(*) from jobs where failing_since is not null) as failing`
  expect(row).toEqual({ failures: 0, outages: 0, failing: 0 })
  for (const { check } of Object.values(PROVIDER_FACTS))
    for (const name of [...check.credentials, ...check.address]) expect(VARIABLE_NAMES).toContain(name)
})

// This test runs alone, because it reads a metric that all workers of the process share.
test('events that cannot be read cause one warning a minute, with the provider and the variable to check', async (context) => {
  const { onTestFinished } = context
  const world = await createWorld({ parts: ['api'] })
  onTestFinished(() => world.close())
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line)) })
  const failures = async () =>
    (await metrics.recurringFailures.get()).values.find(({ labels }) => labels['work'] === 'events of stripe')
      ?.value ?? 0
  const before = await failures()
  const env = { ...world.env, ...(await OUTAGES.down(context)), RECONCILE_EVERY_S: '1' }
  const worker = await startInThisProcess('worker', env, log)
  onTestFinished(() => worker.close())
  await vi.waitFor(async () => expect(await failures()).toBeGreaterThan(before + 2), 30_000)
  expect(lines.filter(({ msg }) => String(msg).includes('could not be read'))).toMatchObject([
    {
      provider: 'stripe',
      msg: expect.stringMatching(
        /^the (?:events|lists) of Stripe could not be read: check STRIPE_API_BASE, and the network, name servers and firewall of the workers$/,
      ),
    },
  ])
})

// A provider that fails some operations and answers others has an outage that names these operations, everywhere.
import { describe, expect, test, type TestContext } from 'vitest'
import { queuesCommand } from '#commands/queues.ts'
import { freshKey, type Answer } from '#test/client.ts'
import { runHere } from '#test/commands.ts'
import { startMeasuredPart, type Measured } from '#test/metrics.ts'
import { ASYNC, capturedPayment, createPayment, eventually } from '#test/payments.ts'
import { payOut, recipient } from '#test/payouts.ts'
import { signedInAs } from '#test/people.ts'
import { createWorld, type World } from '#test/world.ts'

const A_MINUTE_MS = 60_000
const OUTAGE = 'sluice_provider_outage_seconds'
const RETRYING = 'sluice_jobs_retrying'

type Operator = Awaited<ReturnType<typeof signedInAs>>

async function startWorld({ onTestFinished }: TestContext): Promise<{ world: World; operator: Operator }> {
  const world = await createWorld({ parts: ['api', 'dashboard'] })
  onTestFinished(() => world.close())
  return { world, operator: await signedInAs(world, { role: 'owner', is_operator: true }) }
}

async function startWorker({ onTestFinished }: TestContext, world: World, queues = ''): Promise<Measured> {
  const worker = await startMeasuredPart('worker', { ...world.env, QUEUES: queues })
  onTestFinished(() => worker.stop())
  return worker
}

/** Repeats a request every half second until the test ends. */
function repeatRequest({ onTestFinished }: TestContext, send: () => Promise<Answer>): void {
  let sent = Promise.resolve<unknown>(undefined)
  const timer = setInterval(() => {
    sent = send().catch(() => {})
  }, 500)
  onTestFinished(async () => {
    clearInterval(timer)
    await sent
  })
}

const outagesOf = async (operator: Operator) =>
  (await operator.get('/api/overview')).body.attention.flatMap(
    ({ outage }: { outage: unknown }) => outage ?? [],
  )

// The tests run concurrently, because they mostly wait until an outage is old enough to be shown.
describe.concurrent('Stripe fails payouts and answers payments: the outage names payouts on every page, in the metric and in the log', () => {
  test.concurrent.for([
    ['down', 'html_503', 'no_answer', 'Stripe does not answer payouts', 'STRIPE_API_BASE'],
    [
      'refusing credentials',
      'refuse_401',
      'credentials',
      'Stripe refuses our credentials for payouts',
      'STRIPE_SECRET_KEY',
    ],
  ] as const)('%s', { timeout: 240_000 }, async ([, name, problem, text, variable], context) => {
    const { world, operator } = await startWorld(context)
    const { client } = world
    const worker = await startWorker(context, world)
    const check =
      problem === 'no_answer'
        ? `${variable}, and the network, name servers and firewall of the workers`
        : variable
    await capturedPayment(client, { amount_minor: 10_000 })
    const to = await recipient(client)
    const fault = await world
      .provider('stripe')
      .fault({ match: { method: 'POST', path: '/payouts$' }, fault: name, times: 100_000 })
    repeatRequest(context, () => createPayment(client, {}, ASYNC))
    const began_at = performance.now()
    for (let nth = 0; nth < 2; nth++) await payOut(client, to, {}, ASYNC)

    await eventually(async () => {
      const expected = { text, problem, operations: ['payout'] }
      expect(await outagesOf(operator)).toMatchObject([
        { provider: 'stripe', ...expected, waiting: [{ resource: 'payout', count: 2 }] },
      ])
      const { providers } = (await operator.get('/api/ops/providers')).body
      expect(providers.find((each: { provider: string }) => each.provider === 'stripe')).toMatchObject({
        outage: { ...expected, check: [variable] },
        retrying: 2,
      })
      const { queues } = (await operator.get('/api/ops/queues')).body
      const outages = Object.fromEntries(
        queues.map((each: { queue: string; outages: string[] }) => [each.queue, each.outages]),
      )
      expect(outages).toMatchObject({ payouts: [text], payments: [], messages: [] })
      expect(await worker.read(OUTAGE, { provider: 'stripe', operation: 'payout' })).toBeGreaterThan(0)
      expect(await worker.read(OUTAGE, { operation: '' })).toBeUndefined()
      expect(worker.warnings()).toContain(`${text}: check ${check}`)
    }, A_MINUTE_MS)
    expect(performance.now() - began_at).toBeLessThan(A_MINUTE_MS)
    const { stdout } = await runHere(queuesCommand, ['list'], world.env)
    expect(stdout).toMatch(new RegExp(`^payouts .*, ${text}$`, 'm'))
    expect(worker.warnings().filter((msg) => msg.startsWith('Stripe '))).toEqual([`${text}: check ${check}`])

    await fault.remove()
    await world.provider('stripe').control('POST', '/release')
    await eventually(async () => {
      await world.sql`update jobs set run_at = now() where finished_at is null and state = 'ready'`
      expect(await outagesOf(operator)).toEqual([])
      expect(await worker.read(OUTAGE)).toBeUndefined()
    }, A_MINUTE_MS)
  })
})

test.concurrent('Twilio fails to send SMS and answers lookups: the outage names SMS', async (context) => {
  const { world, operator } = await startWorld(context)
  const worker = await startWorker(context, world)
  await world
    .provider('twilio')
    .fault({ match: { method: 'POST', path: '/Messages\\.json$' }, fault: 'html_503', times: 100_000 })
  const send = () =>
    world.client.post(
      '/v1/messages/sms',
      { idempotency_key: freshKey(), to: '+15005550009', body: 'Hello' },
      ASYNC,
    )
  repeatRequest(context, send)
  await eventually(async () => {
    expect(await outagesOf(operator)).toMatchObject([
      { provider: 'twilio', text: 'Twilio does not answer SMS', operations: ['send_sms'] },
    ])
    expect(await worker.read(OUTAGE, { provider: 'twilio', operation: 'send_sms' })).toBeGreaterThan(0)
    expect(worker.warnings()).toContain(
      'Twilio does not answer SMS: check TWILIO_API_BASE, and the network, name servers and firewall of the workers',
    )
  }, A_MINUTE_MS)
})

test.concurrent('a provider that answers nothing has one outage, which names no operation, and its first answer ends it', async (context) => {
  const { world, operator } = await startWorld(context)
  const worker = await startWorker(context, world)
  await capturedPayment(world.client, { amount_minor: 10_000 })
  const to = await recipient(world.client)
  const fault = await world.provider('stripe').fault({ fault: 'html_503', times: 100_000 })
  await payOut(world.client, to, {}, ASYNC)
  await createPayment(world.client, {}, ASYNC)
  await eventually(async () => {
    expect(await outagesOf(operator)).toMatchObject([
      {
        text: 'Stripe does not answer',
        operations: [],
        waiting: expect.toSatisfy((all) => all.length === 2),
      },
    ])
    expect(await worker.read(OUTAGE, { provider: 'stripe', operation: '' })).toBeGreaterThan(0)
    for (const queue of ['payments', 'payouts']) expect(await worker.read(RETRYING, { queue })).toBe(1)
  }, A_MINUTE_MS)
  // The payout waits for its next attempt, which is no outage: no payout has failed since the provider answers.
  await eventually(async () => {
    const postponed = await world.sql`
        update jobs set run_at = now() + interval '1 hour' where name = 'payout.create' and state = 'ready'`
    expect(postponed.count).toBe(1)
  })
  await fault.remove()
  await world.sql`update jobs set run_at = now() where name = 'payment.authorize'`
  await eventually(async () => {
    expect(await outagesOf(operator)).toEqual([])
    expect(await worker.read(OUTAGE)).toBeUndefined()
    expect((await operator.get('/api/overview')).body).toMatchObject({ retrying: 1 })
    expect(await worker.read(RETRYING, { queue: 'payments' })).toBe(0)
    // The roll-ups count the answered payment after its minute.
  }, 3 * A_MINUTE_MS)
  expect(worker.warnings().filter((msg) => msg.includes('payouts'))).toEqual([])
})

test.concurrent('workers of different queues show together that a provider answers payments and no payouts', async (context) => {
  const { world, operator } = await startWorld(context)
  const [worker] = await Promise.all([
    startWorker(context, world, 'payouts'),
    startWorker(context, world, 'payments'),
  ])
  await capturedPayment(world.client, { amount_minor: 10_000 })
  await world
    .provider('stripe')
    .fault({ match: { method: 'POST', path: '/payouts$' }, fault: 'html_503', times: 100_000 })
  await payOut(world.client, await recipient(world.client), {}, ASYNC)
  const texts = async () => (await outagesOf(operator)).map(({ text }: { text: string }) => text)
  await eventually(async () => expect(await texts()).toEqual(['Stripe does not answer']), A_MINUTE_MS)
  repeatRequest(context, () => createPayment(world.client, {}, ASYNC))
  // The payout must fail after a whole minute with answered payments.
  await eventually(async () => {
    await world.sql`update jobs set run_at = now() where name = 'payout.create' and state = 'ready'`
    expect(await texts()).toEqual(['Stripe does not answer payouts'])
  }, 4 * A_MINUTE_MS)
  await worker.until(OUTAGE, { operation: 'payout' }, (value) => (value ?? 0) > 0)
})

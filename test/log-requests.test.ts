// The log has one line for each request and step; the lines are found by the id of a request, payment, notification or
// message.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { createSampler } from '#core/log.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { signStripe } from '#emulators/stripe/main.ts'
import { freshKey, type Answer } from '#test/client.ts'
import { until } from '#test/process.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'
import { createJobLog } from '#workers/job-log.ts'

const PAYMENT = { amount_minor: 1700, currency: 'USD', method: 'card', payment_method: 'pm_card_visa' }

let deployment: Deployment
beforeAll(async () => {
  deployment = await createDeployment({ queue: 'redis', webhooks: true, env: { LOG_REQUESTS: '1' } })
  await Promise.all([deployment.startApi(), deployment.startWorker()])
})
afterAll(async () => await deployment?.close())

type Event = { id: string; type: string; data: { object: { id: string } } }
type Line = Record<string, unknown> & { msg: string }
function linesWith(text: string): Line[] {
  return deployment
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{') && line.includes(text))
    .map((line) => JSON.parse(line) as Line)
}

/** Sends an event with a valid signature to the webhooks host. */
async function deliver(event: object): Promise<Answer> {
  const signature = signStripe(JSON.stringify(event), deployment.provider('stripe').webhook_secret)
  return await deployment.webhooks.post('/stripe', event, { 'stripe-signature': signature })
}

test('a request causes one log line, and the lines of its job have the same request id', async () => {
  const { client, tenant_id } = deployment
  const created = await client.post(
    '/v1/payments',
    { idempotency_key: freshKey(), ...PAYMENT },
    { 'x-request-id': 'shop-4711' },
  )
  expect([created.status, created.headers.get('x-request-id')]).toEqual([201, 'shop-4711'])
  const payment_id = created.body.id as string
  const lines = await until('all log lines are written', () => {
    const found = linesWith('shop-4711')
    return found.length >= 3 && found
  })
  expect(lines.filter(({ msg }) => msg === 'answered')).toMatchObject([
    {
      request_id: 'shop-4711',
      method: 'POST',
      route: '/v1/payments',
      status: 201,
      ms: expect.any(Number),
      bytes: Buffer.byteLength(created.text),
      tenant_id,
      key_id: expect.any(String),
      resource_id: payment_id,
      payment_id,
    },
  ])
  expect(lines.filter(({ msg }) => msg === 'the provider answered')).toMatchObject([
    {
      request_id: 'shop-4711',
      job: 'payment.authorize',
      payment_id,
      operation: 'authorize',
      outcome: 'done',
    },
  ])
  expect(lines.filter(({ msg }) => msg === 'an attempt ended')).toMatchObject([
    { request_id: 'shop-4711', job: 'payment.authorize', payment_id, state: 'succeeded', tenant_id },
  ])
  expect(lines.map((line) => JSON.stringify(line)).join()).not.toContain('pm_card_visa')
})

test("all steps of a payment, including its notifications, are found by the payment's id", async () => {
  const { client } = deployment
  const { body } = await client.post('/v1/payments', { idempotency_key: freshKey(), ...PAYMENT })
  await client.post(`/v1/payments/${body.id}/capture`)
  await client.post(`/v1/payments/${body.id}/refunds`, { idempotency_key: freshKey(), amount_minor: 300 })
  await client.get(`/v1/payments/${body.id}`)
  const steps = await until('all steps are logged', () => {
    const lines = linesWith(body.id)
    const logged = new Set(
      lines.map(({ job, route, operation }) => [job ?? route, operation].filter(Boolean).join(' ')),
    )
    return (
      [
        '/v1/payments',
        'payment.authorize',
        'payment.authorize authorize',
        '/v1/payments/:id/capture',
        'payment.capture capture',
        '/v1/payments/:id/refunds',
        'refund.create refund',
        '/v1/payments/:id',
        'notification.apply',
      ].every((step) => logged.has(step)) && lines
    )
  })
  // The lines of the notification's job have the id of the notification request.
  const applied = steps.find(({ job }) => job === 'notification.apply')!
  expect(applied).toMatchObject({ request_id: expect.any(String), notification_id: expect.any(String) })
  await until('the notification request is logged', () =>
    linesWith(String(applied['request_id'])).some(({ route }) => route === '/stripe'),
  )
})

test('a notification is found by its request, its event and its payment, even if it waits or is redundant', async () => {
  const { client } = deployment
  const stripe = deployment.provider('stripe')
  const { body } = await client.post('/v1/payments', { idempotency_key: freshKey(), ...PAYMENT })
  // A notification during the capture waits for the capture, and gets a job if the capture takes long.
  const hold = await stripe.fault({
    match: { method: 'POST', path: `/v1/payment_intents/${body.processor_reference}/capture$` },
    fault: { hold: 'after' },
  })
  await client.post(`/v1/payments/${body.id}/capture`, {}, { prefer: 'respond-async' })
  await hold.hit()
  const response = await fetch(`${stripe.url}/v1/events?limit=100`, {
    headers: { authorization: `Bearer ${stripe.api_key}` },
  })
  const { data } = (await response.json()) as { data: Event[] }
  const event = data.find(
    ({ type, data: { object } }) =>
      type === 'payment_intent.succeeded' && object.id === body.processor_reference,
  )!
  const lineOf = (text: string, facts: Line) =>
    until(facts.msg, () =>
      linesWith(text).find((line) => Object.entries(facts).every(([name, value]) => line[name] === value)),
    )
  const of_payment = { payment_id: body.id, tenant_id: deployment.tenant_id }
  const { request_id, notification_id, ...answered } = await lineOf(event.id, { msg: 'answered' })
  expect(answered).toMatchObject({ route: '/stripe', event_id: event.id, state: 'waiting', ...of_payment })
  const waited = await lineOf(String(request_id), { msg: 'a waiting notification was compared' })
  expect(waited).toMatchObject({ notification_id, event_id: event.id, state: 'received', ...of_payment })
  const applied = await lineOf(String(request_id), { msg: 'an attempt ended' })
  expect(applied).toMatchObject({ request_id, notification_id, job: 'notification.apply' })
  await hold.remove()

  const repeated = { ...event, id: `${event.id}_again` }
  await until('the payment is captured', async () => {
    const payment = await client.get(`/v1/payments/${body.id}`)
    return payment.body.status === 'captured'
  })
  for (const [state, more] of [
    ['applied', of_payment],
    ['duplicate', {}],
  ] as const) {
    const delivered = await deliver(repeated)
    expect(await lineOf(delivered.headers.get('x-request-id')!, { msg: 'answered' })).toMatchObject({
      notification_id: expect.any(String),
      event_id: repeated.id,
      state,
      ...more,
    })
  }
})

test('line breaks in a request do not split a log line', async () => {
  const key = freshKey()
  const breaks = '\u2028\u2029\u0085\u009b'
  await deployment.client.get(`/v1/customers/${key}${encodeURIComponent(breaks)}`)
  const [line] = await until('the log line is written', () => {
    const found = linesWith(key)
    return found.length > 0 && found
  })
  expect(line).toMatchObject({ status: 400, resource_id: `${key}${breaks}` })
  expect(deployment.output()).not.toMatch(/[\u0080-\u009f\u2028\u2029]/)
})

test('responses of the webhooks host have a request id', async () => {
  const host = deployment.webhooks
  const refused = await host.post('/stripe', {}, { 'x-request-id': 'from-outside' })
  expect([refused.status, refused.headers.get('x-request-id')]).toEqual([400, 'from-outside'])
  const event = { id: 'evt_1', type: 'charge.updated', data: { object: { id: 'ch_1' } } }
  const response = await deliver(event)
  expect(response.status).toBe(200)
  const id = response.headers.get('x-request-id')!
  expect(id).toMatch(/^[0-9a-f-]{36}$/)
  await until('the log line is written', () =>
    linesWith(id).find(({ route, status }) => route === '/stripe' && status === 200),
  )
  expect((await host.get('/nowhere')).headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
  expect((await host.get('/%zz')).headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
})

test('the sampler selects the same ids each time, and a fixed fraction of them', () => {
  const ids = Array.from({ length: 10_000 }, (_, index) => `request-${index}`)
  const [none, tenth, all] = [0, 0.1, 1].map((part) => ids.filter(createSampler(part)))
  expect([none!.length, all!.length]).toEqual([0, ids.length])
  expect(tenth!.length).toBeGreaterThan(800)
  expect(tenth!.length).toBeLessThan(1200)
  expect(ids.filter(createSampler(0.1))).toEqual(tenth)
  const half = new Set(ids.filter(createSampler(0.5)))
  expect(tenth!.every((id) => half.has(id))).toBe(true)
})

test("the internal text of a provider's response is logged for each job, even outside of the sample", async () => {
  const lines: string[] = []
  const job_log = createJobLog(pino({}, { write: (line: string) => void lines.push(line) }), 0)
  const call = { operation: 'send_email', outcome: 'retry', duration_ms: 1 }
  await job_log.of({ id: 'job-17', payload: {} } as ClaimedJob, async () => {
    job_log.call(call)
    job_log.call({ ...call, reported: '554 mx3: blocked' })
  })
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { msg: 'the provider answered', job_id: 'job-17', reported: '554 mx3: blocked' },
  ])
})

test('an email that is refused by a recipient is found by its id and is not logged as a failed request', async () => {
  const { client } = deployment
  const refused = await client.post(
    '/v1/messages/email',
    { idempotency_key: freshKey(), to: ['nobody@bounce.example'], subject: 'Hello', text: 'Hello' },
    { 'x-request-id': 'shop-4712' },
  )
  expect([refused.status, refused.body.error.code]).toEqual([500, 'email_send_failed'])
  const { message_id } = refused.body.error.context
  const lines = await until('all log lines are written', () => {
    const found = linesWith(message_id)
    return ['answered', 'an attempt ended'].every((each) => found.some(({ msg }) => msg === each)) && found
  })
  expect(lines.map(({ msg }) => msg)).toEqual(
    expect.arrayContaining(['the provider answered', 'an attempt ended', 'answered']),
  )
  expect(linesWith('shop-4712').filter(({ msg }) => msg === 'a request failed')).toEqual([])
})

test('a request that a sealed database refuses is logged with that reason', async () => {
  const { client, sql } = deployment
  const seal = async (seal: string | null) => await sql`update lineage set seal = ${seal}, sealed_at = now()`
  onTestFinished(async () => void (await seal(null)))
  await seal(randomUUID())
  await until('requests are refused', async () => {
    const { status } = await client.post('/v1/payments', { idempotency_key: freshKey(), ...PAYMENT })
    return status === 503
  })
  const [line] = await until('the refusal is logged', () => {
    const found = linesWith('"a request failed"')
    return found.length > 0 && found
  })
  expect(line).toMatchObject({ code: 'database_unavailable', reason: expect.stringContaining('is sealed') })
})

test('a process whose log is not read can end', async () => {
  const program = `
    import { createLog } from ${JSON.stringify(fileURLToPath(new URL('../src/core/log.ts', import.meta.url)))}
    process.stdin.once('data', (lines) => {
      const log = createLog('info', 'late')
      for (let line = 0; line < Number(lines); line++) log.warn('an unread log line'.repeat(50))
      process.exit(3)
    })
    process.stdout.write('ready')`
  const start = async () => {
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program])
    onTestFinished(() => void child.kill('SIGKILL'))
    await once(child.stdout, 'readable')
    return child
  }
  const closed_reader = await start()
  closed_reader.stdout.destroy()
  await once(closed_reader.stdout, 'close')
  closed_reader.stdin.write('1')
  expect(await once(closed_reader, 'exit')).toEqual([3, null])

  // The process has filled the pipe and waits for a reader.
  const stalled_reader = await start()
  stalled_reader.stdin.write('2000')
  const { stdout } = stalled_reader
  await until('the read buffer is full', () => stdout.readableLength >= stdout.readableHighWaterMark)
  stdout.destroy()
  expect(await once(stalled_reader, 'exit')).toEqual([3, null])
})

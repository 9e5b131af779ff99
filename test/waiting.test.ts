// Waiting for a job: what is heard is a hint, the job's row decides; who prefers what; and what a tenant is told of failures.
import { randomUUID } from 'node:crypto'
import { describe, expect } from 'vitest'
import { metrics } from '#core/metrics.ts'
import { queueConfig } from '#core/config.ts'
import { openQueue } from '#queue/queue.ts'
import { freshKey } from '#test/client.ts'
import { ASYNC, createPayment, effectsOf, eventually, fault, heldPayment, paymentIn } from '#test/payments.ts'
import { createWorld, testIn } from '#test/world.ts'

const test = testIn()

/** How many times payments were read for an answer. */
async function looks(): Promise<number> {
  const { values } = await metrics.statement.get()
  const counted = values.filter(
    ({ metricName, labels }) => metricName?.endsWith('_count') && labels['step'] === 'find_payment',
  )
  return counted.reduce((sum, { value }) => sum + value, 0)
}

describe.each(['redis', 'postgres'] as const)('a forged message on %s', (backend) => {
  test('neither ends a wait nor fails a payment, however often it comes', async ({ world }) => {
    const place = backend === 'redis' ? world : await createWorld({ queue: backend })
    const forger = openQueue(queueConfig(place.config), { log: () => {}, process_id: randomUUID() })
    try {
      const { id, processor_reference } = await heldPayment(place.client)
      const match = { path: `${processor_reference}/capture` }
      const held = await fault(place, { match, fault: 'hold' })
      const waiting = place.client.post(`/v1/payments/${id}/capture`, undefined, { prefer: 'wait=30' })
      await held.hit()
      const [job] = await place.sql<{ id: string }[]>`
        select id from jobs where subject_id = ${id} and name = 'payment.capture'`
      const before = await looks()
      const lies = ['failed', 'succeeded', 'discarded'].map((state) => ({ id: job!.id, state }))
      await eventually(async () => {
        forger.publish(Array.from({ length: 300 }, (_, n) => lies[n % lies.length]!))
        expect(await looks()).toBeGreaterThan(before)
      })
      forger.publish(Array.from({ length: 3000 }, () => ({ id: randomUUID(), state: 'failed' })))
      expect((await looks()) - before).toBeLessThan(30)
      await held.remove()
      const { status, body } = await waiting
      expect([status, body.status]).toEqual([200, 'captured'])
    } finally {
      await forger.close()
      if (place !== world) await place.close()
    }
  })
})

test('a payment that two tenants ask for in one batch is answered only to its owner', async ({ world }) => {
  const { id } = await heldPayment(world.client)
  const other = await world.clientOf()
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, n) => (n % 2 === 0 ? world.client : other).get(`/v1/payments/${id}`)),
  )
  expect(answers.map(({ status }) => status)).toEqual(answers.map((_, n) => (n % 2 === 0 ? 200 : 404)))
})

describe('a second cancellation', () => {
  test('joins the one under way, with a key of its own, and waits for the same end', async ({ world }) => {
    const { id, processor_reference } = await heldPayment(world.client)
    const path = `/v1/payments/${id}/cancel`
    const held = await fault(world, { match: { path: `${processor_reference}/cancel` }, fault: 'hold' })
    const first = world.client.post(path, { reason: 'duplicate' })
    await held.hit()
    const impatient = await world.client.post(path, undefined, ASYNC)
    expect([impatient.status, impatient.body.status]).toEqual([202, 'canceling'])
    const other = await world.client.post(path, { reason: 'fraudulent' })
    expect([other.status, other.body.error]).toMatchObject([
      409,
      {
        code: 'payment_not_cancelable',
        message: 'The payment cannot be canceled as fraudulent: it is already being canceled, as duplicate.',
        context: { status: 'canceling', cancellation_reason: 'duplicate' },
      },
    ])
    const headers = { 'idempotency-key': freshKey() }
    const joined = world.client.post(path, undefined, headers)
    const key_known = `/v1/idempotency_keys/${headers['idempotency-key']}`
    await eventually(async () =>
      expect((await world.client.get(key_known)).body).toMatchObject([{ status: 'under_way' }]),
    )
    await held.remove()
    const answers = [await first, await joined, await world.client.post(path, undefined, headers)]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    for (const { body } of answers)
      expect(body).toMatchObject({ status: 'canceled', cancellation_reason: 'duplicate' })
    expect(answers.map((answer) => answer.headers.get('idempotent-replayed'))).toEqual([null, null, 'true'])
    const effects = (await effectsOf(world, processor_reference)).map(({ effect }) => effect)
    expect(effects).toEqual(['authorize', 'cancel'])
  })

  test('joins one that is recorded while the authorization is under way', async ({ world }) => {
    const description = freshKey()
    const held = await fault(world, { match: { contains: description }, fault: 'hold' })
    const { body } = await createPayment(world.client, { description }, ASYNC)
    await held.hit()
    for (let times = 0; times < 2; times++) {
      const canceled = await world.client.post(`/v1/payments/${body.id}/cancel`)
      expect([canceled.status, canceled.body.status]).toEqual([202, 'pending'])
    }
    await held.remove()
    await paymentIn(world.client, body.id, 'canceled')
  })
})

describe('Prefer', () => {
  test.for([
    ['WAIT=30', 201, 'wait=30'],
    ['respond-async, wait=30', 201, 'respond-async, wait=30'],
    ['foo="a, wait=0"; b, wait="30"', 201, 'wait=30'],
    ['wait=0, wait=30', 202, 'wait=0'],
    ['respond-async; q=1', 202, 'respond-async'],
    ['wait=31', 201, 'wait=30'],
    ['wait=soon, respond-async=no, , "', 201, null],
  ] as const)('%s', async ([prefer, status, applied], { world }) => {
    const answer = await createPayment(world.client, {}, { prefer })
    expect([answer.status, answer.headers.get('preference-applied')]).toEqual([status, applied])
  })
})

test('internal errors are not shown to tenants', async ({ world }) => {
  const { id } = await heldPayment(world.client)
  const inside = { code: 'processor_error', message: "TypeError: cannot read properties of '10.0.0.3'" }
  await world.sql`
    update jobs set state = 'discarded', outcome = 'ambiguous', last_error = ${world.sql.json(inside)}, finished_at = now()
    where tenant_id = ${world.tenant_id} and subject_id = ${id}`
  const { body } = await world.client.get(`/v1/payments/${id}`)
  const repeated = await createPayment(world.client, { idempotency_key: body.idempotency_key })
  expect([repeated.status, repeated.body.error]).toMatchObject([
    502,
    { code: 'processor_error', message: 'The payment processor failed.' },
  ])
  const timeline = await world.client.get(`/v1/payments/${id}/timeline`)
  expect(timeline.body.find(({ kind }: { kind: string }) => kind === 'attempt')).toMatchObject({
    outcome: 'ambiguous',
    details: { error: { message: expect.stringContaining('attempt') } },
  })
  expect(timeline.text).not.toContain('TypeError')
})

test('a timeline comes in pages, each entry once', async ({ world }) => {
  const { id } = await heldPayment(world.client)
  await world.client.post(`/v1/payments/${id}/capture`)
  await world.drain()
  const path = `/v1/payments/${id}/timeline`
  const whole = (await world.client.get(path)).body
  expect(whole.length).toBeGreaterThan(6)
  const walked: unknown[] = []
  for (let url: string | undefined = `${path}?limit=2`; url;) {
    const page = await world.client.get(url)
    expect(page.body.length).toBeLessThan(6)
    walked.unshift(...page.body)
    url = /<(.+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1]
  }
  expect(walked).toEqual(whole)
  for (const query of ['limit=0', 'limit=101', 'before=x'])
    expect((await world.client.get(`${path}?${query}`)).status).toBe(400)
})

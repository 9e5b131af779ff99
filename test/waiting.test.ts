// Tests the wait for a job: forged messages, repeated cancellations, the Prefer header, and errors in responses.
import { randomUUID } from 'node:crypto'
import { describe, expect } from 'vitest'
import { metrics } from '#core/metrics.ts'
import { queueConfig } from '#core/config.ts'
import { openQueue } from '#queue/queue.ts'
import { freshKey } from '#test/client.ts'
import {
  ASYNC,
  createPayment,
  effectsOf,
  eventually,
  fault,
  authorizedPayment,
  paymentIn,
} from '#test/payments.ts'
import { createWorld, testIn } from '#test/world.ts'

const test = testIn()

/** The count of queries that read payments for a response. */
async function paymentReads(): Promise<number> {
  const { values } = await metrics.statement.get()
  const counted = values.filter(
    ({ metricName, labels }) => metricName?.endsWith('_count') && labels['step'] === 'find_payment',
  )
  return counted.reduce((sum, { value }) => sum + value, 0)
}

describe.each(['redis', 'postgres'] as const)('a forged message on %s', (backend) => {
  test('neither ends a wait nor fails a payment, even 3,000 times', async ({ world }) => {
    const backend_world = backend === 'redis' ? world : await createWorld({ queue: backend })
    const forger = openQueue(queueConfig(backend_world.config), { log: () => {}, process_id: randomUUID() })
    try {
      const { id, processor_reference } = await authorizedPayment(backend_world.client)
      const match = { path: `${processor_reference}/capture` }
      const hold = await fault(backend_world, { match, fault: 'hold' })
      const waiting = backend_world.client.post(`/v1/payments/${id}/capture`, undefined, {
        prefer: 'wait=30',
      })
      await hold.hit()
      const [job] = await backend_world.sql<{ id: string }[]>`
        select id from jobs where resource_id = ${id} and name = 'payment.capture'`
      const before = await paymentReads()
      const forged = ['failed', 'succeeded', 'discarded'].map((state) => ({ id: job!.id, state }))
      await eventually(async () => {
        forger.publish(Array.from({ length: 300 }, (_, n) => forged[n % forged.length]!))
        expect(await paymentReads()).toBeGreaterThan(before)
      })
      forger.publish(Array.from({ length: 3000 }, () => ({ id: randomUUID(), state: 'failed' })))
      expect((await paymentReads()) - before).toBeLessThan(30)
      await hold.remove()
      const { status, body } = await waiting
      expect([status, body.status]).toEqual([200, 'captured'])
    } finally {
      await forger.close()
      if (backend_world !== world) await backend_world.close()
    }
  })
})

test('a payment that two tenants request in one batch is returned only to its owner', async ({ world }) => {
  const { id } = await authorizedPayment(world.client)
  const other = await world.clientOf()
  const responses = await Promise.all(
    Array.from({ length: 60 }, (_, n) => (n % 2 === 0 ? world.client : other).get(`/v1/payments/${id}`)),
  )
  expect(responses.map(({ status }) => status)).toEqual(responses.map((_, n) => (n % 2 === 0 ? 200 : 404)))
})

describe('a second cancellation', () => {
  test('waits for the outcome of the cancellation in progress, and its own idempotency key replays that outcome', async ({
    world,
  }) => {
    const { id, processor_reference } = await authorizedPayment(world.client)
    const path = `/v1/payments/${id}/cancel`
    const hold = await fault(world, { match: { path: `${processor_reference}/cancel` }, fault: 'hold' })
    const first = world.client.post(path, { reason: 'duplicate' })
    await hold.hit()
    const immediate = await world.client.post(path, undefined, ASYNC)
    expect([immediate.status, immediate.body.status]).toEqual([202, 'canceling'])
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
    const key_path = `/v1/idempotency_keys/${headers['idempotency-key']}`
    await eventually(async () =>
      expect((await world.client.get(key_path)).body).toMatchObject([{ status: 'under_way' }]),
    )
    await hold.remove()
    const responses = [await first, await joined, await world.client.post(path, undefined, headers)]
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200])
    for (const { body } of responses)
      expect(body).toMatchObject({ status: 'canceled', cancellation_reason: 'duplicate' })
    expect(responses.map((response) => response.headers.get('idempotent-replayed'))).toEqual([
      null,
      null,
      'true',
    ])
    const effects = (await effectsOf(world, processor_reference)).map(({ effect }) => effect)
    expect(effects).toEqual(['authorize', 'cancel'])
  })

  test('waits for the outcome of a cancellation that was recorded during the authorization', async ({
    world,
  }) => {
    const description = freshKey()
    const hold = await fault(world, { match: { contains: description }, fault: 'hold' })
    const { body } = await createPayment(world.client, { description }, ASYNC)
    await hold.hit()
    for (let times = 0; times < 2; times++) {
      const canceled = await world.client.post(`/v1/payments/${body.id}/cancel`)
      expect([canceled.status, canceled.body.status]).toEqual([202, 'pending'])
    }
    await hold.remove()
    await paymentIn(world.client, body.id, 'canceled')
  })
})

describe('a request with the header Prefer', () => {
  test.for([
    ['WAIT=30', 201, 'wait=30'],
    ['respond-async, wait=30', 201, 'respond-async, wait=30'],
    ['foo="a, wait=0"; b, wait="30"', 201, 'wait=30'],
    ['wait=0, wait=30', 202, 'wait=0'],
    ['respond-async; q=1', 202, 'respond-async'],
    ['wait=31', 201, 'wait=30'],
    ['wait=soon, respond-async=no, , "', 201, null],
  ] as const)(
    '%s gets the expected status and Preference-Applied',
    async ([prefer, status, applied], { world }) => {
      const response = await createPayment(world.client, {}, { prefer })
      expect([response.status, response.headers.get('preference-applied')]).toEqual([status, applied])
    },
  )
})

test('internal errors are not shown to tenants', async ({ world }) => {
  const { id } = await authorizedPayment(world.client)
  const internal_error = {
    code: 'processor_error',
    message: "TypeError: cannot read properties of '10.0.0.3'",
  }
  await world.sql`
    update jobs set state = 'discarded', outcome = 'ambiguous', last_error = ${world.sql.json(internal_error)}, finished_at = now()
    where tenant_id = ${world.tenant_id} and resource_id = ${id}`
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

test('the pages of a timeline contain each entry once', async ({ world }) => {
  const { id } = await authorizedPayment(world.client)
  await world.client.post(`/v1/payments/${id}/capture`)
  await world.drain()
  const path = `/v1/payments/${id}/timeline`
  const whole = (await world.client.get(path)).body
  expect(whole.length).toBeGreaterThan(6)
  const entries: unknown[] = []
  for (let url: string | undefined = `${path}?limit=2`; url;) {
    const page = await world.client.get(url)
    expect(page.body.length).toBeLessThan(6)
    entries.unshift(...page.body)
    url = /<(.+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1]
  }
  expect(entries).toEqual(whole)
  for (const query of ['limit=0', 'limit=101', 'before=x'])
    expect((await world.client.get(`${path}?${query}`)).status).toBe(400)
})

// 200 concurrent requests over HTTP: one request succeeds, the others are refused, and the processor's effects match.
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, vi } from 'vitest'
import { newId } from '#core/ids.ts'
import { requestCancels } from '#domain/payments/request.ts'
import { findExpiredHolds } from '#domain/payments/expiry.ts'
import { checkInvariants } from '#test/books.ts'
import { freshKey, type Answer, type Client } from '#test/client.ts'
import {
  capturedPayment,
  createPayment,
  effectsOf,
  authorizedPayment,
  paymentIn,
  refund,
} from '#test/payments.ts'
import { pauses } from '#test/process.ts'
import { testIn, type World } from '#test/world.ts'

const CONCURRENCY = 200

// On a busy machine the requests are slow, and each request must wait for its final response.
vi.setConfig({ testTimeout: 300_000 })
const withLongWait = (client: Client): Client => ({
  ...client,
  post: (path, body, headers) => client.post(path, body, { prefer: 'wait=30', ...headers }),
})

let client: Client
const test = testIn({ env: { DATABASE_POOL: '8' } })
test.beforeAll(async ({ world }) => {
  client = withLongWait(world.client)
  // Opens one kept-alive connection for each concurrent request.
  await atOnce(CONCURRENCY, () => client.get('/v1/payments?limit=1'))
})
test.afterEach(async ({ world }) => {
  await world.drain()
  await checkInvariants(world)
})

/** Sends the requests at once. One that a busy machine refuses is sent again: nothing was accepted. */
function atOnce<T>(times: number, send: (index: number) => Promise<T>): Promise<T[]> {
  const untilAdmitted = async (index: number): Promise<T> => {
    for (const pause_ms of pauses()) {
      const answer = await send(index)
      if ((answer as Partial<Answer>).body?.error?.code !== 'overloaded') return answer
      await sleep(pause_ms)
    }
    throw new Error('unreachable')
  }
  return Promise.all(Array.from({ length: times }, (_, index) => untilAdmitted(index)))
}

/** The number of responses by status and error code. */
function tally(answers: Answer[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status, body } of answers) {
    const name = body?.error === undefined ? String(status) : `${status} ${body.error.code}`
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

async function count(world: World, processor_reference: string, effect: string): Promise<number> {
  return (await effectsOf(world, processor_reference)).filter((each) => each.effect === effect).length
}

/** Expires the hold at the processor if the hold is still open. */
async function expire(world: World, processor_reference: string): Promise<void> {
  const { control } = world.provider('stripe')
  await control('POST', `/payment_intents/${processor_reference}/expire`).catch(() => {})
}

async function requestsTo(world: World, path: string): Promise<any[]> {
  return await world.provider('stripe').requests({ method: 'POST', path })
}

describe('refunds', () => {
  test('of 200 concurrent refunds of USD 0.60 for a payment of USD 1.00, exactly one succeeds', async ({
    world,
  }) => {
    const { id, processor_reference } = await capturedPayment(client, { amount_minor: 100 })
    const answers = await atOnce(CONCURRENCY, () => refund(client, id, { amount_minor: 60 }))
    expect(tally(answers)).toEqual({ 201: 1, '422 refund_exceeds_captured': CONCURRENCY - 1 })
    const effects = await effectsOf(world, processor_reference)
    expect(effects.map(({ effect, amount }) => [effect, amount])).toEqual([
      ['authorize', 100],
      ['capture', 100],
      ['refund', 60],
    ])
    expect((await refund(client, id, { amount_minor: 41 })).status).toBe(422)
    expect((await refund(client, id, { amount_minor: 40 })).status).toBe(201)
  })

  test('of 200 concurrent refunds of USD 0.07 for a payment of USD 1.00, exactly 14 succeed', async ({
    world,
  }) => {
    const { id, processor_reference } = await capturedPayment(client, { amount_minor: 100 })
    const answers = await atOnce(CONCURRENCY, () => refund(client, id, { amount_minor: 7 }))
    expect(tally(answers)).toEqual({ 201: 14, '422 refund_exceeds_captured': CONCURRENCY - 14 })
    expect(await count(world, processor_reference, 'refund')).toBe(14)
    expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({ amount_refunded_minor: 98 })
  })

  test('exactly one of 200 concurrent refunds of the full amount succeeds', async () => {
    const { id } = await capturedPayment(client, { amount_minor: 100 })
    const answers = await atOnce(CONCURRENCY, () => refund(client, id))
    expect(tally(answers)).toEqual({ 201: 1, '422 refund_exceeds_captured': CONCURRENCY - 1 })
  })

  test('200 concurrent requests with the same key create one refund', async ({ world }) => {
    const { id, processor_reference } = await capturedPayment(client, { amount_minor: 10_000 })
    const body = { amount_minor: 10, idempotency_key: freshKey() }
    const answers = await atOnce(CONCURRENCY, () => refund(client, id, body))
    expect(tally(answers)).toEqual({ 201: CONCURRENCY })
    expect(new Set(answers.map(({ body: made }) => made.id)).size).toBe(1)
    expect(answers.filter(({ headers }) => headers.get('idempotent-replayed') !== 'true')).toHaveLength(1)
    expect(await count(world, processor_reference, 'refund')).toBe(1)
    expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({ amount_refunded_minor: 10 })
  })
})

describe('payments', () => {
  test('200 concurrent captures of one payment lead to one capture at the processor', async ({ world }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const answers = await atOnce(CONCURRENCY, () => client.post(`/v1/payments/${id}/capture`))
    expect(tally(answers)).toEqual({ 200: 1, '409 payment_not_capturable': CONCURRENCY - 1 })
    expect(await count(world, processor_reference, 'capture')).toBe(1)
    expect(await requestsTo(world, `${processor_reference}/capture`)).toHaveLength(1)
  })

  test('exactly one of 200 concurrent captures of different amounts succeeds', async ({ world }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const answers = await atOnce(CONCURRENCY, (index) =>
      client.post(`/v1/payments/${id}/capture`, { amount_minor: index + 1 }),
    )
    const [succeeded] = answers.filter(({ status }) => status === 200)
    expect(tally(answers)).toEqual({ 200: 1, '409 payment_not_capturable': CONCURRENCY - 1 })
    const effects = await effectsOf(world, processor_reference)
    expect(effects.at(-1)).toMatchObject({ effect: 'capture', amount: succeeded!.body.amount_captured_minor })
  })

  test('200 concurrent requests with the same key create one payment', async ({ world }) => {
    const body = { idempotency_key: freshKey(), description: freshKey() }
    const before = (await requestsTo(world, '/v1/payment_intents$')).length
    const answers = await atOnce(CONCURRENCY, () => createPayment(client, body))
    expect(tally(answers)).toEqual({ 201: CONCURRENCY })
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
    expect(answers.filter(({ headers }) => headers.get('idempotent-replayed') !== 'true')).toHaveLength(1)
    expect(await requestsTo(world, '/v1/payment_intents$')).toHaveLength(before + 1)
  })

  test('200 concurrent requests with the same key and two bodies create one payment, and requests with the other body are refused', async () => {
    const idempotency_key = freshKey()
    const answers = await atOnce(CONCURRENCY, (index) =>
      createPayment(client, { idempotency_key, amount_minor: 1000 + (index % 2) }),
    )
    expect(tally(answers)).toEqual({ 201: CONCURRENCY / 2, '422 idempotency_key_reused': CONCURRENCY / 2 })
    const made = answers.filter(({ status }) => status === 201)
    expect(new Set(made.map(({ body }) => body.id)).size).toBe(1)
  })

  test('200 concurrent captures with the same key lead to one capture, and all callers get its response', async ({
    world,
  }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const headers = { 'idempotency-key': freshKey() }
    const answers = await atOnce(CONCURRENCY, () => client.post(`/v1/payments/${id}/capture`, {}, headers))
    expect(tally(answers)).toEqual({ 200: CONCURRENCY })
    expect(await count(world, processor_reference, 'capture')).toBe(1)
  })

  test('200 concurrent requests with the same key and a declined card lead to one attempt, and all callers get the decline', async ({
    world,
  }) => {
    const body = { idempotency_key: freshKey(), payment_method: 'pm_card_chargeDeclined' }
    const before = (await requestsTo(world, '/v1/payment_intents$')).length
    const answers = await atOnce(CONCURRENCY, () => createPayment(client, body))
    expect(tally(answers)).toEqual({ '402 payment_declined': CONCURRENCY })
    expect(await requestsTo(world, '/v1/payment_intents$')).toHaveLength(before + 1)
  })

  test('200 concurrent requests with different keys create 200 payments', async () => {
    const answers = await atOnce(CONCURRENCY, () => createPayment(client))
    expect(tally(answers)).toEqual({ 201: CONCURRENCY })
    expect(new Set(answers.map(({ body }) => body.processor_reference)).size).toBe(CONCURRENCY)
    expect(new Set(answers.map(({ body }) => body.created_at)).size).toBe(CONCURRENCY)
  })
})

describe('capture against cancellation', () => {
  test("each of fifty payments is either captured or canceled, and the processor's status matches", async ({
    world,
  }) => {
    const payments = await atOnce(50, () => authorizedPayment(client))
    const responses = await Promise.all(
      payments.map(({ id }, index) => {
        const capture = () => client.post(`/v1/payments/${id}/capture`)
        const cancel = () => client.post(`/v1/payments/${id}/cancel`)
        // The capture and the cancellation are sent first equally often.
        return Promise.all(
          (index % 2 === 0 ? [capture, cancel, cancel, capture] : [cancel, capture, capture, cancel]).map(
            (send) => send(),
          ),
        )
      }),
    )
    for (const [index, answers] of responses.entries()) {
      const succeeded = answers.filter(({ status }) => status === 200)
      expect(answers.filter(({ status }) => status === 409)).toHaveLength(4 - succeeded.length)
      const { id, processor_reference } = payments[index]!
      const { body } = await client.get(`/v1/payments/${id}`)
      // A second cancellation of the payment waits for the outcome of the first while the first is in progress.
      expect([1, body.status === 'canceled' ? 2 : 1]).toContain(succeeded.length)
      for (const answer of succeeded) expect(answer.body).toEqual(body)
      const effects = (await effectsOf(world, processor_reference)).map(({ effect }) => effect)
      expect(effects).toEqual(['authorize', body.status === 'captured' ? 'capture' : 'cancel'])
    }
  })

  test('cancellations of fifty authorizations in progress release every hold', async ({ world }) => {
    const created = await atOnce(50, () => createPayment(client, {}, { prefer: 'respond-async' }))
    const canceled = await Promise.all(
      created.map(({ body }) => client.post(`/v1/payments/${body.id}/cancel`, { reason: 'duplicate' })),
    )
    for (const { status } of canceled) expect([200, 202]).toContain(status)
    for (const { body } of created) {
      const { processor_reference } = await paymentIn(client, body.id, 'canceled')
      expect((await effectsOf(world, processor_reference)).map(({ effect }) => effect)).toEqual([
        'authorize',
        'cancel',
      ])
    }
  })
})

describe('capture against expiry', () => {
  test("each of fifty payments with an expired hold is either captured or canceled, and the processor's status matches", async ({
    world,
  }) => {
    const payments = await atOnce(50, () => authorizedPayment(client))
    const ids = payments.map(({ id }) => id)
    await world.sql`update payments set capture_before = now() - interval '1 second' where id = any(${ids}::uuid[])`
    const expire = async () => {
      const lapsed = await findExpiredHolds(world.sql, 100)
      await requestCancels(
        world.sql,
        lapsed.map(({ tenant_id, id }) => ({
          tenant_id,
          payment_id: id,
          job_id: newId(),
          event_id: newId(),
          will_wake: false,
          idempotency_key: null,
          route: '',
          fingerprint: '',
          request_id: null,
          reason: null,
          cancellation_reason: 'expired',
        })),
      )
    }
    const captures = ids.map((id) => client.post(`/v1/payments/${id}/capture`))
    const [answers] = await Promise.all([Promise.all(captures), expire(), expire(), expire()])
    const outcomes = tally(answers)
    expect((outcomes['200'] ?? 0) + (outcomes['409 payment_not_capturable'] ?? 0)).toBe(50)
    for (const [index, { status }] of answers.entries()) {
      const { id, processor_reference } = payments[index]!
      await paymentIn(client, id, status === 200 ? 'captured' : 'canceled')
      expect((await effectsOf(world, processor_reference)).map(({ effect }) => effect)).toEqual([
        'authorize',
        status === 200 ? 'capture' : 'cancel',
      ])
    }
  })

  test('each of fifty payments whose holds the processor expires in the meantime is either captured or canceled', async ({
    world,
  }) => {
    const payments = await atOnce(50, () => authorizedPayment(client))
    const responses = await Promise.all(
      payments.map(async ({ id, processor_reference }) => {
        const [answer] = await Promise.all([
          client.post(`/v1/payments/${id}/capture`),
          expire(world, processor_reference),
        ])
        return answer
      }),
    )
    for (const [index, { status }] of responses.entries()) {
      expect([200, 409]).toContain(status)
      await paymentIn(client, payments[index]!.id, status === 200 ? 'captured' : 'canceled')
    }
  })

  test("concurrent capture, cancellation and expiry of a payment have one outcome, and the processor's status matches", async ({
    world,
  }) => {
    const payments = await atOnce(30, () => authorizedPayment(client))
    await Promise.all(
      payments.flatMap(({ id, processor_reference }) => [
        client.post(`/v1/payments/${id}/cancel`),
        client.post(`/v1/payments/${id}/capture`),
        expire(world, processor_reference),
        client.post(`/v1/payments/${id}/capture`),
        client.post(`/v1/payments/${id}/cancel`),
      ]),
    )
    for (const { id, processor_reference } of payments) {
      const effects = (await effectsOf(world, processor_reference)).map(({ effect }) => effect)
      expect(effects).toHaveLength(2)
      await paymentIn(client, id, effects[1] === 'capture' ? 'captured' : 'canceled')
    }
  })
})

describe('refund against its notifications', () => {
  test('concurrent refunds that succeed and fail never exceed the captured amount', async ({ world }) => {
    const payments = await atOnce(20, () =>
      capturedPayment(client, { amount_minor: 100, payment_method: 'pm_card_refundFail' }),
    )
    await Promise.all(
      payments.map(async ({ id }) => {
        const { body } = await refund(client, id, { amount_minor: 60 })
        await Promise.all([
          world
            .provider('stripe')
            .control('POST', `/refunds/${body.processor_reference}/settle`, { status: 'failed' }),
          ...Array.from({ length: 5 }, () => refund(client, id, { amount_minor: 60 })),
        ])
      }),
    )
    for (const { processor_reference } of payments) {
      let refunded_minor = 0
      for (const { effect, amount } of await effectsOf(world, processor_reference)) {
        if (effect === 'refund') refunded_minor += amount
        if (effect === 'refund_failed') refunded_minor -= amount
        expect(refunded_minor).toBeLessThanOrEqual(100)
      }
    }
  })
})

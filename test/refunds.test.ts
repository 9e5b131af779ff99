// Refunds: reserved at once, settled by the processor's report, freed after a failure, never above the captured amount.
import { describe, expect } from 'vitest'
import { findRemainingProblems } from '#test/invariants.ts'
import { freshKey, type Client } from '#test/client.ts'
import {
  ASYNC,
  capturedPayment,
  effectsOf,
  eventually,
  fault,
  authorizedPayment,
  refund,
} from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn()

async function awaitRefund(client: Client, id: string, status: string): Promise<any> {
  return await eventually(async () => {
    const { body } = await client.get(`/v1/refunds/${id}`)
    expect(body).toMatchObject({ status })
    return body
  })
}

async function amountsOf(world: World, payment_id: string): Promise<{ refunded: number; reserved: number }> {
  const [row] = await world.sql<{ refunded: number; reserved: number }[]>`
    select amount_refunded_minor as refunded, amount_refund_reserved_minor as reserved from payments
    where tenant_id = ${world.tenant_id} and id = ${payment_id}`
  return row!
}

async function settle(
  world: World,
  refund_reference: string,
  status: string,
  failure_reason?: string,
): Promise<void> {
  await world
    .provider('stripe')
    .control('POST', `/refunds/${refund_reference}/settle`, { status, failure_reason })
}

describe('a captured payment', () => {
  test('is refunded in full if the request has no amount', async ({ world, client }) => {
    const { id, processor_reference } = await capturedPayment(client)
    const idempotency_key = freshKey()
    const { status, body } = await refund(client, id, {
      reason: 'requested_by_customer',
      metadata: { ticket: 7 },
      idempotency_key,
    })
    expect(status).toBe(201)
    expect(body).toMatchObject({
      payment_id: id,
      tenant_id: world.tenant_id,
      idempotency_key,
      status: 'succeeded',
      amount_minor: 1000,
      currency: 'USD',
      reason: 'requested_by_customer',
      imported: false,
      processor: 'stripe',
      processor_reference: expect.stringMatching(/^re_/),
      failure: null,
      metadata: { ticket: 7 },
    })
    expect((await client.get(`/v1/refunds/${body.id}`)).body).toEqual(body)
    expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({
      status: 'captured',
      amount_refunded_minor: 1000,
    })
    expect((await effectsOf(world, processor_reference)).at(-1)).toMatchObject({
      effect: 'refund',
      amount: 1000,
      refund: body.processor_reference,
    })
  })

  test('has its refund in the list of all refunds, newest first, filtered by status and currency', async ({
    world,
  }) => {
    const shop = await world.clientOf()
    const created = []
    for (const currency of ['usd', 'eur'])
      created.unshift((await refund(shop, (await capturedPayment(shop, { currency })).id)).body)
    const [euros, dollars] = created
    for (const [query, expected] of [
      ['', created],
      ['limit=1', [euros]],
      ['currency=usd', [dollars]],
      ['status=succeeded', created],
      ['status=pending', []],
      [`created_to=${euros.created_at}`, [dollars]],
    ] as const)
      expect([query, (await shop.get(`/v1/refunds?${query}`)).body]).toEqual([query, expected])
    expect((await shop.get('/v1/refunds?status=lost')).status).toBe(400)
  })

  test('is refunded in parts up to the full amount, and further refunds are refused', async ({ client }) => {
    const { id } = await capturedPayment(client)
    const parts = [
      await refund(client, id, { amount_minor: 100 }),
      await refund(client, id, { amount_minor: 250 }),
      await refund(client, id),
    ]
    expect(parts.map(({ body }) => body.amount_minor)).toEqual([100, 250, 650])
    const listed = await client.get(`/v1/payments/${id}/refunds`)
    expect(listed.body).toEqual(parts.map(({ body }) => body).toReversed())
    const paged = await client.get(`/v1/payments/${id}/refunds?limit=2`)
    expect(paged.body).toEqual(listed.body.slice(0, 2))
    const next = /<(.+)>; rel="next"/.exec(paged.headers.get('link')!)![1]!
    expect((await client.get(next)).body).toEqual(listed.body.slice(2))
    const [first] = parts
    const { processor_reference } = first!.body
    expect((await client.get(`/v1/refunds?processor_reference=${processor_reference}`)).body).toEqual([
      first!.body,
    ])
    for (const body of [{}, { amount_minor: 1 }]) {
      const excess = await refund(client, id, body)
      expect(excess.status).toBe(422)
      expect(excess.body.error).toMatchObject({
        code: 'refund_exceeds_captured',
        context: { amount_captured_minor: 1000, amount_refunded_minor: 1000 },
      })
    }
  })

  test('is never refunded above the captured amount', async ({ world, client }) => {
    const { id } = await authorizedPayment(client)
    await client.post(`/v1/payments/${id}/capture`, { amount_minor: 400 })
    const refused = await refund(client, id, { amount_minor: 401 })
    expect([refused.status, refused.body.error.code]).toEqual([422, 'refund_exceeds_captured'])
    expect(await amountsOf(world, id)).toEqual({ refunded: 0, reserved: 0 })
    expect((await refund(client, id)).body).toMatchObject({ amount_minor: 400 })
  })

  test.for([
    ['KWD', 1005, 1010],
    ['ISK', 10_050, 10_000],
    ['UGX', 10_001, 10_000],
  ] as const)(
    'accepts a refund in %s only if the amount can be settled',
    async ([currency, indivisible, divisible], { client }) => {
      const { id } = await capturedPayment(client, { currency, amount_minor: 20_000 })
      const refused = await refund(client, id, { amount_minor: indivisible })
      expect([refused.status, refused.body.error.code]).toEqual([422, 'payment_invalid'])
      expect((await refund(client, id, { amount_minor: divisible })).status).toBe(201)
    },
  )

  test('refuses invalid amounts and reasons', async ({ client }) => {
    const { id } = await capturedPayment(client)
    for (const body of [
      { amount_minor: 0 },
      { amount_minor: -5 },
      { amount_minor: 1.5 },
      { reason: 'regret' },
    ])
      expect([body, (await refund(client, id, body)).status]).toEqual([body, 400])
    expect((await refund(client, id, { idempotency_key: undefined })).body.error).toMatchObject({
      param: 'idempotency_key',
    })
  })
})

test('a payment that is not captured cannot be refunded, and the error names its status', async ({
  client,
}) => {
  const { id } = await authorizedPayment(client)
  const refused = await refund(client, id)
  expect(refused.status).toBe(409)
  expect(refused.body.error).toMatchObject({
    code: 'payment_not_refundable',
    message: expect.stringContaining('authorized'),
  })
  await client.post(`/v1/payments/${id}/cancel`)
  expect((await refund(client, id)).body.error).toMatchObject({ context: { status: 'canceled' } })
  const unknown_id = '01900000-0000-7000-8000-000000000000'
  expect((await refund(client, unknown_id)).body.error).toMatchObject({ code: 'payment_not_found' })
  expect((await client.get(`/v1/refunds/${unknown_id}`)).body.error).toMatchObject({
    code: 'refund_not_found',
  })
})

test("the response to the id of another tenant's refund is not_found", async ({ world, client }) => {
  const { id } = await capturedPayment(client)
  const { body } = await refund(client, id)
  const other = await world.clientOf()
  expect((await other.get(`/v1/refunds/${body.id}`)).status).toBe(404)
  expect((await other.get(`/v1/payments/${id}/refunds`)).status).toBe(404)
})

describe('a pending refund', () => {
  test('is reserved, and is posted when it succeeds', async ({ world, client }) => {
    const { id } = await capturedPayment(client, { payment_method: 'pm_card_pendingRefund' })
    const { status, body } = await refund(client, id, { amount_minor: 600 })
    expect([status, body.status]).toEqual([201, 'pending'])
    expect(await amountsOf(world, id)).toEqual({ refunded: 0, reserved: 600 })
    const readPayment = async () => (await client.get(`/v1/payments/${id}`)).body
    expect(await readPayment()).toMatchObject({ amount_refunded_minor: 0, amount_refund_pending_minor: 600 })
    const excess = await refund(client, id, { amount_minor: 401 })
    expect([excess.status, excess.body.error.context]).toEqual([
      422,
      {
        requested_minor: 401,
        amount_captured_minor: 1000,
        amount_refunded_minor: 0,
        amount_refund_pending_minor: 600,
        currency: 'USD',
      },
    ])
    const readPostings = async () =>
      (await world.sql`select kind from ledger_transfers where subject_id = ${body.id}`).map(
        ({ kind }) => kind,
      )
    expect(await readPostings()).toEqual([])
    await settle(world, body.processor_reference, 'succeeded')
    await awaitRefund(client, body.id, 'succeeded')
    expect(await readPostings()).toEqual(['refund'])
    expect(await amountsOf(world, id)).toEqual({ refunded: 600, reserved: 600 })
    expect(await readPayment()).toMatchObject({ amount_refunded_minor: 600, amount_refund_pending_minor: 0 })
  })

  test('that fails frees its reserved amount and posts nothing', async ({ world, client }) => {
    const { id } = await capturedPayment(client, { payment_method: 'pm_card_pendingRefund' })
    const { body } = await refund(client, id)
    await settle(world, body.processor_reference, 'failed', 'declined')
    expect(await awaitRefund(client, body.id, 'failed')).toMatchObject({
      failure: { code: 'processor_error', message: 'declined' },
    })
    expect(await amountsOf(world, id)).toEqual({ refunded: 0, reserved: 0 })
    expect(await world.sql`select from ledger_transfers where subject_id = ${body.id}`).toHaveLength(0)
    expect((await refund(client, id)).status).toBe(201)
  })
})

test('a late failure of a refund returns the money, and the money can be refunded again', async ({
  world,
  client,
}) => {
  const { id, currency } = await capturedPayment(client, { payment_method: 'pm_card_refundFail' })
  const available = async () => {
    const [row] = await world.sql<{ balance_minor: number }[]>`
      select balance_minor from ledger_accounts where tenant_id = ${world.tenant_id} and currency = ${currency} and name = 'available'`
    return row!.balance_minor
  }
  const balance_before = await available()
  const { body } = await refund(client, id, { amount_minor: 800 })
  expect(body).toMatchObject({ status: 'succeeded' })
  expect(await available()).toBe(balance_before - 800)
  await settle(world, body.processor_reference, 'failed', 'lost_or_stolen_card')
  expect(await awaitRefund(client, body.id, 'failed')).toMatchObject({
    failure: { message: 'lost_or_stolen_card' },
  })
  expect(await available()).toBe(balance_before)
  expect(await amountsOf(world, id)).toEqual({ refunded: 0, reserved: 0 })
  const events = await world.sql`
    select type from events where subject_id = ${id} and data ->> 'id' = ${body.id} order by created_at`
  expect(events.map(({ type }) => type)).toEqual(['refund.created', 'refund.succeeded', 'refund.failed'])
  expect((await refund(client, id)).body).toMatchObject({ amount_minor: 1000 })
})

describe('idempotency', () => {
  test('a repeated request returns the current refund, and no further refund is made', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await capturedPayment(client)
    const body = { amount_minor: 300, idempotency_key: freshKey() }
    const first = await refund(client, id, body)
    const second = await refund(client, id, body)
    expect([second.status, second.headers.get('idempotent-replayed')]).toEqual([201, 'true'])
    expect(second.text).toBe(first.text)
    expect(await amountsOf(world, id)).toEqual({ refunded: 300, reserved: 300 })
    const effects = await effectsOf(world, processor_reference)
    expect(effects.filter(({ effect }) => effect === 'refund')).toHaveLength(1)
    const other = await refund(client, id, { ...body, amount_minor: 301 })
    expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused'])
  })

  test('a key can be used for one payment only', async ({ world, client }) => {
    const [one, other] = [await capturedPayment(client), await capturedPayment(client)]
    const body = { idempotency_key: freshKey() }
    expect((await refund(client, one.id, body)).status).toBe(201)
    const refused = await refund(client, other.id, body)
    expect([refused.status, refused.body.error.code]).toEqual([422, 'idempotency_key_reused'])
    expect(await amountsOf(world, other.id)).toEqual({ refunded: 0, reserved: 0 })
  })

  test('a repeated request that arrives during the first request waits for the same outcome', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await capturedPayment(client)
    const hold = await fault(world, {
      match: { contains: `payment_intent=${processor_reference}` },
      fault: 'hold',
    })
    const body = { amount_minor: 300, idempotency_key: freshKey() }
    const first = refund(client, id, body)
    await hold.hit()
    const second = refund(client, id, body)
    expect((await refund(client, id, body, ASYNC)).body).toMatchObject({ status: 'pending' })
    await hold.remove()
    const answers = await Promise.all([first, second])
    expect(answers.map(({ status, body: made }) => [status, made.status])).toEqual([
      [201, 'succeeded'],
      [201, 'succeeded'],
    ])
  })
})

test('a refund that the processor refuses fails, frees its reserved amount, and replays its error', async ({
  world,
  client,
}) => {
  const { id, processor_reference } = await capturedPayment(client)
  await world.provider('stripe').control('POST', '/webhooks', { paused: true })
  const external_refund = await world
    .provider('stripe')
    .control('POST', '/refunds', { payment_intent: processor_reference })
  const body = { amount_minor: 500, idempotency_key: freshKey() }
  const refused = await refund(client, id, body)
  expect([refused.status, refused.body.error.code]).toEqual([422, 'payment_invalid'])
  const refund_id = refused.body.error.context.refund_id
  expect((await client.get(`/v1/refunds/${refund_id}`)).body).toMatchObject({
    status: 'failed',
    processor_reference: null,
    failure: { code: 'payment_invalid' },
  })
  expect(await amountsOf(world, id)).toEqual({ refunded: 0, reserved: 0 })
  const replayed = await refund(client, id, body)
  expect({ ...replayed.body.error, request_id: null }).toEqual({ ...refused.body.error, request_id: null })

  // A refund from the processor's dashboard is imported.
  await world.provider('stripe').control('POST', '/webhooks', { paused: false })
  const imported = await eventually(async () => {
    const [first] = (await client.get(`/v1/payments/${id}/refunds`)).body
    expect(first).toMatchObject({ imported: true, status: 'succeeded' })
    return first
  })
  expect(imported).toMatchObject({
    amount_minor: 1000,
    idempotency_key: null,
    processor_reference: external_refund.id,
  })
  expect(await amountsOf(world, id)).toEqual({ refunded: 1000, reserved: 1000 })
})

test('a refund that is not final in time returns 202 and continues', async ({ client }) => {
  const { id } = await capturedPayment(client)
  const { status, headers, body } = await refund(client, id, {}, ASYNC)
  expect(status).toBe(202)
  expect(headers.get('location')).toBe(`/v1/refunds/${body.id}`)
  await awaitRefund(client, body.id, 'succeeded')
})

test('the books balance and agree with the processor after all refunds', async ({ world }) => {
  await world.drain()
  expect(await findRemainingProblems(world)).toEqual([])
})

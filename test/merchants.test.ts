// Merchants of payments: a payment may name one that is there and not archived, and is found by it.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { auditEverything } from '#domain/audit/audit.ts'
import { BY_CARD, freshKey, type Client } from '#test/client.ts'
import { MERCHANT } from '#test/parties.ts'
import { ASYNC, createPayment, heldPayment } from '#test/payments.ts'
import { createWorld, type World } from '#test/world.ts'

let world: World
beforeAll(async () => {
  world = await createWorld()
})
afterAll(async () => await world?.close())

const NOBODY = '0198f6f0-0000-7000-8000-000000000000'

async function merchant(client: Client = world.client): Promise<string> {
  const answer = await client.post('/v1/merchants', {
    idempotency_key: freshKey(),
    ...MERCHANT,
  })
  expect(answer.status).toBe(201)
  return answer.body.id
}

async function payments(): Promise<number> {
  const [row] = await world.sql<{ n: number }[]>`
    select (select count(*) from payments)::int + (select count(*) from jobs)::int
      + (select count(*) from idempotency_keys)::int as n`
  return row!.n
}

test('a payment names its merchant in every answer and in its events, and null without one', async () => {
  const merchant_id = await merchant()
  const held = await heldPayment(world.client, { merchant_id: merchant_id.toUpperCase() })
  expect(held.merchant_id).toBe(merchant_id)
  expect((await world.client.get(`/v1/payments/${held.id}`)).body.merchant_id).toBe(merchant_id)
  const captured = await world.client.post(`/v1/payments/${held.id}/capture`)
  expect(captured.body).toMatchObject({ status: 'captured', merchant_id })
  const events = await world.sql<{ type: string; merchant_id: string | null }[]>`
    select type, data ->> 'merchant_id' as merchant_id from events
    where tenant_id = ${world.tenant_id} and subject_id = ${held.id} order by created_at`
  expect(events.map((event) => ({ ...event }))).toEqual(
    ['payment.created', 'payment.authorized', 'payment.captured'].map((type) => ({ type, merchant_id })),
  )
  for (const body of [{}, { merchant_id: null }])
    expect((await heldPayment(world.client, body)).merchant_id).toBeNull()
})

test('a merchant that is unknown, of another tenant or archived is refused, and nothing is written', async () => {
  const archived = await merchant()
  await world.client.delete(`/v1/merchants/${archived}`)
  const theirs = await merchant(await world.clientOf())
  const here = await merchant()
  const before = await payments()
  for (const [body, status, code, param] of [
    [{ merchant_id: NOBODY }, 404, 'merchant_not_found', 'merchant_id'],
    [{ merchant_id: theirs }, 404, 'merchant_not_found', 'merchant_id'],
    [{ merchant_id: archived }, 422, 'payment_invalid', 'merchant_id'],
    [{ merchant_id: archived.toUpperCase() }, 422, 'payment_invalid', 'merchant_id'],
    [{ merchant_id: here, customer_id: NOBODY }, 404, 'customer_not_found', 'customer_id'],
    [{ merchant_id: 'engines' }, 400, 'invalid_request', 'merchant_id'],
    [{ merchant_id: '' }, 400, 'invalid_request', 'merchant_id'],
    [{ merchant_id: 17 }, 400, 'invalid_request', 'merchant_id'],
    [{ merchant_id: [here] }, 400, 'invalid_request', 'merchant_id'],
  ] as const) {
    for (const headers of [{}, ASYNC]) {
      const refused = await createPayment(world.client, body, headers)
      expect([body, refused.status, refused.body.error]).toMatchObject([body, status, { code, param }])
    }
  }
  expect(await payments()).toBe(before)
  // The key of a refusal may be used again.
  const idempotency_key = freshKey()
  expect((await createPayment(world.client, { merchant_id: archived, idempotency_key })).status).toBe(422)
  expect((await createPayment(world.client, { merchant_id: here, idempotency_key })).status).toBe(201)
})

test('of payments that are asked for together only those with a wrong merchant are refused', async () => {
  const archived = await merchant()
  await world.client.delete(`/v1/merchants/${archived}`)
  const here = await merchant()
  const choices = [
    [{ merchant_id: here }, 202],
    [{ merchant_id: NOBODY }, 404],
    [{}, 202],
    [{ merchant_id: archived }, 422],
  ] as const
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, n) => createPayment(world.client, choices[n % 4]![0], ASYNC)),
  )
  expect(answers.map(({ status }) => status)).toEqual(answers.map((_, n) => choices[n % 4]![1]))
  await world.drain()
})

test('what was accepted goes on, and its key is replayed, although the merchant is archived since', async () => {
  const merchant_id = await merchant()
  const body = { ...BY_CARD, amount_minor: 1000, idempotency_key: freshKey(), merchant_id }
  const first = await world.client.post('/v1/payments', body)
  expect(first.status).toBe(201)
  await world.client.delete(`/v1/merchants/${merchant_id}`)
  const again = await world.client.post('/v1/payments', body)
  expect([again.status, again.body, again.headers.get('idempotent-replayed')]).toEqual([
    201,
    first.body,
    'true',
  ])
  const other = await world.client.post('/v1/payments', { ...body, merchant_id: null })
  expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused'])
  const captured = await world.client.post(`/v1/payments/${first.body.id}/capture`)
  expect(captured.body).toMatchObject({ status: 'captured', merchant_id })
})

test('payments are listed by merchant, alone and with other filters', async () => {
  const [one, two] = [await merchant(), await merchant()]
  const customer = await world.client.post('/v1/customers', { idempotency_key: freshKey() })
  const customer_id = customer.body.id as string
  const made = new Map<string, string>()
  for (const [name, body] of [
    ['a', { merchant_id: one }],
    ['b', { merchant_id: one, customer_id }],
    ['c', { merchant_id: two, customer_id }],
    ['d', { customer_id }],
    ['e', { merchant_id: one, currency: 'EUR' }],
  ] as const)
    made.set((await heldPayment(world.client, body)).id, name)
  const last = (await world.client.get(`/v1/payments?merchant_id=${one}&limit=1`)).body[0].created_at
  for (const [query, names] of [
    [`merchant_id=${one}`, 'eba'],
    [`merchant_id=${one.toUpperCase()}`, 'eba'],
    [`merchant_id=${two}`, 'c'],
    [`merchant_id=${one}&customer_id=${customer_id}`, 'b'],
    [`merchant_id=${one}&status=authorized&currency=eur`, 'e'],
    [`merchant_id=${one}&status=captured`, ''],
    [`merchant_id=${one}&created_to=${last}`, 'ba'],
    [`merchant_id=${NOBODY}`, ''],
  ]) {
    const { body } = await world.client.get(`/v1/payments?${query}`)
    expect([query, body.map(({ id }: { id: string }) => made.get(id)).join('')]).toEqual([query, names])
  }
  expect((await (await world.clientOf()).get(`/v1/payments?merchant_id=${one}`)).body).toEqual([])
  const refused = await world.client.get('/v1/payments?merchant_id=engines')
  expect([refused.status, refused.body.error.param]).toEqual([400, 'merchant_id'])
})

test('the audit finds a payment whose merchant is not there', async () => {
  const held = await heldPayment(world.client, { merchant_id: await merchant() })
  const problems = async () =>
    (await auditEverything(world.sql)).problems.filter(({ subject_id }) => subject_id === held.id)
  expect(await problems()).toEqual([])
  const theirs = await merchant(await world.clientOf())
  await world.sql`update payments set merchant_id = ${theirs} where tenant_id = ${world.tenant_id} and id = ${held.id}`
  expect(await problems()).toMatchObject([{ check: 'payments', problem: 'its merchant is not there' }])
  await world.sql`update payments set merchant_id = null where tenant_id = ${world.tenant_id} and id = ${held.id}`
  expect(await problems()).toEqual([])
})

test('customers show how their verification stands', async () => {
  const { body } = await world.client.post('/v1/customers', { idempotency_key: freshKey() })
  expect(body.kyc_status).toBe('none')
  await world.sql`update customers set kyc_status = 'approved' where tenant_id = ${world.tenant_id} and id = ${body.id}`
  expect((await world.client.get(`/v1/customers/${body.id}`)).body.kyc_status).toBe('approved')
  const deleted = await world.client.delete(`/v1/customers/${body.id}`)
  expect(deleted.body.kyc_status).toBe('approved')
  const refused = await world.client.patch(`/v1/customers/${body.id}`, { kyc_status: 'approved' })
  expect([refused.status, refused.body.error.param]).toEqual([400, 'kyc_status'])
})

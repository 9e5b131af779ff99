// Tests derived ids: what a request with an idempotency key creates is the same after the database has lost it.
import { expect, test as anyTest } from 'vitest'
import { idsOfRequest } from '#core/ids.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { BY_CARD, freshKey, type Client } from '#test/client.ts'
import { readDocument, routesOf } from '#test/documentation.ts'
import { MERCHANT, RECIPIENT } from '#test/parties.ts'
import { capturedPayment, effectsOf, eventually } from '#test/payments.ts'
import { fund, recipient } from '#test/payouts.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

const test = testIn()

const WAIT = { prefer: 'wait=20' }

const TENANT = '0198f6f0-0000-7000-8000-000000000001'

anyTest.for([
  [
    'POST /v1/payments',
    'order-17',
    '5c25345b-74f9-8f67-b2e1-5545b05c7e91',
    '9e11c39b-0b1c-889e-bdba-e21364876210',
  ],
  [
    'POST /v1/payments/0198f6f0-1234-7000-8000-123456789abc/refunds',
    'Rückgabe "17"',
    '26c6d8c8-5476-8d1f-977f-cf2009fa244a',
    '2509e0ee-00e7-8c6b-8888-6010ed19146a',
  ],
  [
    'POST /v1/messages/email',
    'order-17',
    '55328a01-f66e-8ad8-9a37-3489efac0a6f',
    'd900111d-37a2-8ef0-a82b-0c9b244df797',
  ],
] as const)('the ids of %s with the key %s never change', ([path, key, id, job_id]) => {
  expect(idsOfRequest({ tenant_id: TENANT, path, key })).toMatchObject({ id, job_id })
})

anyTest('the ids of requests without a key differ', () => {
  const request = { tenant_id: TENANT, path: 'POST /v1/messages/suppressions', key: null }
  const ids = [idsOfRequest(request), idsOfRequest(request)].flatMap((each) => Object.values(each))
  expect(new Set(ids).size).toBe(6)
})

test('the id of everything that a request with a key creates follows from the tenant, the path and the key', async ({
  world,
}) => {
  const { client, sql, tenant_id } = world
  const paths: string[] = []
  const create = async (path: string, body: object, documented = path) => {
    const key = freshKey()
    const answer = await client.post(path, { ...body, idempotency_key: key })
    const ids = idsOfRequest({ tenant_id, path: `POST ${path}`, key })
    expect([path, answer.status, answer.body]).toMatchObject([path, expect.any(Number), { id: ids.id }])
    paths.push(documented)
    const stored = await sql<{ job_id: string | null }[]>`
      select job_id from idempotency_keys where tenant_id = ${tenant_id} and key = ${key}`
    expect([null, ids.job_id]).toContain(stored.at(0)?.job_id ?? null)
    return ids.id
  }
  const customer_id = await create('/v1/customers', {})
  await create('/v1/recipients', RECIPIENT)
  await create('/v1/merchants', MERCHANT)
  await create('/v1/payments', { ...BY_CARD, amount_minor: 1000 })
  const payment = await capturedPayment(client)
  await create(`/v1/payments/${payment.id}/refunds`, { amount_minor: 1 }, '/v1/payments/{id}/refunds')
  await create('/v1/payouts', { amount_minor: 1, currency: 'usd', recipient_id: await recipient(client) })
  await create('/v1/wallet/top_ups', { amount_minor: 1000, currency: 'usd' })
  await create('/v1/compliance/kyc', { subject_type: 'customer', subject_id: customer_id })
  await create('/v1/ai/tasks', { kind: 'generate', input: { prompt: 'A haiku.' } })
  await create('/v1/messages/templates', { name: 'greeting', channel: 'sms', body: 'Hello' })
  await create('/v1/messages/suppressions', { channel: 'email', address: 'grace@example.com' })
  const email = { to: ['ada@example.com'], subject: 'Shipped', text: 'It is on its way.' }
  await create('/v1/messages/email', email)
  await create('/v1/messages/sms', { to: '+14155552671', body: 'Shipped' })
  const endpoint_id = await create('/v1/webhook_endpoints', {
    url: 'https://shop.example/webhooks',
    types: ['payout.canceled'],
  })
  const endpoint = `/v1/webhook_endpoints/${endpoint_id}`
  await create(`${endpoint}/recover`, { since: '2026-01-01T00:00:00Z' }, '/v1/webhook_endpoints/{id}/recover')

  const document = await readDocument(client)
  const creating = routesOf(document).filter(
    ({ method, operation }) =>
      method === 'POST' &&
      (operation.responses[201] !== undefined || operation.operationId.startsWith('create')),
  )
  const without_key = creating.map(({ path }) => path).filter((path) => !paths.includes(path))
  expect(without_key).toEqual([])

  // An item of a batch has the id of a request for this item alone.
  const key = freshKey()
  const batch = await client.post('/v1/messages/email/batch', {
    messages: [{ ...email, idempotency_key: key }],
  })
  expect(batch.body[0].message.id).toBe(idsOfRequest({ tenant_id, path: 'POST /v1/messages/email', key }).id)
  const other = await world.clientOf()
  const of_other = await other.post('/v1/messages/email', { ...email, idempotency_key: key })
  expect(of_other.body.id).not.toBe(batch.body[0].message.id)
})

test('the job of a capture follows from its key, and so does the key of its provider call', async ({
  world: { client, sql, tenant_id },
}) => {
  const key = freshKey()
  const payment = (
    await client.post('/v1/payments', { ...BY_CARD, amount_minor: 1000, idempotency_key: freshKey() })
  ).body
  const path = `/v1/payments/${payment.id}/capture`
  await client.post(path, { idempotency_key: key })
  const { job_id } = idsOfRequest({ tenant_id, path: `POST ${path}`, key })
  const [call] = await sql`select job_id, key from all_provider_calls where job_id = ${job_id}`
  expect(call).toEqual({ job_id, key: `${job_id}:1` })
})

test.describe('after the database has lost everything but the tenant', () => {
  /** A system with another database, with the same tenant, installation, secrets and processor. */
  async function createSuccessor({ env, sql, tenant_id, provider }: World): Promise<World> {
    const shared = ['STRIPE_API_BASE', 'STRIPE_SECRET_KEY', 'ENCRYPTION_KEY', 'ADDRESS_KEY']
    const successor = await createWorld({
      parts: ['api', 'worker'],
      notifications: false,
      env: Object.fromEntries(shared.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]]))),
    })
    const [installation] = await sql<{ id: string }[]>`select id from installation`
    await successor.sql.begin(async (tx) => {
      await tx`alter table installation disable trigger all`
      await tx`update installation set id = ${installation!.id}`
      await tx`insert into tenants (id, slug, name) values (${tenant_id}, 'successor', 'Successor')`
    })
    const client = await successor.clientOf({ tenant: 'successor' })
    return { ...successor, client, tenant_id, provider }
  }

  test('a repeated request is the same request to the processor', async ({ world }) => {
    const successor = await createSuccessor(world)
    const repeat = async (path: string, body: object) => {
      const keyed = { ...body, idempotency_key: freshKey() }
      const send = async (client: Client) => (await client.post(path, keyed, { prefer: 'wait=20' })).body
      const [first, again] = [await send(world.client), await send(successor.client)]
      const { id, status, processor_reference } = first
      expect(processor_reference).not.toBeNull()
      expect(again).toMatchObject({ id, status, processor_reference })
      return first
    }
    try {
      const payment = await repeat('/v1/payments', { ...BY_CARD, amount_minor: 1000 })
      expect((await effectsOf(world, payment.processor_reference)).map(({ effect }) => effect)).toEqual([
        'authorize',
      ])
      await repeat(`/v1/payments/${payment.id}/capture`, {})
      await repeat(`/v1/payments/${payment.id}/refunds`, { amount_minor: 300 })
      expect((await effectsOf(world, payment.processor_reference)).map(({ effect }) => effect)).toEqual([
        'authorize',
        'capture',
        'refund',
      ])
      await repeat('/v1/wallet/top_ups', { amount_minor: 700, currency: 'usd' })
    } finally {
      await successor.close()
    }
  })

  test('a key that is used again with other content is refused, and its row takes what the processor has', async ({
    world,
  }) => {
    const successor = await createSuccessor(world)
    try {
      const funded = await recipients(world)
      const again = await recipients(successor)
      const capture_key = { idempotency_key: freshKey() }
      const keyed = { ...BY_CARD, amount_minor: 9000, ...capture_key }
      const { id: payment_id } = (await world.client.post('/v1/payments', keyed, WAIT)).body
      await successor.client.post('/v1/payments', keyed, WAIT)
      for (const { client } of [world, successor])
        expect((await client.post(`/v1/payments/${payment_id}/capture`, capture_key, WAIT)).status).toBe(200)
      const top_up = { amount_minor: 700, currency: 'usd', source: 'src_manual', description: 'Float' }
      const payout = { amount_minor: 500, currency: 'usd', recipient_id: funded.bank }
      const requests: [path: string, read: string, first: object, other: object][] = [
        ['/v1/payments', '/v1/payments', { ...BY_CARD, amount_minor: 1000 }, { amount_minor: 2000 }],
        ['/v1/wallet/top_ups', '/v1/wallet/top_ups', top_up, { amount_minor: 800, description: 'Other' }],
        ['/v1/payouts', '/v1/payouts', payout, { amount_minor: 600, recipient_id: again.card }],
        [`/v1/payments/${payment_id}/refunds`, '/v1/refunds', { amount_minor: 300 }, { amount_minor: 200 }],
        // Only the metadata differs.
        [`/v1/payments/${payment_id}/refunds`, '/v1/refunds', { amount_minor: 1 }, { metadata: { a: 'b' } }],
      ]
      for (const [path, read, fields, other_fields] of requests) {
        const first = { ...fields, idempotency_key: freshKey() }
        const other = { ...first, ...other_fields }
        const paid = await world.client.post(path, first, WAIT)
        const { id, amount_minor, status, processor_reference } = paid.body
        for (let nth = 0; nth < 2; nth++) {
          const refused = await successor.client.post(path, other, WAIT)
          expect([path, refused.status, refused.body.error]).toMatchObject([
            path,
            422,
            { code: 'idempotency_key_reused', context: { resource_id: id } },
          ])
        }
        const row = (await successor.client.get(`${read}/${id}`)).body
        const now = expect.stringMatching(new RegExp(`^(${status}|paid)$`))
        expect([path, row]).toMatchObject([path, { amount_minor, status: now, processor_reference }])
        const replayed = await successor.client.post(path, first, WAIT)
        const is_replay = replayed.headers.get('idempotent-replayed')
        expect([path, is_replay, replayed.body.id]).toEqual([path, 'true', id])
        const [events] = await successor.sql`
          select count(*)::integer as count from events
            where ${id} in (subject_id::text, data ->> 'id') and type like '%.recovered'`
        expect([path, events!.count]).toEqual([path, 1])
      }
      expect((await auditEverything(successor.sql)).problems).toEqual([])
    } finally {
      await successor.close()
    }
  })

  test('a repeated request whose object is not found has no second effect, however long its job is looked up', async ({
    world,
  }) => {
    const successor = await createSuccessor(world)
    try {
      // The object of another installation is not ours.
      await successor.sql`update installation set id = gen_random_uuid()`
      const path = '/v1/wallet/top_ups'
      const body = { amount_minor: 700, currency: 'usd', idempotency_key: freshKey() }
      const { id, processor_reference } = (await world.client.post(path, body, WAIT)).body
      expect(processor_reference).not.toBeNull()
      const repeated = await successor.client.post(path, { ...body, amount_minor: 800 }, WAIT)
      expect([repeated.status, repeated.body.error]).toMatchObject([
        422,
        { code: 'idempotency_key_reused', context: { resource_id: id } },
      ])
      for (const age of ['0 s', '11 minutes', '25 hours']) {
        // Later, an operator retries the job.
        await successor.sql`
          update jobs set run_at = now(), created_at = created_at - ${age}::interval,
            first_sent_at = first_sent_at - ${age}::interval, last_sent_at = last_sent_at - ${age}::interval
          where resource_id = ${id} and run_at = 'infinity'`
        await eventually(async () => {
          const [job] = await successor.sql`
            select generation, last_error ->> 'code' as code, run_at = 'infinity' as is_parked
            from jobs where resource_id = ${id}`
          expect([age, { ...job }]).toEqual([age, { generation: 1, code: 'key_conflict', is_parked: true }])
        })
      }
    } finally {
      await successor.close()
    }
  })

  /** A bank account and a card that are paid out to, with a balance that suffices. */
  async function recipients({ client }: World): Promise<{ bank: string; card: string }> {
    await fund(client, 10_000)
    return { bank: await recipient(client, 'ba_success'), card: await recipient(client, 'card_success') }
  }
})

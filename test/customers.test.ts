// Tests the customers of the API: creation, lookup, change and erasure.
import { expect, onTestFinished } from 'vitest'
import { createLog } from '#core/log.ts'
import { freshKey } from '#test/client.ts'
import { eventually } from '#test/payments.ts'
import { until } from '#test/process.ts'
import { urlAs } from '#test/users.ts'
import { testIn, type World } from '#test/world.ts'
import { startWorker } from '#workers/main.ts'

const test = testIn({ parts: ['api'] })

async function createCustomer(world: World, fields: Record<string, unknown> = {}): Promise<any> {
  const response = await world.client.post('/v1/customers', { idempotency_key: freshKey(), ...fields })
  expect(response.status).toBe(201)
  return response.body
}

test('a created customer is returned with every documented field', async ({ world }) => {
  const fields = {
    idempotency_key: freshKey(),
    name: 'Ada Lovelace',
    email: 'ada@example.com',
    phone: '+44 20 7946 0000',
    external_id: 'crm-17',
    metadata: { plan: 'gold' },
  }
  const response = await world.client.post('/v1/customers', fields)
  expect(response.status).toBe(201)
  expect(response.headers.get('content-type')).toMatch(/^application\/json/)
  expect(response.body).toEqual({
    ...fields,
    id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
    tenant_id: world.tenant_id,
    livemode: true,
    kyc_status: 'none',
    created_at: expect.any(String),
    updated_at: expect.any(String),
    deleted_at: null,
  })
  expect((await world.client.get(`/v1/customers/${response.body.id}`)).body).toEqual(response.body)
  expect((await world.client.get('/v1/customers')).body).toContainEqual(response.body)
})

test('only the idempotency key is required; other fields may be null or absent', async ({ world }) => {
  const empty = { name: null, email: null, phone: null, external_id: null, metadata: {} }
  expect(await createCustomer(world)).toMatchObject(empty)
  expect(
    await createCustomer(world, { name: null, email: null, phone: null, external_id: null }),
  ).toMatchObject(empty)
})

test('metadata is any JSON value and is returned as sent', async ({ world }) => {
  for (const metadata of [
    null,
    true,
    0,
    -1.5,
    1e-7,
    9007199254740991,
    '',
    'text',
    'Ünïcödé \u{1f469}\u200d\u{1f680} \u202e \u2028 \\u0000 "quoted"',
    [],
    [1, [2, [null]], {}],
    { constructor: { prototype: {} }, toString: 1, '': '', 'a.b': { $ref: '#' } },
    { ключ: ['значение'], nested: { deep: { deeper: [false, { x: null }] } } },
  ]) {
    const customer = await createCustomer(world, { metadata })
    expect(customer.metadata).toEqual(metadata)
    expect((await world.client.get(`/v1/customers/${customer.id}`)).body.metadata).toEqual(metadata)
  }
})

test('the length limits of texts count characters in any script', async ({ world }) => {
  const fields = {
    idempotency_key: `${freshKey()}-${'k'.repeat(255)}`.slice(0, 255),
    name: '名'.repeat(256),
    email: `${'e'.repeat(308)}@example.com`,
    phone: '5'.repeat(32),
    external_id: 'x'.repeat(255),
    metadata: 'm'.repeat(16 * 1024 - 2),
  }
  expect(await createCustomer(world, fields)).toMatchObject(fields)
  for (const [field, value] of Object.entries(fields)) {
    const refused = await world.client.post('/v1/customers', {
      idempotency_key: freshKey(),
      [field]: `${value}z`,
    })
    expect([field, refused.status, refused.body.error.param]).toEqual([field, 400, field])
  }
})

test('the response to the id of a missing customer is not_found', async ({ world }) => {
  const missing_id = '0198f6f0-0000-7000-8000-000000000000'
  for (const response of [
    await world.client.get(`/v1/customers/${missing_id}`),
    await world.client.patch(`/v1/customers/${missing_id}`, { name: 'x' }),
    await world.client.delete(`/v1/customers/${missing_id}`),
  ]) {
    expect(response.status).toBe(404)
    expect(response.body.error).toMatchObject({ code: 'customer_not_found', message: 'Customer not found.' })
  }
  const malformed = await world.client.get('/v1/customers/17')
  expect([malformed.status, malformed.body.error.param]).toEqual([400, 'id'])
})

test('a change sets the given fields, and null empties a field', async ({ world }) => {
  const before = await createCustomer(world, { name: 'Ada', email: 'ada@example.com', metadata: { a: 1 } })
  const changed = await world.client.patch(`/v1/customers/${before.id}`, {
    name: 'Ada L.',
    email: null,
    metadata: [2],
  })
  expect(changed.status).toBe(200)
  expect(changed.body).toEqual({
    ...before,
    name: 'Ada L.',
    email: null,
    metadata: [2],
    updated_at: expect.any(String),
  })
  expect(changed.body.updated_at > before.updated_at).toBe(true)
  const nulled = await world.client.patch(`/v1/customers/${before.id}`, { metadata: null })
  expect(nulled.body.metadata).toBeNull()
  for (const field of [
    'id',
    'tenant_id',
    'kyc_status',
    'created_at',
    'deleted_at',
    'idempotency_key',
    'nope',
  ]) {
    const refused = await world.client.patch(`/v1/customers/${before.id}`, { [field]: before.id })
    expect([field, refused.status, refused.body.error.param]).toEqual([field, 400, field])
  }
})

test('a change without new values changes nothing and creates no event', async ({ world }) => {
  const fields = { name: 'Ada', phone: null, metadata: { a: [1, null], b: 2 } }
  const before = await createCustomer(world, fields)
  for (const body of [undefined, {}, fields, { email: null }]) {
    const { status, body: after } = await world.client.patch(`/v1/customers/${before.id}`, body)
    expect([status, after]).toEqual([200, before])
  }
  const eventsOf = async () =>
    await world.sql`select type from events where subject_id = ${before.id} order by id`
  expect(await eventsOf()).toEqual([{ type: 'customer.created' }])
  await world.client.patch(`/v1/customers/${before.id}`, { metadata: { a: [1, null] } })
  expect(await eventsOf()).toEqual([{ type: 'customer.created' }, { type: 'customer.updated' }])
  const deleted = await createCustomer(world)
  await world.client.delete(`/v1/customers/${deleted.id}`)
  expect((await world.client.patch(`/v1/customers/${deleted.id}`, {})).status).toBe(404)
})

test('concurrent changes of different fields of a customer are all kept', async ({ world }) => {
  const { id } = await createCustomer(world)
  const fields = { name: 'n', email: 'e@example.com', phone: 'p', external_id: 'x' }
  await Promise.all(
    Array.from({ length: 40 }, (_, i) => {
      const [field, value] = Object.entries(fields)[i % 4]!
      return world.client.patch(`/v1/customers/${id}`, { [field]: value })
    }),
  )
  expect((await world.client.get(`/v1/customers/${id}`)).body).toMatchObject(fields)
})

test('a deletion erases the personal data of a customer and keeps the id for the ledger', async ({
  world,
}) => {
  const personal = {
    name: 'Secret Name',
    email: 'secret@example.com',
    phone: '555-secret',
    metadata: { note: 'secret' },
  }
  const before = await createCustomer(world, { ...personal, external_id: 'kept' })
  await world.client.patch(`/v1/customers/${before.id}`, { name: 'Secret Change' })
  const deleted = await world.client.delete(`/v1/customers/${before.id}`)
  expect(deleted.status).toBe(200)
  expect(deleted.body).toEqual({
    ...before,
    name: null,
    email: null,
    phone: null,
    metadata: {},
    updated_at: expect.any(String),
    deleted_at: expect.stringMatching(/\.\d{6}Z$/),
  })
  expect((await world.client.get(`/v1/customers/${before.id}`)).body).toEqual(deleted.body)

  const ids = async (query: string) =>
    (await world.client.get(`/v1/customers?limit=100${query}`)).body.map(({ id }: { id: string }) => id)
  expect(await ids('')).not.toContain(before.id)
  expect(await ids('&deleted=false')).not.toContain(before.id)
  expect(await ids('&deleted=true')).toContain(before.id)
  expect(await ids('&email=secret@example.com&deleted=true')).toEqual([])
})

test('a deletion erases personal data from 12,000 events of the customer', async ({ world }) => {
  const { id } = await createCustomer(world, { name: 'Secret Name' })
  await world.sql`
    insert into events (tenant_id, type, subject_id, data, created_at)
    select ${world.tenant_id}, 'customer.updated', ${id}, '{"id": "kept", "name": "Secret", "metadata": {"note": "secret"}}',
      now() - n % 7 * interval '1 second'
    from generate_series(1, 12000) n`
  const eventData = async () =>
    (
      await world.sql<{ data: string }[]>`
        select data::text from events where tenant_id = ${world.tenant_id} and subject_id = ${id}`
    ).map(({ data }) => data)
  // The deletion does not wait for events that another transaction has locked.
  await world.sql.begin(async (tx) => {
    await tx`select from events where tenant_id = ${world.tenant_id} and subject_id = ${id} for update`
    expect((await world.client.delete(`/v1/customers/${id}`)).body).toMatchObject({ name: null })
  })

  const config = { ...world.config, DATABASE_URL: urlAs('worker', world.config.DATABASE_URL!) }
  const worker = await startWorker(config, createLog('silent', 'test'))
  onTestFinished(() => worker.close())
  await eventually(async () => expect((await eventData()).join()).not.toMatch(/secret/i))
  expect((await eventData()).filter((data) => data.includes('kept'))).toHaveLength(12_000)
  await eventually(async () => expect(await world.sql`select from erasures`).toHaveLength(0))
})

test('concurrent deletions of one customer use one connection', async ({ world }) => {
  const { id } = await createCustomer(world)
  let responses: Promise<any[]> | undefined
  await world.sql.begin(async (tx) => {
    await tx`select from customers where tenant_id = ${world.tenant_id} and id = ${id} for update`
    responses = Promise.all(Array.from({ length: 20 }, () => world.client.delete(`/v1/customers/${id}`)))
    const waiting = () =>
      world.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    await until('one deletion waits', async () => (await waiting()).length > 0)
    for (let n = 0; n < 5; n++) expect((await world.client.get(`/v1/customers/${id}`)).status).toBe(200)
    expect(await waiting()).toHaveLength(1)
  })
  expect(new Set((await responses!).map(({ status, text }) => `${status} ${text}`)).size).toBe(1)
})

test('repeated deletions have the same response, and a deleted customer does not change', async ({
  world,
}) => {
  const { id } = await createCustomer(world, { name: 'Ada' })
  const responses = await Promise.all(
    Array.from({ length: 10 }, () => world.client.delete(`/v1/customers/${id}`)),
  )
  expect(new Set(responses.map(({ status, text }) => `${status} ${text}`)).size).toBe(1)
  expect((await world.client.delete(`/v1/customers/${id}`)).body).toEqual(responses[0]!.body)
  const changed = await world.client.patch(`/v1/customers/${id}`, { name: 'Back' })
  expect(changed.body.error.code).toBe('customer_not_found')
  const events = await world.sql`
    select from events where tenant_id = ${world.tenant_id} and subject_id = ${id} and type = 'customer.deleted'`
  expect(events).toHaveLength(1)
})

test('a payment accepts an existing customer and refuses a deleted or unknown customer', async ({
  world,
}) => {
  const payment = { amount_minor: 1000, currency: 'USD', method: 'card', payment_method: 'pm_card_visa' }
  const { id } = await createCustomer(world)
  const ASYNC = { prefer: 'respond-async' }
  const accepted = await world.client.post(
    '/v1/payments',
    { ...payment, customer_id: id, idempotency_key: freshKey() },
    ASYNC,
  )
  expect([accepted.status, accepted.body.customer_id]).toEqual([202, id])
  await world.client.delete(`/v1/customers/${id}`)
  for (const customer_id of [id, '0198f6f0-0000-7000-8000-000000000000']) {
    const refused = await world.client.post(
      '/v1/payments',
      { ...payment, customer_id, idempotency_key: freshKey() },
      ASYNC,
    )
    expect(refused.status).toBe(404)
    expect(refused.body.error).toMatchObject({ code: 'customer_not_found', param: 'customer_id' })
  }
})

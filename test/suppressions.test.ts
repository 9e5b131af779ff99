// Suppressions: one per address in any spelling, with lists, idempotency keys and scopes, and never stored in
// plaintext.
import { expect } from 'vitest'
import { freshKey } from '#test/client.ts'
import { readAllRows } from '#test/databases.ts'
import { testIn, type World } from '#test/world.ts'

const PATH = '/v1/messages/suppressions'

const test = testIn({ parts: ['api'] })

let addresses = 0
/** An address that no other row contains. */
const freshAddress = () => `witness-${(addresses += 1)}@example.com`
const suppress = (world: World, address: string, fields: object = {}) =>
  world.client.post(PATH, { channel: 'email', address, ...fields })
const eventsOf = async (world: World, id: string) =>
  await world.sql<{ type: string; data: object }[]>`
    select type, data from events where tenant_id = ${world.tenant_id} and subject_id = ${id} order by id`

test('an address is suppressed once, is shown in the spelling of the first request, and can be released', async ({
  world,
}) => {
  const { client } = world
  const address = freshAddress()
  const created = await suppress(world, address, { metadata: { a: 1 } })
  expect([created.status, created.body]).toMatchObject([
    201,
    {
      channel: 'email',
      address,
      reason: 'manual',
      message_id: null,
      idempotency_key: null,
      metadata: { a: 1 },
    },
  ])
  const replay = await suppress(world, address.toUpperCase(), { metadata: { a: 2 } })
  expect([replay.status, replay.body]).toEqual([200, created.body])
  const path = `${PATH}/${created.body.id}`
  expect((await client.get(path)).body).toEqual(created.body)
  const deleted = await client.delete(path)
  expect([deleted.status, deleted.body.id, deleted.body.address]).toEqual([200, created.body.id, address])
  for (const missing of [await client.get(path), await client.delete(path)])
    expect([missing.status, missing.body.error.code]).toEqual([404, 'suppression_not_found'])
  expect((await client.get(`${PATH}?address=${address}`)).body).toEqual([])
  const second = await suppress(world, address)
  expect([second.status, second.body.id === created.body.id]).toEqual([201, false])
  const events = await eventsOf(world, created.body.id)
  expect(events.map(({ type }) => type)).toEqual(['suppression.created', 'suppression.deleted'])
})

test('a hundred concurrent requests create one suppression of an address', async ({ world }) => {
  const address = freshAddress()
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, nth) =>
      suppress(world, address, nth % 2 === 0 ? {} : { idempotency_key: freshKey() }),
    ),
  )
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
  expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([...Array(99).fill(200), 201])
  expect((await eventsOf(world, answers[0]!.body.id)).map(({ type }) => type)).toEqual([
    'suppression.created',
  ])
  expect((await world.client.get(`${PATH}?address=${address}`)).body).toHaveLength(1)
})

test('a repeated key returns the first response, even for an existing suppression, until the suppression is deleted', async ({
  world,
}) => {
  const address = freshAddress()
  const [first, second] = [freshKey(), freshKey()]
  const created = await suppress(world, address, { idempotency_key: first })
  const existing = await suppress(world, address, { idempotency_key: second })
  expect([created.status, existing.status, existing.body.id]).toEqual([201, 200, created.body.id])
  for (const [idempotency_key, status] of [
    [first, 201],
    [second, 200],
  ] as const) {
    const replay = await suppress(world, address, { idempotency_key })
    expect([replay.status, replay.headers.get('idempotent-replayed'), replay.body]).toEqual([
      status,
      'true',
      created.body,
    ])
  }
  const other = await suppress(world, freshAddress(), { idempotency_key: second })
  expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused'])
  await world.client.delete(`${PATH}/${created.body.id}`)
  const late = await suppress(world, address, { idempotency_key: second })
  expect([late.status, late.body.error.code]).toEqual([404, 'suppression_not_found'])
})

test('lists can be filtered by channel, address and reason, and have pages', async ({ world }) => {
  const client = await world.clientOf()
  const created: string[] = []
  for (const [channel, address] of [
    ['email', 'Ada@Example.com'],
    ['email', 'grace@example.com'],
    ['sms', '+14155552671'],
  ])
    created.unshift((await client.post(PATH, { channel, address })).body.id)
  const found = async (query: string) =>
    (await client.get(`${PATH}?${query}`)).body.map(({ id }: { id: string }) => created.indexOf(id))
  expect(await found('')).toEqual([0, 1, 2])
  expect(await found('channel=email')).toEqual([1, 2])
  expect(await found('address=ada@EXAMPLE.com')).toEqual([2])
  expect(await found(`address=${encodeURIComponent('+14155552671')}`)).toEqual([0])
  // The plus arrives as a space: the API refuses the invalid address instead of returning an empty list.
  expect((await client.get(`${PATH}?address=+14155552671`)).status).toBe(400)
  expect(await found(`channel=email&address=${encodeURIComponent('+14155552671')}`)).toEqual([])
  expect(await found('reason=manual&limit=2')).toEqual([0, 1])
  expect(await found('reason=opt_out')).toEqual([])
  const page = await client.get(`${PATH}?limit=2`)
  const next = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1]
  expect((await client.get(next!)).body.map(({ id }: { id: string }) => id)).toEqual([created[2]])
  for (const query of ['channel=fax', 'reason=no', `address=${'x'.repeat(321)}`])
    expect((await client.get(`${PATH}?${query}`)).status).toBe(400)
})

test('the suppression of an invalid address or number is refused', async ({ world }) => {
  for (const [channel, address] of [
    ['email', 'Ada <ada@example.com>'],
    ['email', '<ada@example.com>'],
    ['email', 'ada@example.com,eve@example.com'],
    ['email', 'ada'],
    ['email', 'ada@example.com\r\nBcc: eve@example.com'],
    ['email', `${'a'.repeat(320)}@example.com`],
    ['email', '+14155552671'],
    ['sms', 'ada@example.com'],
    ['sms', '4155552671'],
    ['sms', '+0155552671'],
    ['sms', '+1 415 555 2671'],
    ['sms', '+1234567890123456'],
    ['sms', undefined],
  ]) {
    const { status, body } = await world.client.post(PATH, { channel, address })
    expect([address, status, body.error?.param]).toEqual([address, 400, 'address'])
  }
})

test('no table contains a suppressed address in plaintext, even after the suppression is deleted', async ({
  world,
}) => {
  const address = freshAddress()
  const { id } = (await suppress(world, address)).body
  expect((await readAllRows(world.sql)).toLowerCase()).not.toContain(address.split('@')[0])
  await world.client.delete(`${PATH}/${id}`)
  expect((await readAllRows(world.sql)).toLowerCase()).not.toContain(address.split('@')[0])
})

test('a suppression belongs to one tenant, and needs the scopes of messages', async ({ world }) => {
  const address = freshAddress()
  const { id } = (await suppress(world, address)).body
  const other = await world.clientOf()
  expect((await other.get(`${PATH}/${id}`)).status).toBe(404)
  expect((await other.delete(`${PATH}/${id}`)).status).toBe(404)
  expect((await other.get(`${PATH}?address=${address}`)).body).toEqual([])
  expect((await other.post(PATH, { channel: 'email', address })).status).toBe(201)
  const reader = await world.clientOf({ tenant: 'acme', scopes: ['messaging:read'] })
  expect((await reader.get(`${PATH}/${id}`)).status).toBe(200)
  expect((await reader.delete(`${PATH}/${id}`)).body.error.code).toBe('missing_scope')
})

// An event is delivered to the endpoints that subscribe to the event when it happens, whatever changes later and
// whenever the event gets its sequence.
import { expect } from 'vitest'
import { newId } from '#core/ids.ts'
import type { Tx } from '#core/db.ts'
import { FIRST_BACKLOG, claimDeliveries } from '#domain/deliveries/claim.ts'
import { createEvent, LOOPBACK, registerEndpoint } from '#test/deliveries.ts'
import type { Client } from '#test/client.ts'
import { sequenceAllEvents } from '#test/feed.ts'
import { testIn, type World } from '#test/world.ts'

let client: Client & { tenant_id: string }
/** Without a worker, events have no sequence until a test assigns their sequences. */
const test = testIn({ parts: ['api'], env: LOOPBACK })

const URL = 'http://127.0.0.1:9/hook'
const pathOf = ({ id }: { id: string }) => `/v1/webhook_endpoints/${id}`

/** An endpoint of a new tenant that subscribes to customer events. All earlier events have their sequence. */
async function createSubscribed(world: World, fields: object = {}): Promise<{ id: string }> {
  client = await world.clientOf()
  const endpoint = await registerEndpoint(client, { url: URL, types: ['customer.*'], ...fields })
  await sequenceAllEvents(world.sql)
  return endpoint
}

/** The event types of the deliveries to an endpoint, each with its status, in order. */
async function deliveredTo(world: World, { id }: { id: string }): Promise<string[]> {
  await sequenceAllEvents(world.sql)
  const rows = await world.sql<{ type: string; status: string }[]>`
    select type, status from webhook_deliveries where endpoint_id = ${id} order by sequence`
  return rows.map(({ type, status }) => `${type} ${status}`)
}

/** Claims the due deliveries of all backlogs like a worker. Deliveries of disabled endpoints are skipped. */
async function claimAll(world: World): Promise<void> {
  const options = { worker: 'test', room: 100, share: undefined, proven: () => true, last_at: () => null }
  const unproven = { window: 10, room: 100, room_for_more: 100 }
  await claimDeliveries(world.sql, { after: FIRST_BACKLOG }, { ...options, unproven })
}

test('an endpoint gets no events from before its creation', async ({ world }) => {
  client = await world.clientOf()
  await createEvent(client)
  const endpoint = await registerEndpoint(client, { url: URL })
  await createEvent(client)
  expect(await deliveredTo(world, endpoint)).toEqual([
    'webhook_endpoint.created pending',
    'customer.created pending',
  ])
})

test('adding or removing a type affects only later events', async ({ world }) => {
  const endpoint = await createSubscribed(world, { types: ['customer.created'] })
  const id = await createEvent(client)
  await client.patch(`/v1/customers/${id}`, { name: 'Grace' })
  await client.patch(pathOf(endpoint), { types: ['customer.updated'] })
  await createEvent(client)
  await client.patch(`/v1/customers/${id}`, { name: 'Ada' })
  expect(await deliveredTo(world, endpoint)).toEqual(['customer.created pending', 'customer.updated pending'])
})

test('an event that happens while an endpoint is disabled is skipped, even if the endpoint is enabled before the event gets its sequence', async ({
  world,
}) => {
  const endpoint = await createSubscribed(world)
  await client.patch(pathOf(endpoint), { status: 'disabled' })
  await createEvent(client)
  await client.patch(pathOf(endpoint), { status: 'enabled' })
  await createEvent(client)
  expect(await deliveredTo(world, endpoint)).toEqual(['customer.created skipped', 'customer.created pending'])
})

test('an event that waits when an endpoint is disabled is not sent, even if the event gets its sequence after the endpoint is enabled', async ({
  world,
}) => {
  const endpoint = await createSubscribed(world)
  await createEvent(client)
  await client.patch(pathOf(endpoint), { status: 'disabled' })
  await client.patch(pathOf(endpoint), { status: 'enabled' })
  await createEvent(client)
  expect(await deliveredTo(world, endpoint)).toEqual(['customer.created pending', 'customer.created pending'])
  await claimAll(world)
  expect(await deliveredTo(world, endpoint)).toEqual(['customer.created skipped', 'customer.created pending'])
})

test('a deleted endpoint receives nothing, and its deliveries of earlier events are skipped', async ({
  world,
}) => {
  const endpoint = await createSubscribed(world)
  await createEvent(client)
  await client.delete(pathOf(endpoint))
  await createEvent(client)
  expect(await deliveredTo(world, endpoint)).toEqual(['customer.created pending'])
  await claimAll(world)
  expect(await deliveredTo(world, endpoint)).toEqual(['customer.created skipped'])
})

test('the time of an event is the time of its insertion, not of its transaction', async ({ world }) => {
  client = await world.clientOf()
  const write = async (tx: Tx, type: string) =>
    await tx`
      insert into events (tenant_id, id, type, subject_id, data)
      values (${client.tenant_id}, ${newId()}, ${type}, ${newId()}, '{}')`
  const endpoint = await world.sql.begin(async (tx) => {
    await write(tx, 'customer.created')
    const created = await registerEndpoint(client, { url: URL, types: ['customer.*'] })
    await write(tx, 'customer.updated')
    return created
  })
  expect(await deliveredTo(world, endpoint)).toEqual(['customer.updated pending'])
})

test('a new endpoint gets later events, even if it reuses the slot of a deleted endpoint or the clock is set back', async ({
  world,
}) => {
  const deleted = await createSubscribed(world)
  await createEvent(client)
  await client.delete(pathOf(deleted))
  const next = await registerEndpoint(client, { url: URL, types: ['customer.*'] })
  await createEvent(client)
  expect(await deliveredTo(world, deleted)).toEqual(['customer.created pending'])
  expect(await deliveredTo(world, next)).toEqual(['customer.created pending'])
  await client.delete(pathOf(next))
  await world.sql`
    update webhook_subscriptions set from_at = now() + interval '1 hour', until_at = now() + interval '1 hour'
    where endpoint_id = ${next.id}`
  const last = await registerEndpoint(client, { url: URL, types: ['customer.*'] })
  await createEvent(client)
  await world.sql`
    update event_outbox set created_at = now() + interval '2 hours' where tenant_id = ${client.tenant_id}`
  expect(await deliveredTo(world, last)).toEqual(['customer.created pending'])
})

test('an event needs one search for each endpoint, even after many changes of the endpoints', async ({
  world,
}) => {
  const { sql } = world
  const endpoints = [await createSubscribed(world)]
  for (let more = 0; more < 3; more++)
    endpoints.push(await registerEndpoint(client, { url: URL, types: ['customer.*'] }))
  await sequenceAllEvents(sql)
  await createEvent(client)
  // Many later subscriptions, so that the number of read rows would show a scan.
  await sql`
    insert into webhook_subscriptions (tenant_id, endpoint_id, slot, types, status, from_at, until_at)
    select s.tenant_id, s.endpoint_id, s.slot, '{*}', 'enabled', now() + i * interval '1 s', now() + (i + 1) * interval '1 s'
    from webhook_subscriptions s cross join generate_series(1, 2000) i
    where s.tenant_id = ${client.tenant_id} and s.until_at = 'infinity'`
  const read = async () => {
    await sql`select pg_stat_force_next_flush()`
    const [row] = await sql<{ rows: number }[]>`
      select (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as rows from pg_stat_user_tables
      where relname = 'webhook_subscriptions'`
    return row!.rows
  }
  const before = await read()
  for (const endpoint of endpoints)
    expect(await deliveredTo(world, endpoint)).toEqual(['customer.created pending'])
  expect((await read()) - before).toBeLessThan(50)
})

test('old subscriptions are kept for events without a sequence, up to one thousand changes', async ({
  world,
}) => {
  const endpoint = await createSubscribed(world)
  const { sql } = world
  const countSubscriptions = async () =>
    (await sql`select from webhook_subscriptions where endpoint_id = ${endpoint.id}`).count
  const toggle = async () =>
    await sql`
      update webhook_endpoints set types = case when types = '{*}' then '{customer.*}' else '{*}' end::text[]
      where tenant_id = ${client.tenant_id} and id = ${endpoint.id}`
  await createEvent(client)
  await toggle()
  await toggle()
  await sql`
    update webhook_subscriptions set from_at = from_at - interval '2 hours',
      until_at = until_at - interval '2 hours' where endpoint_id = ${endpoint.id} and until_at < 'infinity'`
  await sql`update event_outbox set created_at = created_at - interval '3 hours' where tenant_id = ${client.tenant_id}`
  await toggle()
  expect(await countSubscriptions()).toBe(4)
  await sequenceAllEvents(sql)
  await toggle()
  expect(await countSubscriptions()).toBe(3)
  for (let change = 0; change < 1010; change++) await toggle()
  expect(await countSubscriptions()).toBe(1000)
})

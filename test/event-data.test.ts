// Tests the data of events: encrypted and long fields are read from the row of the resource until the fields are
// erased.
import { randomBytes } from 'node:crypto'
import { expect, onTestFinished } from 'vitest'
import { newId } from '#core/ids.ts'
import { connectDatabase } from '#core/pool.ts'
import { eraseOldOutputs } from '#domain/ai-tasks/retention.ts'
import { eraseOldTexts } from '#domain/messages/retention.ts'
import { eraseLiftedAddresses } from '#domain/suppressions/retention.ts'
import { freshKey, type Client } from '#test/client.ts'
import { readAllRows } from '#test/databases.ts'
import {
  deliveriesOf,
  LOOPBACK,
  registerEndpoint,
  openHook,
  type ReceivedRequest,
  type TestHook,
} from '#test/deliveries.ts'
import { postEmail } from '#test/messages.ts'
import { capturedPayment, eventually } from '#test/payments.ts'
import { postgresUrl } from '#test/suite.ts'
import { urlAs } from '#test/users.ts'
import { testIn, type World } from '#test/world.ts'

const SECRET = `whsec_${randomBytes(32).toString('base64')}`

const test = testIn({ env: { ...LOOPBACK, EMAIL_WEBHOOK_SECRET: SECRET } })

type Shop = Client & { tenant_id: string }

let address_count = 0
/** An address that no other test uses. */
const freshAddress = () => `witness-${(address_count += 1)}@example.com`
const sendEmail = async (client: Client, fields: object): Promise<any> => {
  const email = { idempotency_key: freshKey(), subject: 'Shipped', text: 'It is on its way.' }
  return (await client.post('/v1/messages/email', { ...email, ...fields })).body
}
const feedOf = async (client: Client, query = ''): Promise<any[]> =>
  (await client.get(`/v1/events?limit=100${query}`)).body
/** Waits until the feed has this count of events of a type. */
const eventsOf = (client: Client, type: string, count = 1): Promise<any[]> =>
  eventually(async () => {
    const events = await feedOf(client, `&type=${type}`)
    expect(events).toHaveLength(count)
    return events
  })

/** A tenant with an endpoint for all types, and a receiver that accepts all events. */
async function shopWithHook(world: World): Promise<{ shop: Shop; hook: TestHook; endpoint: any }> {
  const shop = await world.clientOf()
  const hook = await openHook()
  onTestFinished(() => hook.close())
  return { shop, hook, endpoint: await registerEndpoint(shop, { url: hook.url }) }
}

/** Waits for the request of an event at the receiver. */
const arrivedAt = (hook: TestHook, event_id: string): Promise<ReceivedRequest> =>
  eventually(async () => {
    const arrived = hook.arrived.filter(({ body }) => body.id === event_id)
    expect(arrived).not.toHaveLength(0)
    return arrived[0]!
  })

/** The data of an event, which must be equal in the feed, the event, the webhook and the delivery. */
async function dataOf({ shop, hook, endpoint }: Awaited<ReturnType<typeof shopWithHook>>, type: string) {
  const [event] = await eventsOf(shop, type)
  expect((await shop.get(`/v1/events/${event.id}`)).body).toEqual(event)
  const sent = await arrivedAt(hook, event.id)
  expect(sent.body.data).toEqual(event.data)
  const [delivery] = (await deliveriesOf(shop, endpoint.id)).filter(({ event_id }) => event_id === event.id)
  expect(delivery.payload).toEqual(sent.body)
  return event.data
}

test('events of an email contain its recipients and their delivery status', async ({ world }) => {
  const tenant = await shopWithHook(world)
  const { shop } = tenant
  const [ada, grace, joan] = [freshAddress(), freshAddress(), freshAddress()]
  const { id: message_id } = await sendEmail(shop, { to: [`Ada <${ada}>`, grace], bcc: [joan] })
  const accepted = { status: 'accepted', code: null, message: null }
  const envelope = { to: [`Ada <${ada}>`, grace], cc: null, bcc: [joan], subject: 'Shipped', body: null }
  expect(await dataOf(tenant, 'message.sent')).toMatchObject({
    ...envelope,
    id: message_id,
    from: expect.stringContaining('@'),
    status: 'sent',
    recipients: [ada, grace, joan].map((address) => ({ address, ...accepted })),
  })
  for (const [type, address, more] of [
    ['email.bounced', joan, { bounce: 'hard', diagnostic: '550 5.1.1 no such user' }],
    ['email.complained', grace, {}],
    // The relay reports this complaint twice.
    ['email.complained', grace, {}],
  ] as const) {
    const data = { message_id, address, ...more }
    expect((await postEmail(world, { type, data }, { secret: SECRET })).status).toBe(200)
    await world.drain()
  }
  expect(await dataOf(tenant, 'message.bounced')).toMatchObject({
    ...envelope,
    recipients: [{ address: joan, status: 'bounced', code: '550 5.1.1' }],
  })
  expect(await dataOf(tenant, 'message.complained')).toMatchObject({
    recipients: [{ address: grace, status: 'bounced', code: 'complaint' }],
  })
  const suppressed = await eventsOf(shop, 'suppression.created', 2)
  expect(suppressed.map(({ data }) => [data.reason, data.address])).toEqual([
    ['hard_bounce', joan],
    ['complaint', grace],
  ])
  const stored = (await readAllRows(world.sql)).toLowerCase()
  for (const address of [ada, grace, joan]) expect(stored).not.toContain(address)
})

test('the event of a received SMS, and the stored response of a receiver, contain the text of the SMS until its erasure', async ({
  world,
}) => {
  const shop = await world.clientOf()
  const hook = await openHook(() => 500)
  onTestFinished(() => hook.close())
  const endpoint = await registerEndpoint(shop, { url: hook.url, types: ['message.received'] })
  const [number, body] = [`+1415555${3000 + (address_count += 1)}`, 'Is it blue?']
  await shop.post('/v1/messages/sms', { idempotency_key: freshKey(), to: number, body: 'It has shipped.' })
  const inbound = { from: number, to: world.env['TWILIO_FROM'], body }
  await world.provider('twilio').control('POST', '/inbound', inbound)
  const [event] = await eventsOf(shop, 'message.received')
  expect(event.data).toMatchObject({
    from: number,
    to: inbound.to,
    body,
    recipients: null,
    status: 'received',
  })
  const [sent] = await eventsOf(shop, 'message.sent')
  expect(sent.data).toMatchObject({ from: inbound.to, to: number, body: null })
  const delivery = await eventually(async () => {
    const [current] = await deliveriesOf(shop, endpoint.id)
    expect(current.attempts_log).toHaveLength(1)
    return current
  })
  expect([delivery.payload.data.body, delivery.attempts_log[0].response_excerpt]).toEqual([
    body,
    'answer of 500',
  ])
  await world.sql`
    update messages set created_at = created_at - interval '91 days', updated_at = updated_at - interval '3 days'
    where id = ${event.data.id}`
  await eventually(async () => {
    await eraseOldTexts(world.sql, 90, 100)
    expect((await eventsOf(shop, 'message.received'))[0].data).toEqual({ ...event.data, body: null })
  })
  const [after] = await deliveriesOf(shop, endpoint.id)
  expect([after.payload.data.body, after.attempts_log[0].response_excerpt]).toEqual([null, null])
})

test("the event of a succeeded task contains the task's output until the output is erased", async ({
  world,
}) => {
  const tenant = await shopWithHook(world)
  const { shop, hook } = tenant
  const run = async (kind: string, input: object): Promise<any> => {
    const task = { idempotency_key: freshKey(), kind, input }
    return (await shop.post('/v1/ai/tasks', task, { prefer: 'wait=30' })).body
  }
  const { id } = await run('generate', { prompt: 'Of Ada.' })
  expect(await dataOf(tenant, 'ai_task.succeeded')).toMatchObject({
    id,
    output: { text: 'You said: Of Ada.' },
  })
  expect((await eventsOf(shop, 'ai_task.created'))[0].data.output).toBeNull()
  // Only the event itself contains a long output: pages omit the output, and a webhook is truncated.
  const long = await run('extract', {
    text: 'x',
    schema: { type: 'string', minLength: 30_000, maxLength: 30_000 },
  })
  const [, event] = await eventsOf(shop, 'ai_task.succeeded', 2)
  expect(event.data).toMatchObject({ id: long.id, output: null })
  expect((await shop.get(`/v1/events/${event.id}`)).body.data.output).toEqual(long.output)
  const sent = await arrivedAt(hook, event.id)
  expect(sent.body.data).toEqual({ id: long.id, truncated: true })
  await world.sql`update ai_tasks set finished_at = now() - interval '90 days' where id = ${id}`
  await eventually(async () => {
    await eraseOldOutputs(world.sql, 90, 100)
    expect((await eventsOf(shop, 'ai_task.succeeded', 2))[0].data.output).toBeNull()
  })
})

test('the events of a suppression contain the suppressed address until the address is erased, even after the suppression is deleted', async ({
  world,
}) => {
  const tenant = await shopWithHook(world)
  const { shop } = tenant
  const address = freshAddress()
  const { body } = await shop.post('/v1/messages/suppressions', { channel: 'email', address })
  await shop.delete(`/v1/messages/suppressions/${body.id}`)
  for (const type of ['suppression.created', 'suppression.deleted'])
    expect(await dataOf(tenant, type)).toMatchObject({ id: body.id, address })
  await world.sql`update suppressions set deleted_at = now() - interval '90 days' where id = ${body.id}`
  await eventually(async () => {
    await eraseLiftedAddresses(world.sql, 90, 100)
    for (const { data } of await feedOf(shop, '&type=suppression.*')) expect(data.address).toBeNull()
  })
})

test("the data of an event is read only from rows of the event's tenant", async ({ world }) => {
  const [shop, other] = [await world.clientOf(), await world.clientOf()]
  const { id } = await sendEmail(shop, { to: [freshAddress()] })
  await world.sql`
    insert into events (tenant_id, id, type, subject_id, data)
    select ${other.tenant_id}, ${newId()}, type, subject_id, data from events
    where subject_id = ${id} and type = 'message.created'`
  const [event_of_other_tenant] = await eventsOf(other, 'message.created')
  expect(event_of_other_tenant.data).toMatchObject({
    id,
    from: null,
    to: null,
    subject: null,
    recipients: null,
  })
})

test('a message that cannot be decrypted hides neither its own event nor other events', async ({ world }) => {
  const { shop, hook } = await shopWithHook(world)
  const { id } = await sendEmail(shop, { to: [freshAddress()] })
  const before = await eventsOf(shop, 'message.sent')
  await world.sql`update messages set envelope = '2.ffffffff.' where id = ${id}`
  const payment = await capturedPayment(shop)
  const [event] = await eventsOf(shop, 'message.sent')
  expect(event).toMatchObject({ id: before[0].id, data: { id, to: null, recipients: null } })
  await eventually(async () => expect(hook.arrived.map(({ body }) => body.data.id)).toContain(payment.id))
})

test('a page of events needs one extra statement for each resource type from which event data is read, and no extra statement otherwise', async ({
  world,
}) => {
  const shop = await world.clientOf()
  const address = freshAddress()
  await shop.post('/v1/messages/suppressions', { channel: 'email', address })
  const messages = Array.from({ length: 30 }, () => ({
    idempotency_key: freshKey(),
    to: [address],
    subject: 'Shipped',
    text: 'It is on its way.',
  }))
  await shop.post('/v1/messages/email/batch', { messages })
  await capturedPayment(shop)
  await eventsOf(shop, 'message.created', 30)
  const server = connectDatabase(await postgresUrl(), { max: 1, application_name: 'test' })
  onTestFinished(() => server.end())
  const database = new URL(world.config.DATABASE_URL!).pathname.slice(1)
  const user = new URL(urlAs('api', world.config.DATABASE_URL!)).username
  /** The count of the API's statements that read data of events from other rows. */
  const completingCalls = async () => {
    const [row] = await server<{ calls: number }[]>`
      select coalesce(sum(calls), 0)::integer as calls from pg_stat_statements
      where dbid = (select oid from pg_database where datname = ${database})
        and userid = (select oid from pg_roles where rolname = ${user})
        and query like '%jsonb_agg(a.nth)%' and query not like '%pg_stat_statements%'`
    return row!.calls
  }
  const before = await completingCalls()
  const page = await feedOf(shop)
  expect(page.length).toBeGreaterThan(31)
  expect(
    page.filter(({ type }) => type === 'message.created').every(({ data }) => data.to[0] === address),
  ).toBe(true)
  expect(await completingCalls()).toBe(before + 2)
  expect(await feedOf(shop, '&type=payment.*')).not.toEqual([])
  expect(await completingCalls()).toBe(before + 2)
})

// What is kept of the answers of receivers: little of it, and nothing of a person who was deleted.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Socket } from 'node:net'
import { expect, onTestFinished } from 'vitest'
import { eraseNextEvents } from '#domain/customers/change.ts'
import { freshKey, type Answer, type Client } from '#test/client.ts'
import { createEvent, deliveriesOf, LOOPBACK, makeEndpoint } from '#test/deliveries.ts'
import { eventually } from '#test/payments.ts'
import { until } from '#test/process.ts'
import { httpAnswer, openReceiver } from '#test/receiver.ts'
import { decide, startVerification } from '#test/verifications.ts'
import { testIn, type World } from '#test/world.ts'

// Nothing is tried again by itself, so nobody waits for it.
const test = testIn({ env: { ...LOOPBACK, WEBHOOK_RETRY_SCHEDULE_S: '0,3600' } })

/** An endpoint of a new tenant whose receiver answers each request so. */
async function answering(world: World, types: string[], answer: (socket: Socket, request: string) => void) {
  const client = await world.clientOf()
  const receiver = await openReceiver(answer)
  onTestFinished(() => receiver.close())
  const url = `http://127.0.0.1:${receiver.port}/`
  return { client, receiver, endpoint: await makeEndpoint(client, { url, types }) }
}

/** With this status, the body that came. */
function echo(status: number, request: string): Buffer {
  const body = request.slice(request.indexOf('\r\n\r\n') + 4)
  return Buffer.from(httpAnswer(status, Buffer.from(body, 'latin1').toString('utf8')))
}

/** The deliveries to an endpoint when there are so many with an attempt each. */
async function attempted(client: Client, endpoint_id: string, count: number): Promise<any[]> {
  return await eventually(async () => {
    const deliveries = await deliveriesOf(client, endpoint_id)
    expect(deliveries.filter(({ attempts_log }) => attempts_log.length > 0)).toHaveLength(count)
    return deliveries
  })
}

/** What its worker does every few seconds, at once. */
async function untilErased(world: World): Promise<void> {
  await eventually(async () => {
    await eraseNextEvents(world.sql, 1_000)
    expect(await world.sql`select from erasures`).toHaveLength(0)
  })
}

test('of many attempts the last fifty are logged, the last five with what was answered', async ({
  world,
}) => {
  let seed = 1
  // It does not compress.
  const text = () =>
    Array.from({ length: 1000 }, () => {
      seed = (seed * 48_271) % 2_147_483_647
      return String.fromCharCode(0x4e00 + (seed % 20_000))
    }).join('')
  const { client, receiver, endpoint } = await answering(
    world,
    ['customer.created'],
    (socket) => void socket.write(httpAnswer(500, text())),
  )
  await createEvent(client)
  const [{ id }] = await attempted(client, endpoint.id, 1)
  for (let replays = 1; replays <= 60; replays++) {
    expect((await client.post(`/v1/webhook_deliveries/${id}/replay`)).status).toBe(202)
    while (receiver.requests.length <= replays) await sleep(10)
  }
  await world.drain()
  const { attempts_log } = (await client.get(`/v1/webhook_deliveries/${id}`)).body
  const excerpts: (string | null)[] = attempts_log.map((attempt: any) => attempt.response_excerpt)
  expect(excerpts.map((excerpt) => excerpt?.length ?? null)).toEqual([
    ...Array.from({ length: 45 }, () => null),
    ...Array.from({ length: 5 }, () => 333),
  ])
  expect(new Set(attempts_log.map((attempt: any) => attempt.status_code))).toEqual(new Set([500]))
  const [row] = await world.sql<{ size: number }[]>`
    select pg_column_size(attempts_log) as size from webhook_deliveries where id = ${id}`
  expect(row!.size).toBeLessThan(16 * 1024)
})

test('what receivers repeated of a customer is erased with the customer', async ({ world }) => {
  const { client, endpoint } = await answering(
    world,
    ['customer.*'],
    (socket, request) => void socket.write(echo(500, request)),
  )
  const id = await createEvent(client, { email: 'ada@secret.example' })
  const [before] = await attempted(client, endpoint.id, 1)
  expect([before.payload.data.email, before.attempts_log[0].response_excerpt]).toEqual([
    'ada@secret.example',
    expect.stringContaining('ada@secret.example'),
  ])
  await client.delete(`/v1/customers/${id}`)
  await untilErased(world)
  const [after] = await attempted(client, endpoint.id, 2)
  expect(JSON.stringify(after)).not.toContain('ada@secret.example')
  expect(after.attempts_log[0]).toEqual({ ...before.attempts_log[0], response_excerpt: null })
})

test('what an attempt under way brings back of a customer who was erased meanwhile is not kept', async ({
  world,
}) => {
  const held: (() => void)[] = []
  const { client, endpoint } = await answering(
    world,
    ['customer.created'],
    (socket, request) => void held.push(() => void socket.write(echo(200, request))),
  )
  const id = await createEvent(client, { email: 'ada@secret.example' })
  while (held.length === 0) await sleep(10)
  await client.delete(`/v1/customers/${id}`)
  await untilErased(world)
  held[0]!()
  const [delivery] = await attempted(client, endpoint.id, 1)
  expect(delivery).toMatchObject({
    status: 'delivered',
    attempts_log: [{ status_code: 200, response_excerpt: null }],
  })
})

test('what receivers repeated of a verification is erased with its customer', async ({ world }) => {
  const { client, endpoint } = await answering(
    world,
    ['kyc.*'],
    (socket, request) => void socket.write(httpAnswer(500, /secret-[\w-]+/.exec(request)?.[0])),
  )
  const mark = `secret-${freshKey()}`
  const subject_id = await createEvent(client)
  const of = { subject_type: 'customer', subject_id, metadata: { mark } }
  const { body } = await startVerification(client, of)
  await decide(client, body.id, 'rejected', { reason: mark })
  const repeated = async () => {
    const deliveries = await deliveriesOf(client, endpoint.id)
    return deliveries.some((delivery) => JSON.stringify(delivery.attempts_log).includes(mark))
  }
  await until('a receiver repeats it', repeated)
  await world.drain()
  await client.delete(`/v1/customers/${subject_id}`)
  await untilErased(world)
  expect(await repeated()).toBe(false)
})

test('a delivery with its log counts as a list', async ({ world }) => {
  const { client, endpoint } = await answering(
    world,
    ['customer.created'],
    (socket) => void socket.write(httpAnswer(204)),
  )
  await createEvent(client)
  const [{ id }] = await attempted(client, endpoint.id, 1)
  let asked: Promise<Answer> | undefined
  await world.sql.begin(async (tx) => {
    await tx`lock table webhook_deliveries in access exclusive mode`
    asked = client.get(`/v1/webhook_deliveries/${id}`)
    await until('it waits where lists do', async () => {
      const [row] = await tx<{ waiting: number }[]>`
        select count(*) as waiting from pg_stat_activity
        where datname = current_database() and application_name = 'sluice-api-lists' and wait_event_type = 'Lock'`
      return row!.waiting > 0
    })
  })
  expect((await asked)?.body).toMatchObject({ id, status: 'delivered' })
})

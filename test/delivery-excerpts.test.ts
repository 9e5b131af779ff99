// Tests the stored excerpts of receivers' responses: their size and their erasure with a customer.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Socket } from 'node:net'
import { expect, onTestFinished } from 'vitest'
import { eraseNextEvents } from '#domain/customers/change.ts'
import { freshKey, type Answer, type Client } from '#test/client.ts'
import { createEvent, deliveriesOf, LOOPBACK, registerEndpoint } from '#test/deliveries.ts'
import { eventually } from '#test/payments.ts'
import { until } from '#test/process.ts'
import { httpAnswer, openReceiver } from '#test/receiver.ts'
import { decide, startVerification } from '#test/verifications.ts'
import { testIn, type World } from '#test/world.ts'

// An hour until the first retry: no delivery is retried during a test.
const test = testIn({ env: { ...LOOPBACK, WEBHOOK_RETRY_SCHEDULE_S: '0,3600' } })

/** An endpoint of a new tenant. `answer` returns the response to each request of the endpoint's receiver. */
async function createAnsweringEndpoint(
  world: World,
  types: string[],
  answer: (socket: Socket, request: string) => void,
) {
  const client = await world.clientOf()
  const receiver = await openReceiver(answer)
  onTestFinished(() => receiver.close())
  const url = `http://127.0.0.1:${receiver.port}/`
  return { client, receiver, endpoint: await registerEndpoint(client, { url, types }) }
}

/** A response with `status` that repeats the body of the request. */
function echo(status: number, request: string): Buffer {
  const body = request.slice(request.indexOf('\r\n\r\n') + 4)
  return Buffer.from(httpAnswer(status, Buffer.from(body, 'latin1').toString('utf8')))
}

/** Waits until `count` deliveries of an endpoint have an attempt. Returns all deliveries of the endpoint. */
async function awaitAttempted(client: Client, endpoint_id: string, count: number): Promise<any[]> {
  return await eventually(async () => {
    const deliveries = await deliveriesOf(client, endpoint_id)
    expect(deliveries.filter(({ attempts_log }) => attempts_log.length > 0)).toHaveLength(count)
    return deliveries
  })
}

/** Erases the remaining events at once; a worker would erase them every few seconds. */
async function untilErased(world: World): Promise<void> {
  await eventually(async () => {
    await eraseNextEvents(world.sql, 1_000)
    expect(await world.sql`select from erasures`).toHaveLength(0)
  })
}

test('the log of a delivery has the last fifty attempts, and the last five of them have an excerpt of the response', async ({
  world,
}) => {
  let seed = 1
  // Text that cannot be compressed.
  const text = () =>
    Array.from({ length: 1000 }, () => {
      seed = (seed * 48_271) % 2_147_483_647
      return String.fromCharCode(0x4e00 + (seed % 20_000))
    }).join('')
  const { client, receiver, endpoint } = await createAnsweringEndpoint(
    world,
    ['customer.created'],
    (socket) => void socket.write(httpAnswer(500, text())),
  )
  await createEvent(client)
  const [{ id }] = await awaitAttempted(client, endpoint.id, 1)
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

test('an excerpt that repeats data of a customer is erased when the customer is erased', async ({
  world,
}) => {
  const { client, endpoint } = await createAnsweringEndpoint(
    world,
    ['customer.*'],
    (socket, request) => void socket.write(echo(500, request)),
  )
  const id = await createEvent(client, { email: 'ada@secret.example' })
  const [before] = await awaitAttempted(client, endpoint.id, 1)
  expect([before.payload.data.email, before.attempts_log[0].response_excerpt]).toEqual([
    'ada@secret.example',
    expect.stringContaining('ada@secret.example'),
  ])
  await client.delete(`/v1/customers/${id}`)
  await untilErased(world)
  const [after] = await awaitAttempted(client, endpoint.id, 2)
  expect(JSON.stringify(after)).not.toContain('ada@secret.example')
  expect(after.attempts_log[0]).toEqual({ ...before.attempts_log[0], response_excerpt: null })
})

test('the excerpt of an attempt is not stored if the customer is erased during the attempt', async ({
  world,
}) => {
  const pending_answers: (() => void)[] = []
  const { client, endpoint } = await createAnsweringEndpoint(
    world,
    ['customer.created'],
    (socket, request) => void pending_answers.push(() => void socket.write(echo(200, request))),
  )
  const id = await createEvent(client, { email: 'ada@secret.example' })
  while (pending_answers.length === 0) await sleep(10)
  await client.delete(`/v1/customers/${id}`)
  await untilErased(world)
  pending_answers[0]!()
  const [delivery] = await awaitAttempted(client, endpoint.id, 1)
  expect(delivery).toMatchObject({
    status: 'delivered',
    attempts_log: [{ status_code: 200, response_excerpt: null }],
  })
})

test('an excerpt that repeats data of a verification is erased when the customer is erased', async ({
  world,
}) => {
  const { client, endpoint } = await createAnsweringEndpoint(
    world,
    ['kyc.*'],
    (socket, request) => void socket.write(httpAnswer(500, /secret-[\w-]+/.exec(request)?.[0])),
  )
  const mark = `secret-${freshKey()}`
  const subject_id = await createEvent(client)
  const parameters = { subject_type: 'customer', subject_id, metadata: { mark } }
  const { body } = await startVerification(client, parameters)
  await decide(client, body.id, 'rejected', { reason: mark })
  const isRepeated = async () => {
    const deliveries = await deliveriesOf(client, endpoint.id)
    return deliveries.some((delivery) => JSON.stringify(delivery.attempts_log).includes(mark))
  }
  await until('a response repeats the mark', isRepeated)
  await world.drain()
  await client.delete(`/v1/customers/${subject_id}`)
  await untilErased(world)
  expect(await isRepeated()).toBe(false)
})

test('reading a delivery with its log counts as a list against the rate limit', async ({ world }) => {
  const { client, endpoint } = await createAnsweringEndpoint(
    world,
    ['customer.created'],
    (socket) => void socket.write(httpAnswer(204)),
  )
  await createEvent(client)
  const [{ id }] = await awaitAttempted(client, endpoint.id, 1)
  let request: Promise<Answer> | undefined
  await world.sql.begin(async (tx) => {
    await tx`lock table webhook_deliveries in access exclusive mode`
    request = client.get(`/v1/webhook_deliveries/${id}`)
    await until('the request waits in the pool of lists', async () => {
      const [row] = await tx<{ waiting: number }[]>`
        select count(*) as waiting from pg_stat_activity
        where datname = current_database() and application_name = 'sluice-api-lists' and wait_event_type = 'Lock'`
      return row!.waiting > 0
    })
  })
  expect((await request)?.body).toMatchObject({ id, status: 'delivered' })
})

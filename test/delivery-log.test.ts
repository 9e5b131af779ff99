// What the log and the metrics tell of deliveries: where each attempt went, what came back and what follows.
import { openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished } from 'vitest'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import {
  createEvent,
  deliveriesOf,
  makeDeliveriesDueUntil,
  LOOPBACK,
  makeEndpoint,
  openHook,
} from '#test/deliveries.ts'
import { makeFolder } from '#test/folders.ts'
import { startHere } from '#test/parts.ts'
import { eventually } from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

let log_file: string
let folder: Awaited<ReturnType<typeof makeFolder>> | undefined
let worker: Awaited<ReturnType<typeof startHere>> | undefined
const test = testIn({
  parts: ['api'],
  env: { ...LOOPBACK, LOG_REQUESTS: '1', WEBHOOK_RETRY_SCHEDULE_S: '0,1' },
})
test.beforeAll(async ({ world }) => {
  folder = await makeFolder()
  log_file = join(folder.path, 'log')
  worker = await startHere('worker', world.env, createLog('info', 'test', openSync(log_file, 'a')))
})
afterAll(async () => {
  await worker?.close()
  await folder?.remove()
})

/** The lines about this many attempts at deliveries to an endpoint, in their order. */
async function attemptsTo(endpoint_id: string, count: number) {
  return await eventually(async () => {
    const lines = (await readFile(log_file, 'utf8'))
      .split('\n')
      .filter((line) => line.includes('an attempt ended') && line.includes(endpoint_id))
    expect(lines).toHaveLength(count)
    return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  })
}

async function attemptsByResult(): Promise<Record<string, number>> {
  const { values } = await metrics.deliveryAttempts.get()
  return Object.fromEntries(values.map(({ labels, value }) => [String(labels.result), value]))
}

/** How many more there are of each result than before. */
async function moreThan(before: Record<string, number>) {
  const now = Object.entries(await attemptsByResult())
  const more = now.map(([result, value]) => [result, value - (before[result] ?? 0)] as const)
  return Object.fromEntries(more.filter(([, value]) => value > 0))
}

/** What becomes of one event at an endpoint that answers so, the last for ever. */
async function sentTo(world: World, ...statuses: number[]) {
  const client = await world.clientOf()
  const hook = await openHook((nth) => statuses[nth] ?? statuses.at(-1)!)
  onTestFinished(() => hook.close())
  const endpoint = await makeEndpoint(client, { url: hook.url, types: ['customer.created'] })
  const before = await attemptsByResult()
  const customer = await createEvent(client)
  const scheduled = statuses.findIndex((status) => status === 204) + 1 || statuses.length
  await makeDeliveriesDueUntil(world, () => hook.arrived.length >= scheduled)
  await world.drain()
  const [delivery] = await deliveriesOf(client, endpoint.id)
  return { delivery, endpoint, before, host: new URL(hook.url).host, client, customer }
}

test('an attempt is found by its delivery, event, resource, endpoint, type and host, with what came back', async ({
  world,
}) => {
  const { delivery, endpoint, host, before, client, customer } = await sentTo(world, 500, 204)
  const about = {
    job: 'webhook_endpoint.deliver',
    tenant_id: client.tenant_id,
    delivery_id: delivery.id,
    endpoint_id: endpoint.id,
    event_id: delivery.event_id,
    customer_id: customer,
    type: 'customer.created',
    host,
  }
  expect(await attemptsTo(endpoint.id, 2)).toMatchObject([
    { ...about, status_code: 500, result: 'retry' },
    { ...about, status_code: 204, result: 'delivered' },
  ])
  expect(await moreThan(before)).toEqual({ retry: 1, delivered: 1 })
})

test('the last attempt is exhausted', async ({ world }) => {
  const { endpoint, before } = await sentTo(world, 500, 500)
  expect((await attemptsTo(endpoint.id, 2)).map(({ result }) => result)).toEqual(['retry', 'exhausted'])
  expect(await moreThan(before)).toEqual({ retry: 1, exhausted: 1 })
})

test('an endpoint that is gone is counted once, by its reason', async ({ world }) => {
  const gone = async () =>
    (await metrics.endpointsDisabled.get()).values.find(({ labels }) => labels.reason === 'gone')?.value ?? 0
  const gone_before = await gone()
  const { endpoint, before } = await sentTo(world, 410)
  expect(await attemptsTo(endpoint.id, 1)).toMatchObject([{ status_code: 410, result: 'failed' }])
  expect(await moreThan(before)).toEqual({ failed: 1 })
  await eventually(async () => expect(await gone()).toBe(gone_before + 1))
})

test('an attempt by hand that fails is not the last of a schedule', async ({ world }) => {
  const { delivery, endpoint, before, client } = await sentTo(world, 204, 500)
  await client.post(`/v1/webhook_deliveries/${delivery.id}/replay`)
  expect(await attemptsTo(endpoint.id, 2)).toMatchObject([
    { job: 'webhook_endpoint.deliver', result: 'delivered' },
    { job: 'webhook_endpoint.replay', status_code: 500, result: 'failed' },
  ])
  expect(await moreThan(before)).toEqual({ delivered: 1, failed: 1 })
})

test('an attempt at nobody has no status', async ({ world }) => {
  const client = await world.clientOf()
  const hook = await openHook()
  await hook.close()
  const endpoint = await makeEndpoint(client, { url: hook.url, types: ['customer.created'] })
  await client.post(`/v1/webhook_endpoints/${endpoint.id}/test`)
  expect(await attemptsTo(endpoint.id, 1)).toMatchObject([
    { job: 'webhook_endpoint.test', host: new URL(hook.url).host, status_code: null, result: 'exhausted' },
  ])
})

// Log lines and metrics of delivery attempts: host, status and result.
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
  registerEndpoint,
  openHook,
} from '#test/deliveries.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { startInThisProcess } from '#test/parts.ts'
import { eventually } from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

let log_file: string
let folder: Awaited<ReturnType<typeof createTemporaryFolder>> | undefined
let worker: Awaited<ReturnType<typeof startInThisProcess>> | undefined
const test = testIn({
  parts: ['api'],
  env: { ...LOOPBACK, LOG_REQUESTS: '1', WEBHOOK_RETRY_SCHEDULE_S: '0,1' },
})
test.beforeAll(async ({ world }) => {
  folder = await createTemporaryFolder()
  log_file = join(folder.path, 'log')
  worker = await startInThisProcess('worker', world.env, createLog('info', 'test', openSync(log_file, 'a')))
})
afterAll(async () => {
  await worker?.close()
  await folder?.remove()
})

/** Waits for this many log lines of attempts to an endpoint. Returns them in order. */
async function awaitAttempts(endpoint_id: string, count: number) {
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

/** The results whose counts have increased since `before`, each with the increase. */
async function increasesSince(before: Record<string, number>) {
  const now = Object.entries(await attemptsByResult())
  const more = now.map(([result, value]) => [result, value - (before[result] ?? 0)] as const)
  return Object.fromEntries(more.filter(([, value]) => value > 0))
}

/** Delivers one event to an endpoint that answers with these statuses, and repeats the last status. */
async function deliverEvent(world: World, ...statuses: number[]) {
  const client = await world.clientOf()
  const hook = await openHook((nth) => statuses[nth] ?? statuses.at(-1)!)
  onTestFinished(() => hook.close())
  const endpoint = await registerEndpoint(client, { url: hook.url, types: ['customer.created'] })
  const before = await attemptsByResult()
  const customer = await createEvent(client)
  const scheduled = statuses.findIndex((status) => status === 204) + 1 || statuses.length
  await makeDeliveriesDueUntil(world, () => hook.arrived.length >= scheduled)
  await world.drain()
  const [delivery] = await deliveriesOf(client, endpoint.id)
  return { delivery, endpoint, before, host: new URL(hook.url).host, client, customer }
}

test('the log line of an attempt has its delivery, event, resource, endpoint, type, host, status and result', async ({
  world,
}) => {
  const { delivery, endpoint, host, before, client, customer } = await deliverEvent(world, 500, 204)
  const fields = {
    job: 'webhook_endpoint.deliver',
    tenant_id: client.tenant_id,
    delivery_id: delivery.id,
    endpoint_id: endpoint.id,
    event_id: delivery.event_id,
    customer_id: customer,
    type: 'customer.created',
    host,
  }
  expect(await awaitAttempts(endpoint.id, 2)).toMatchObject([
    { ...fields, status_code: 500, result: 'retry' },
    { ...fields, status_code: 204, result: 'delivered' },
  ])
  expect(await increasesSince(before)).toEqual({ retry: 1, delivered: 1 })
})

test('the log line of the last failed attempt has the result exhausted', async ({ world }) => {
  const { endpoint, before } = await deliverEvent(world, 500, 500)
  expect((await awaitAttempts(endpoint.id, 2)).map(({ result }) => result)).toEqual(['retry', 'exhausted'])
  expect(await increasesSince(before)).toEqual({ retry: 1, exhausted: 1 })
})

test('an endpoint that answers 410 is counted once as disabled, with the reason', async ({ world }) => {
  const countGone = async () =>
    (await metrics.endpointsDisabled.get()).values.find(({ labels }) => labels.reason === 'gone')?.value ?? 0
  const gone_before = await countGone()
  const { endpoint, before } = await deliverEvent(world, 410)
  expect(await awaitAttempts(endpoint.id, 1)).toMatchObject([{ status_code: 410, result: 'failed' }])
  expect(await increasesSince(before)).toEqual({ failed: 1 })
  await eventually(async () => expect(await countGone()).toBe(gone_before + 1))
})

test('the log line of a failed replay has the result failed, not exhausted', async ({ world }) => {
  const { delivery, endpoint, before, client } = await deliverEvent(world, 204, 500)
  await client.post(`/v1/webhook_deliveries/${delivery.id}/replay`)
  expect(await awaitAttempts(endpoint.id, 2)).toMatchObject([
    { job: 'webhook_endpoint.deliver', result: 'delivered' },
    { job: 'webhook_endpoint.replay', status_code: 500, result: 'failed' },
  ])
  expect(await increasesSince(before)).toEqual({ delivered: 1, failed: 1 })
})

test('the log line of an attempt without a connection has no status', async ({ world }) => {
  const client = await world.clientOf()
  const hook = await openHook()
  await hook.close()
  const endpoint = await registerEndpoint(client, { url: hook.url, types: ['customer.created'] })
  await client.post(`/v1/webhook_endpoints/${endpoint.id}/test`)
  expect(await awaitAttempts(endpoint.id, 1)).toMatchObject([
    { job: 'webhook_endpoint.test', host: new URL(hook.url).host, status_code: null, result: 'exhausted' },
  ])
})

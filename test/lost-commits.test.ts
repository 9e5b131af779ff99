// Requests that the database loses after it accepted them: callers are asked to repeat them, and are never told that
// there is no such resource.
import { pino } from 'pino'
import { expect, onTestFinished } from 'vitest'
import { metrics } from '#core/metrics.ts'
import { Sluice } from '#sdk/index.ts'
import { createClient, freshKey, type Answer } from '#test/client.ts'
import { startInThisProcess } from '#test/parts.ts'
import { authorizedPayment, eventually, fault } from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

type LogLine = { level: number; msg: string; route?: string }

const test = testIn()
const WAIT = { prefer: 'wait=30' }
const PAYMENT = { amount_minor: 1000, currency: 'USD', method: 'card' } as const

/** A client of an API whose log lines are kept. */
async function openApi(world: World) {
  const lines: LogLine[] = []
  const log = pino({ level: 'error' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const api = await startInThisProcess('api', world.env, log)
  onTestFinished(() => api.close())
  const { key, tenant_id } = await world.clientOf()
  return { client: createClient(api.url!, key), url: api.url!, key, tenant_id, lines }
}

/** Loses what the tenant's requests wrote after `since`, as a restore to that time does. */
async function loseSince({ sql }: World, tenant_id: string, since: string): Promise<void> {
  await sql.begin(async (tx) => {
    for (const table of ['idempotency_keys', 'jobs', 'payments', 'messages', 'message_attachments'])
      await tx`
        delete from ${tx(table)} where tenant_id = ${tenant_id}
          ${table === 'message_attachments' ? tx`` : tx`and created_at > ${since}`}`
  })
}

async function now({ sql }: World): Promise<string> {
  const [row] = await sql<{ now: string }[]>`select clock_timestamp() as now`
  return row!.now
}

/** The number of statements that have read payments for answers. */
async function countReads(): Promise<number> {
  const { values } = await metrics.statement.get()
  const reads = values.filter(
    ({ metricName, labels }) => metricName?.endsWith('_count') && labels['step'] === 'find_payment',
  )
  return reads.reduce((sum, { value }) => sum + value, 0)
}

function expectLost({ status, body, headers }: Answer, lines: LogLine[]): void {
  expect([status, body.error.code, headers.get('retry-after')]).toEqual([503, 'database_unavailable', '1'])
  expect(body.error.message).toBe('The database lost this request. Repeat it with the same idempotency key.')
  expect(
    lines.filter(({ msg }) => msg.startsWith('the database lost the commit of an accepted request')),
  ).not.toEqual([])
}

test('a creation that the database loses while its caller waits is answered 503, and can be repeated', async ({
  world,
}) => {
  const { client, tenant_id, lines } = await openApi(world)
  const since = await now(world)
  const hold = await fault(world, { match: { method: 'POST', path: '/v1/payment_intents$' }, fault: 'hold' })
  const body = { ...PAYMENT, idempotency_key: freshKey() }
  const waiting = client.post('/v1/payments', body, WAIT)
  await hold.hit()
  await loseSince(world, tenant_id, since)
  expectLost(await waiting, lines)
  await hold.remove()
  const again = await client.post('/v1/payments', body, WAIT)
  expect([again.status, again.body.status, again.headers.get('idempotent-replayed')]).toEqual([
    201,
    'requires_action',
    null,
  ])
})

test('a change whose job the database loses is answered 503, although its resource is still there', async ({
  world,
}) => {
  const { client, tenant_id, lines } = await openApi(world)
  const payment = await authorizedPayment(client)
  const since = await now(world)
  const hold = await fault(world, {
    match: { path: `${payment.processor_reference}/capture` },
    fault: 'hold',
  })
  const waiting = client.post(`/v1/payments/${payment.id}/capture`, { idempotency_key: freshKey() }, WAIT)
  await hold.hit()
  await world.sql.begin(async (tx) => {
    await tx`delete from jobs where tenant_id = ${tenant_id} and name = 'payment.capture'`
    await tx`delete from idempotency_keys where tenant_id = ${tenant_id} and created_at > ${since}`
    await tx`update payments set status = 'authorized' where id = ${payment.id}`
  })
  expectLost(await waiting, lines)
  await hold.remove()
})

test('a replay that waits is answered 503 as well', async ({ world }) => {
  const { client, tenant_id, lines } = await openApi(world)
  const since = await now(world)
  const hold = await fault(world, { match: { method: 'POST', path: '/v1/payment_intents$' }, fault: 'hold' })
  const body = { ...PAYMENT, idempotency_key: freshKey() }
  expect((await client.post('/v1/payments', body, { prefer: 'respond-async' })).status).toBe(202)
  const reads = await countReads()
  const waiting = client.post('/v1/payments', body, WAIT)
  // The replay has found its key and waits.
  await eventually(async () => expect(await countReads()).toBeGreaterThan(reads))
  await hold.hit()
  await loseSince(world, tenant_id, since)
  expectLost(await waiting, lines)
  await hold.remove()
})

test('the SDK repeats a lost request with its key', async ({ world }) => {
  const { url, key, tenant_id } = await openApi(world)
  const since = await now(world)
  const hold = await fault(world, { match: { method: 'POST', path: '/v1/payment_intents$' }, fault: 'hold' })
  const statuses: number[] = []
  const sluice = new Sluice({
    api_key: key,
    base_url: url,
    fetch: async (...request) => {
      const response = await fetch(...request)
      statuses.push(response.status)
      return response
    },
  })
  const waiting = sluice.payments.create({ ...PAYMENT, idempotency_key: freshKey() }, { wait_s: 30 })
  await hold.hit()
  await loseSince(world, tenant_id, since)
  await hold.remove()
  expect(await waiting).toMatchObject({ status: 'requires_action', tenant_id })
  expect(statuses).toEqual([503, 201])
})

// Tests restores of the database: what the outside world did since stays done, and is done once.
import { join } from 'node:path'
import { expect, test as anyTest } from 'vitest'
import { freshKey, type Answer } from '#test/client.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { ASYNC, capturedPayment, createPayment, eventually } from '#test/payments.ts'
import { recipient } from '#test/payouts.ts'
import { until } from '#test/process.ts'
import { startRestorablePostgres, type RestorablePostgres } from '#test/restorable.ts'

type Restorable = Deployment & { server: RestorablePostgres }

const test = anyTest
  // oxlint-disable-next-line no-empty-pattern
  .extend('deployment', { scope: 'file' }, async ({}, { onCleanup }): Promise<Restorable> => {
    const cleanup = new AsyncDisposableStack()
    onCleanup(() => cleanup.disposeAsync())
    const folder = await createTemporaryFolder()
    cleanup.defer(() => folder.remove())
    const server = await startRestorablePostgres(join(folder.path, 'postgres'), { shared_buffers: '64MB' })
    cleanup.defer(() => server.stop())
    const server_url = server.postgres.url
    const deployment = await createDeployment({ queue: 'redis', server_url, webhooks: true })
    cleanup.defer(() => deployment.close())
    await Promise.all([deployment.startApi(), deployment.startWorker()])
    return { ...deployment, server }
  })

/** A request with its key, and the answer that its client got first. */
type Sent = { path: string; body: { idempotency_key: string }; answer: Answer }

async function send({ client }: Deployment, path: string, fields: object): Promise<Sent> {
  const body = { ...fields, idempotency_key: freshKey() }
  const answer = await client.post(path, body, { prefer: 'wait=20' })
  expect([200, 201]).toContain(answer.status)
  return { path, body, answer }
}

/** Repeats a request with its key until it is answered. */
async function repeat({ client }: Deployment, { path, body }: Sent): Promise<Answer> {
  return await until(`POST ${path} is answered`, async () => {
    const answer = await client.post(path, body, { prefer: 'wait=5' }).catch(() => null)
    return answer !== null && ![202, 503].includes(answer.status) && answer
  })
}

async function clockOf({ sql }: Deployment): Promise<string> {
  const [row] = await sql<{ now: string }[]>`select clock_timestamp()::text as now`
  return row!.now
}

/** The effects in the processor's own record that carry this value in their metadata. */
async function effectsWith({ provider }: Deployment, id: string): Promise<string[]> {
  const all: { effect: string; metadata: Record<string, string> }[] = await provider('stripe').effects()
  return all.filter(({ metadata }) => Object.values(metadata).includes(id)).map(({ effect }) => effect)
}

/** What has money to move: a balance, recipients and payments. */
async function prepare(deployment: Deployment) {
  const { client } = deployment
  await capturedPayment(client, { amount_minor: 50_000 })
  const authorized = (await createPayment(client)).body
  const captured = await capturedPayment(client)
  const [bank, account] = [await recipient(client), await recipient(client, 'acct_success')]
  return { authorized, captured, bank, account }
}

test.for(['run on', 'are restarted'] as const)(
  'requests that were done after the time of a restore have one effect when repeated, if processes %s',
  async (processes, { deployment }) => {
    const { authorized, captured, bank, account } = await prepare(deployment)
    await deployment.server.backUp()
    const time = await clockOf(deployment)
    const payout = { amount_minor: 700, currency: 'usd' }
    const sent = [
      await send(deployment, '/v1/payments', {
        amount_minor: 1000,
        currency: 'USD',
        method: 'card',
        payment_method: 'pm_card_visa',
      }),
      await send(deployment, `/v1/payments/${authorized.id}/capture`, {}),
      await send(deployment, `/v1/payments/${captured.id}/refunds`, { amount_minor: 300 }),
      await send(deployment, '/v1/payouts', { ...payout, recipient_id: bank }),
      await send(deployment, '/v1/payouts', { ...payout, recipient_id: account }),
      await send(deployment, '/v1/wallet/top_ups', { amount_minor: 900, currency: 'usd' }),
    ]
    const effectsOfAll = async () =>
      await Promise.all(sent.map(async ({ answer }) => await effectsWith(deployment, answer.body.id)))
    const done = [['authorize'], ['authorize', 'capture'], ['refund'], ['payout'], ['transfer'], ['top_up']]
    await eventually(async () => expect(await effectsOfAll()).toEqual(done))

    if (processes === 'are restarted') await deployment.killAll()
    await deployment.server.restoreTo(time)
    const keys = sent.map(({ body }) => body.idempotency_key)
    const countKept = async () => {
      const [row] = await deployment.sql`select count(*) from idempotency_keys where key = any(${keys})`
      return row!.count
    }
    expect(await countKept()).toBe(0)
    if (processes === 'are restarted') await Promise.all([deployment.startApi(), deployment.startWorker()])
    for (const each of sent) {
      const { id, processor_reference } = each.answer.body
      expect([each.path, (await repeat(deployment, each)).body]).toMatchObject([
        each.path,
        { id, processor_reference },
      ])
    }
    expect(await countKept()).toBe(sent.length)
    expect(await effectsOfAll()).toEqual(done)
  },
)

test('work that was open at the time of a restore and is done is not done twice', async ({ deployment }) => {
  const { client, server } = deployment
  const { authorized, captured, bank } = await prepare(deployment)
  await deployment.killWorkers()
  const paths: [path: string, body: object][] = [
    [`/v1/payments/${authorized.id}/capture`, {}],
    [`/v1/payments/${captured.id}/refunds`, { amount_minor: 300 }],
    ['/v1/payouts', { amount_minor: 700, currency: 'usd', recipient_id: bank }],
    ['/v1/wallet/top_ups', { amount_minor: 900, currency: 'usd' }],
  ]
  const ids: string[] = []
  for (const [path, body] of paths) {
    const answer = await client.post(path, { ...body, idempotency_key: freshKey() }, ASYNC)
    expect(answer.status).toBe(202)
    ids.push(answer.body.id as string)
  }
  await server.backUp()
  const time = await clockOf(deployment)
  await deployment.startWorker()
  const effectsOfAll = async () => await Promise.all(ids.map((id) => effectsWith(deployment, id)))
  const done = [['authorize', 'capture'], ['refund'], ['payout'], ['top_up']]
  await eventually(async () => expect(await effectsOfAll()).toEqual(done))

  await server.restoreTo(time)
  await eventually(async () => {
    const open = await deployment.sql`
      select name from jobs where resource_id = any(${[...ids, captured.id]}) and finished_at is null`
    expect(open).toEqual([])
  })
  expect(await effectsOfAll()).toEqual(done)
})

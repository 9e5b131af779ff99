// A worker that gets SIGTERM: calls in progress end by themselves, and jobs whose call was not sent are given back.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test, type TestContext } from 'vitest'
import { freshKey } from '#test/client.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'
import { lockTable } from '#test/locks.ts'
import { until } from '#test/process.ts'

const STOPPING = 'stopping: finishing the work in progress'
/** Longer than a worker gave its calls before `SHUTDOWN_TIMEOUT_S` existed. */
const LONG_CALL_MS = 11_000

async function deploy({ onTestFinished }: TestContext): Promise<Deployment> {
  const deployment = await createDeployment({ queue: 'redis' })
  onTestFinished(() => deployment.close())
  await deployment.startApi()
  return deployment
}

/** Starts a task whose call the emulator holds until `release` is called. */
async function startHeldTask({ client, provider }: Deployment) {
  const hold = await provider('ai').fault({ fault: 'hold' })
  const task = { idempotency_key: freshKey(), kind: 'generate', input: { prompt: 'Wait.' } }
  const { body } = await client.post('/v1/ai/tasks', task)
  await hold.hit()
  const read = async () => (await client.get(`/v1/ai/tasks/${body.id}`)).body
  return { release: () => hold.release(), read }
}

// The tests run concurrently: each has its own deployment, and mostly waits. `expect.poll` belongs to a test.
test.concurrent('by default, a long call in progress ends by itself, and its worker with it', async (context) => {
  const deployment = await deploy(context)
  const worker = await deployment.startWorker({ SHUTDOWN_TIMEOUT_S: '' })
  const task = await startHeldTask(deployment)
  worker.signal('SIGTERM')
  await worker.waitForLine(STOPPING)
  await sleep(LONG_CALL_MS)
  await task.release()
  expect(await worker.ended).toEqual({ code: 0, signal: null })
  expect(await task.read()).toMatchObject({ status: 'succeeded', attempts: 1 })
})

test.concurrent('a call in progress is aborted after SHUTDOWN_TIMEOUT_S, and made again by another worker', async (context) => {
  const { expect } = context
  const deployment = await deploy(context)
  const worker = await deployment.startWorker({ SHUTDOWN_TIMEOUT_S: '1' })
  const task = await startHeldTask(deployment)
  worker.signal('SIGTERM')
  expect(await worker.ended).toEqual({ code: 0, signal: null })
  await deployment.startWorker()
  await expect.poll(task.read).toMatchObject({ status: 'succeeded' })
  await task.release()
})

test.concurrent('a job that waits for a connection is given back at once, while a call in progress goes on', async (context) => {
  const { expect } = context
  const deployment = await deploy(context)
  const worker = await deployment.startWorker({ SHUTDOWN_TIMEOUT_S: '', SMTP_CONNECTIONS: '1' })
  const { client, provider, sql } = deployment
  const hold = await provider('smtp').fault({ match: { method: 'DOT' }, fault: 'hold' })
  const send = async (to: string) => {
    const email = { idempotency_key: freshKey(), to: [to], subject: 'Shipped', text: 'It is on its way.' }
    return (await client.post('/v1/messages/email', email)).body.id
  }
  const stateOf = async (id: string) =>
    (await sql`select state from jobs where resource_id = ${id}`)[0]!.state
  const sent = await send('ada@example.com')
  await hold.hit()
  const waiting = await send('grace@example.com')
  await expect.poll(() => stateOf(waiting)).toBe('running')
  worker.signal('SIGTERM')
  await expect.poll(() => stateOf(waiting)).toBe('ready')
  expect(await stateOf(sent)).toBe('running')
  await hold.release()
  expect(await worker.ended).toEqual({ code: 0, signal: null })
  expect((await client.get(`/v1/messages/${sent}`)).body).toMatchObject({ status: 'sent' })
})

test.concurrent('a stopped worker claims no more jobs while recurring work waits for a provider', async (context) => {
  const { expect } = context
  const deployment = await deploy(context)
  const { client, provider, sql } = deployment
  const hold = await provider('stripe').fault({ match: { path: '^/v1/events' }, fault: { hold: 'before' } })
  const worker = await deployment.startWorker({ RECONCILE_EVERY_S: '1' })
  await hold.hit()
  worker.signal('SIGTERM')
  await worker.waitForLine(STOPPING)
  const email = {
    idempotency_key: freshKey(),
    to: ['ada@example.com'],
    subject: 'Shipped',
    text: 'On its way.',
  }
  const { body } = await client.post('/v1/messages/email', email, { prefer: 'respond-async' })
  const next = await deployment.startWorker()
  await expect
    .poll(async () => (await client.get(`/v1/messages/${body.id}`)).body)
    .toMatchObject({ status: 'sent' })
  await hold.release()
  expect(await worker.ended).toEqual({ code: 0, signal: null })
  expect(await sql`select distinct worker from jobs where resource_id = ${body.id}`).toHaveLength(1)
  expect(worker.output()).not.toContain(body.id)
  expect(next.output()).toContain(body.id)
})

test('a call that ended before the worker stopped is settled although the database fails', async (context) => {
  const deployment = await deploy(context)
  const { sql } = deployment
  const worker = await deployment.startWorker({ SHUTDOWN_TIMEOUT_S: '0' })
  const task = await startHeldTask(deployment)
  const { locked, unlock } = lockTable(sql, 'ai_tasks')
  await locked
  const failSettlement = () =>
    until('the connection of the settlement is ended', async () => {
      const ended = await sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%fenced as (%'`
      return ended.count > 0
    })
  await task.release()
  await failSettlement()
  worker.signal('SIGTERM')
  await worker.waitForLine(STOPPING)
  await failSettlement()
  await unlock()
  expect(await worker.ended).toEqual({ code: 0, signal: null })
  expect(await task.read()).toMatchObject({ status: 'succeeded', attempts: 1 })
})

// Crashes and outages of Postgres: requests get 503 with Retry-After, and no write is partial.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import { problemOfStandby } from '#core/postgres/settings.ts'
import { isUnavailable, type Sql, type Tx } from '#core/db.ts'
import { freePort } from '#start/ports.ts'
import { startPostgres, type EmbeddedPostgres } from '#start/postgres.ts'
import { onlyWithQueue } from '#test/backends.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { expectNothingLost, pay, startLoad } from '#test/load.ts'
import { startProcess, until } from '#test/process.ts'
import { createDeployment } from '#test/deployment.ts'
import { freshKey } from '#test/client.ts'
import { loseStandby } from '#test/lost-standby.ts'
import { startProxy } from '#test/proxy.ts'
import { OPERATIONS_READY } from '#test/served-metrics.ts'
import { postgresUrl } from '#test/suite.ts'

const withConnection = { concurrent: false }

describe.concurrent.each(['redis', 'postgres'] as const)('Postgres crashes, with wake-ups on %s', (queue) => {
  let postgres: EmbeddedPostgres
  let removeFolder: () => Promise<void>

  beforeAll(async () => {
    const folder = await createTemporaryFolder()
    removeFolder = folder.remove
    postgres = await startPostgres({
      data_dir: join(folder.path, 'postgres'),
      settings: { shared_buffers: '64MB' },
    })
  })
  afterAll(async () => {
    await postgres.stop()
    await removeFolder()
  })

  test(
    'Postgres restarts under load, and each idempotency key leads to one payment',
    withConnection,
    async ({ onTestFinished }) => {
      const deployment = await createDeployment({ queue, server_url: postgres.url, webhooks: true })
      onTestFinished(() => deployment.close())
      const [api, worker] = await Promise.all([deployment.startApi(), deployment.startWorker()])
      const load = startLoad(deployment.client, { clients: 15, pause_ms: 1000 })
      await load.untilPaid(15)
      for (let crashes = 1; crashes <= 2; crashes++) {
        await postgres.kill()
        // The API process keeps running, so every request gets a response.
        await until('a request is answered 503', async () => {
          return (await deployment.client.get('/v1/payments')).status === 503
        })
        await postgres.restart('immediate')
        await load.untilPaid(15)
      }
      const paid = await load.stop()
      const statuses = new Set(paid.flatMap((each) => each.answers))
      expect([...statuses].filter((status) => ![200, 201, 202, 503].includes(status))).toEqual([])
      await expectNothingLost(deployment, paid)
      expect(await api.end('SIGTERM')).toEqual({ code: 0, signal: null })
      expect(await worker.end('SIGTERM')).toEqual({ code: 0, signal: null })
    },
  )

  test.for(onlyWithQueue('redis', queue))(
    'a commit that did not wait for its synchronous standby is answered 503, and so is a replay',
    withConnection,
    async (_, { onTestFinished }) => {
      const deployment = await createDeployment({ queue, server_url: postgres.url })
      onTestFinished(() => deployment.close())
      const standby = await loseStandby(postgres)
      onTestFinished(() => standby.close())
      const sql = connectDatabase(deployment.env.DATABASE_URL!, { max: 1, application_name: 'test' })
      onTestFinished(() => sql.end({ timeout: 1 }))
      const with_settings = new URL(deployment.env.DATABASE_URL!)
      with_settings.searchParams.set('synchronous_commit', 'on')
      with_settings.searchParams.set('client_min_messages', 'error')
      const chosen = connectDatabase(with_settings.href, { max: 1, application_name: 'test' })
      onTestFinished(() => chosen.end({ timeout: 1 }))
      // What a session sets shows nothing about the others.
      const isSynchronous = async (session: Sql) => {
        const [row] = await session<{ is_synchronous: boolean }[]>`
          select has_synchronous_standby() as is_synchronous`
        return row!.is_synchronous
      }
      expect([await isSynchronous(sql), await isSynchronous(chosen)]).toEqual([true, false])
      expect(await problemOfStandby(chosen)).toContain('DATABASE_URL sets synchronous_commit')
      const write = (sender: Sql | Tx) => sender`select pg_logical_emit_message(true, 'test', '')`
      const inTransaction = () => sql.begin(async (tx) => void (await write(tx)))
      const failures = [
        await standby.whileEndingWaits(errorOf(write(sql))),
        await standby.whileEndingWaits(errorOf(write(chosen))),
        await standby.whileEndingWaits(errorOf(inTransaction())),
        await standby.whileEndingWaits(errorOf(write(sql)), 'pg_terminate_backend'),
      ]
      expect(failures.map((error) => [(error as Error).name, isUnavailable(error)])).toEqual(
        Array.from({ length: 4 }, () => ['UnreplicatedCommitError', true]),
      )

      const api = await standby.whileEndingWaits(deployment.startApi({ SYNCHRONOUS_STANDBY: 'true' }))
      const body = { idempotency_key: freshKey(), email: 'ada@example.com' }
      const create = () => deployment.client.post('/v1/customers', body)
      for (const request of ['first', 'replay']) {
        const refused = await standby.whileEndingWaits(create())
        expect([request, refused.status, refused.body.error?.code]).toEqual([
          request,
          503,
          'database_unavailable',
        ])
        expect(refused.headers.get('retry-after')).toBe('1')
      }
      expect(await api.waitForLine('a request failed')).toContain(
        'a commit may be missing at the synchronous standby',
      )
      await standby.end()
      const replayed = await create()
      expect([replayed.status, replayed.headers.get('idempotent-replayed')]).toEqual([201, 'true'])
    },
  )

  test.for(onlyWithQueue('postgres', queue))(
    'if Postgres is unavailable at the start, the API is not ready, answers 503 and logs a warning until Postgres is up',
    withConnection,
    async (_, { onTestFinished }) => {
      const deployment = await createDeployment({ queue, server_url: postgres.url })
      onTestFinished(() => deployment.close())
      await postgres.kill()
      const METRICS_PORT = String(await freePort('127.0.0.1'))
      const readiness = async () => (await fetch(`http://127.0.0.1:${METRICS_PORT}/readyz`)).status
      const [api, worker] = await Promise.all([
        deployment.startApi({ METRICS_PORT }),
        deployment.startWorker(),
      ])
      await api.waitForLine(OPERATIONS_READY)
      expect(await readiness()).toBe(503)
      const refused = await deployment.client.get('/v1/payments')
      expect(refused).toMatchObject({ status: 503, body: { error: { code: 'database_unavailable' } } })
      expect(refused.headers.get('retry-after')).toBe('1')
      await api.waitForLine('ECONNREFUSED')
      const failed = [
        await api.waitForLine('a request failed'),
        await worker.waitForLine('recurring work failed'),
      ]
      for (const line of failed) {
        expect(line).toContain('"reason":"the database does not answer"')
        expect(line).not.toContain('"stack"')
      }
      expect(worker.output()).not.toContain('the recurring task')
      await postgres.restart('immediate')
      await until('the API is ready', async () => (await readiness()) === 200)
      await expectNothingLost(deployment, [await pay(deployment.client)])
    },
  )
})

function errorOf(work: PromiseLike<unknown>): Promise<unknown> {
  return Promise.resolve(work).then(
    () => undefined,
    (error: unknown) => error,
  )
}

test.concurrent('connections that stop responding under load are replaced, and work continues', async ({
  onTestFinished,
}) => {
  const deployment = await createDeployment({ queue: 'redis' })
  onTestFinished(() => deployment.close())
  const proxy = await startProxy(deployment.env.DATABASE_URL!)
  onTestFinished(() => proxy.close())
  await deployment.startApi({ DATABASE_URL: proxy.url })
  await deployment.startWorker({ DATABASE_URL: proxy.url })
  const load = startLoad(deployment.client, { clients: 10, pause_ms: 200 })
  await load.untilPaid(20)
  proxy.freeze()
  const before = load.paid.length
  await load.untilPaid(20)
  const paid = await load.stop()
  expect(paid.length).toBeGreaterThan(before)
  await expectNothingLost(deployment, paid)
})

test.concurrent('a connection pool survives crashes: every query resolves or rejects', async ({
  onTestFinished,
}) => {
  const folder = await createTemporaryFolder()
  onTestFinished(() => folder.remove())
  const postgres = await startPostgres({
    data_dir: join(folder.path, 'postgres'),
    settings: { shared_buffers: '64MB' },
  })
  onTestFinished(() => postgres.stop())
  const sql = connectDatabase(postgres.url, { max: 8, application_name: 'test' })
  onTestFinished(() => sql.end({ timeout: 1 }))
  const stopping = new AbortController()
  const refusals: unknown[] = []
  const wrong: unknown[] = []
  async function runQueries(): Promise<void> {
    for (let sequence = 0; !stopping.signal.aborted; sequence++) {
      const rows = await sql`select ${sequence}::integer as sequence`.catch((error: unknown) => {
        refusals.push(error)
        return [{ sequence }]
      })
      if (rows[0]?.sequence !== sequence) wrong.push({ sequence, rows })
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const all = Promise.all(Array.from({ length: 40 }, runQueries))
  for (let crashes = 1; crashes <= 3; crashes++) {
    await sleep(300)
    await postgres.restart('immediate')
  }
  await sleep(300)
  stopping.abort()
  await all
  expect(wrong).toEqual([])
  expect(refusals.filter((error) => !isUnavailable(error))).toEqual([])
})

test('a connection that closes before a write, or has no error listener, does not end the process', async ({
  onTestFinished,
}) => {
  const file = fileURLToPath(new URL('support/late-write.ts', import.meta.url))
  const env = { DATABASE_URL: await postgresUrl() }
  const process = await startProcess(file, { env, ready: 'it lives' })
  onTestFinished(async () => void (await process.end()))
  expect(await process.end('SIGTERM')).toEqual({ code: 0, signal: null })
})

test('an uncaught error that is not the loss of a connection to PostgreSQL ends the process', async ({
  onTestFinished,
}) => {
  const file = fileURLToPath(new URL('support/late-write.ts', import.meta.url))
  const env = { DATABASE_URL: await postgresUrl(), THROWS: 'nobody expects it' }
  const process = await startProcess(file, { env, ready: 'it lives' })
  onTestFinished(async () => void (await process.end()))
  expect(await process.ended).toEqual({ code: 1, signal: null })
  expect(process.output()).toContain('nobody expects it')
})

test('a process whose configuration names no database reports the missing variable', async () => {
  for (const file of ['src/api/main.ts', 'src/workers/main.ts', 'src/webhooks/main.ts']) {
    const started = startProcess(file, { env: { METRICS_PORT: '0' }, ready: 'never said' })
    await expect(started).rejects.toThrow(/DATABASE_URL is not set. Example: DATABASE_URL=postgres:/)
  }
})

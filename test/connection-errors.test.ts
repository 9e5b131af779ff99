// An error of the connection is no error of the statement: it uses up no attempt, and callers get 503.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import { beforeAll, describe, expect, onTestFinished, test, type TestContext } from 'vitest'
import { databaseCode, isDatabaseFailure, isUnavailable, type Sql } from '#core/db.ts'
import { connectDatabase } from '#core/pool.ts'
import { isUnhandledConnectionLoss } from '#core/postgres/unheard-losses.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { findRetrying } from '#domain/jobs/retrying.ts'
import { sendEmail } from '#jobs/messages.ts'
import { BY_CARD, freshKey } from '#test/client.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { ASYNC, authorizedPayment, capturedPayment, eventually, paymentIn, refund } from '#test/payments.ts'
import { until } from '#test/process.ts'
import { startProxy, type Proxy } from '#test/proxy.ts'
import { postgresUrl } from '#test/suite.ts'
import { describeIn, type World } from '#test/world.ts'
import { giveBack, settlementOf } from '#workers/decision.ts'

const CODES = '26000 42P05 08P01 57P01 57P02 57P03 25006 08006 53300 25P03 25P04 28P01 3D000'.split(' ')
const STATEMENT_CODES = ['57014', '53100']
/** The attempts that remain while the first one is under way: 25 in all. */
const ALL_LEFT = 24

/** Tests that wait for seconds run in turn in their own environment, beside those of other environments. */
const inTurn = { concurrent: false }

describeIn('an error of the connection', { concurrent: true }, (test) => {
  test.beforeAll(async ({ world }) => await refusePayments(world.sql))

  test('uses up no attempt of a job, and an error of the statement does', inTurn, async ({ world }) => {
    const { client, sql } = world
    const payments = new Map<string, string>()
    for (const code of [...CODES, ...STATEMENT_CODES])
      payments.set(code, (await authorizedPayment(client)).id as string)
    await sql`insert into refusals (payment_id) values (null)`
    const capture = async (code: string) => {
      const id = payments.get(code)!
      await sql`insert into refusals values (${id}, ${code})`
      expect((await client.post(`/v1/payments/${id}/capture`, undefined, ASYNC)).status).toBe(202)
    }
    for (const code of CODES) await capture(code)
    for (const code of CODES) {
      await sql`update refusals set code = ${code} where payment_id is null`
      const body = { ...BY_CARD, idempotency_key: freshKey(), amount_minor: 1000 }
      const created = await client.post('/v1/payments', body)
      expect([code, created.status, created.body]).toMatchObject([
        code,
        503,
        { error: { code: 'database_unavailable' } },
      ])
    }
    for (const code of CODES) {
      const job = await until(`two attempts have ended with ${code}`, async () => {
        const found = await captureOf(world, payments.get(code)!)
        return found.given_back >= 2 && found
      })
      expect([code, job.failing]).toEqual([code, true])
      expect(job.left).toBeGreaterThanOrEqual(ALL_LEFT)
    }
    expect((await findRetrying(sql)).get('payment.capture')?.retrying).toBeGreaterThanOrEqual(CODES.length)
    // A statement that always takes too long, or finds the disk full, must end some day. These jobs begin last: the
    // error of a statement is that of all jobs in it.
    for (const code of STATEMENT_CODES) await capture(code)
    for (const code of STATEMENT_CODES)
      await until(
        `attempts that end with ${code} are counted`,
        async () => (await captureOf(world, payments.get(code)!)).left < ALL_LEFT - 1,
      )
    await sql`delete from refusals`
    await sql`update jobs set run_at = now() where finished_at is null and state = 'ready'`
    for (const id of payments.values()) await paymentIn(client, id, 'captured')
  })

  test('delays the next attempt for longer and longer', inTurn, async ({ world }) => {
    const { client, sql } = world
    const { id } = await authorizedPayment(client)
    await sql`insert into refusals values (${id}, '57P01')`
    await client.post(`/v1/payments/${id}/capture`, undefined, ASYNC)
    await until('an attempt is given back', async () => (await captureOf(world, id)).given_back > 0)
    await pauseJobs(sql, { queue: 'payments' })
    await until('no attempt is under way', async () => (await captureOf(world, id)).state === 'ready')
    await sql`
      update jobs set last_error = jsonb_set(last_error, '{context,database_failures}', '20'), run_at = now()
      where resource_id = ${id} and name = 'payment.capture'`
    await resumeJobs(sql, { queue: 'payments' })
    const job = await until('another attempt is given back', async () => {
      const found = await captureOf(world, id)
      return found.given_back > 20 && found
    })
    // At least a tenth of the longest delay, 30 s.
    expect(job.due_s).toBeGreaterThan(1)
    await sql`delete from refusals where payment_id = ${id}`
    await sql`update jobs set run_at = now() where resource_id = ${id} and finished_at is null`
    await paymentIn(client, id, 'captured')
    await world.drain()
    expect(await captureOf(world, id)).toMatchObject({ given_back: 0, failing: false })
  })
})

/** Makes PostgreSQL refuse to create payments, and to capture a payment, with the codes in `refusals`. */
async function refusePayments(sql: Sql): Promise<void> {
  await sql.unsafe(`
    create table refusals (payment_id uuid, code text);
    create function refuse() returns trigger language plpgsql security definer as $$
    declare refusal text := (
      select code from refusals where payment_id is not distinct from case when tg_op = 'UPDATE' then new.id end);
    begin
      if refusal is not null then raise exception 'refused' using errcode = refusal; end if;
      return new;
    end $$;
    grant execute on function refuse() to public;
    create trigger refuse before update on payments for each row when (new.status = 'captured') execute function refuse();
    create trigger refuse_new before insert on payments for each row execute function refuse();`)
}

/** `due_s`: the time until the next attempt. */
async function captureOf({ sql }: World, payment_id: string) {
  const [job] = await sql<
    { state: string; left: number; given_back: number; failing: boolean; due_s: number }[]
  >`
    select state, max_attempts - attempt as left, failing_since is not null as failing,
      coalesce((last_error #>> '{context,database_failures}')::integer, 0) as given_back,
      extract(epoch from run_at - now())::float8 as due_s
    from jobs where resource_id = ${payment_id} and name = 'payment.capture'`
  return job!
}

describe.concurrent('a connection that is lost before the answer to a write', () => {
  let deployment: Deployment
  let proxy: Proxy

  beforeAll(async () => {
    deployment = await createDeployment({ queue: 'redis' })
    proxy = await startProxy(deployment.env.DATABASE_URL!)
    await deployment.startApi()
    return async () => {
      await deployment.close()
      await proxy.close()
    }
  })

  /**
   * Runs an AI task and loses the answer to the first write that gives it this status. `meanwhile` runs before the
   * worker notices the loss.
   */
  async function loseAnswer(
    { onTestFinished: onEnd }: TestContext,
    status: 'running' | 'succeeded',
    meanwhile: (id: string) => Promise<unknown> = async () => {},
  ) {
    const { client, sql } = deployment
    const worker = await deployment.startWorker({ DATABASE_URL: proxy.url })
    onEnd(async () => void (await worker.end()))
    const read = async (id: string) => (await client.get(`/v1/ai/tasks/${id}`)).body
    proxy.withholdAnswersTo(`"status":"${status}"`)
    const task = { idempotency_key: freshKey(), kind: 'generate', input: { prompt: 'Hello' } }
    const { id } = (await client.post('/v1/ai/tasks', task)).body
    await until(`the task is ${status}`, async () => (await read(id)).status === status)
    await meanwhile(id)
    proxy.withholdAnswersTo()
    const ended = JSON.parse(await worker.waitForLine('an attempt ended'))
    await until('the task has succeeded', async () => (await read(id)).status === 'succeeded')
    const [job] = await sql<{ attempt: number }[]>`select attempt from jobs where resource_id = ${id}`
    return { ended, claims: job!.attempt, attempts: (await read(id)).attempts }
  }

  test('counts no attempt twice', inTurn, async (context) => {
    const { ended, claims, attempts } = await loseAnswer(context, 'running')
    expect(ended).toMatchObject({ outcome: 'returned', state: 'ready' })
    expect([claims, attempts]).toEqual([2, 2])
  })

  test('does not change the outcome of an attempt', inTurn, async (context) => {
    const { ended, claims } = await loseAnswer(context, 'succeeded')
    expect(ended).toMatchObject({ outcome: 'done', state: 'succeeded' })
    expect(claims).toBe(1)
  })

  test(
    "does not count the outcome of another worker's attempt, after a failover that lost the claim",
    inTurn,
    async (context) => {
      // What the other worker writes: an attempt with the same number and a later claim.
      const { ended } = await loseAnswer(
        context,
        'succeeded',
        async (id) =>
          await deployment.sql`update jobs set worker = 'other', started_at = now() where resource_id = ${id}`,
      )
      expect(ended).toMatchObject({ outcome: 'fenced' })
    },
  )
})

const IN_PROCESS = { notifications: false, concurrent: true }
describeIn('a statement that waits too long in its process', IN_PROCESS, (test) => {
  test('uses up no attempt, because it is not sent', async ({ world, onTestFinished: onEnd }) => {
    const { client, sql } = world
    const { id } = await capturedPayment(client)
    await world.drain()
    // Refunds of one payment are settled one after another, and each waits for the lock for 10 s.
    await pauseJobs(sql, { queue: 'payments' })
    for (const amount_minor of [1, 2, 3, 4]) await refund(client, id, { amount_minor }, ASYNC)
    const released = Promise.withResolvers<void>()
    onEnd(() => released.resolve())
    const locked = sql.begin(async (tx) => {
      await tx`select from payments where id = ${id} for update`
      await resumeJobs(sql, { queue: 'payments' })
      await released.promise
    })
    const jobs = () => sql<{ left: number; code: string | null }[]>`
      select j.max_attempts - j.attempt as left, a.error ->> 'code' as code
      from jobs j join job_attempts a on a.job_id = j.id where j.resource_id = ${id} and j.name = 'refund.create'`
    const given_back = await eventually(async () => {
      const found = (await jobs()).filter(({ code }) => code === 'database_unavailable')
      expect(found.length).toBeGreaterThan(0)
      return found
    }, 90_000)
    for (const { left } of given_back) expect(left).toBeGreaterThanOrEqual(ALL_LEFT)
    released.resolve()
    await locked
    await world.drain()
    const { body } = await client.get(`/v1/payments/${id}`)
    expect(body).toMatchObject({ amount_refunded_minor: 10 })
  })
})

describe('the delay of an attempt after errors of the database in a row', () => {
  const delayAfter = (errors: number) =>
    settlementOf(
      { call: null, database_failures: errors - 1 } as ClaimedJob,
      // The other retries of this job are delayed for up to ten minutes.
      sendEmail,
      giveBack('the connection was lost', { database_failed: true }),
    ).delay_ms!

  test('is half a second after one error', () => expect(delayAfter(1)).toBe(500))

  test.each([
    [2, 500, 5_000],
    [3, 1_000, 10_000],
    [4, 2_000, 20_000],
    [5, 3_000, 30_000],
    [500, 3_000, 30_000],
  ])('is random after %i errors, from %i to %i ms', (errors, min_ms, max_ms) => {
    const delays = Array.from({ length: 1000 }, () => delayAfter(errors))
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(min_ms)
    expect(Math.max(...delays)).toBeLessThanOrEqual(max_ms)
    expect(Math.max(...delays)).toBeGreaterThan(max_ms / 2)
  })
})

describeIn('an error that ends a connection', { parts: [] }, (test) => {
  const open = (url: URL | string, settings: Record<string, string> = {}) => {
    const address = new URL(url)
    for (const [name, value] of Object.entries(settings)) address.searchParams.set(name, value)
    const sql = connectDatabase(address.href, { max: 1, application_name: 'test' })
    onTestFinished(() => sql.end({ timeout: 1 }))
    return sql
  }
  const changed = async (part: 'username' | 'pathname', value: string) =>
    Object.assign(new URL(await postgresUrl()), { [part]: value })

  test.for<[code: string, fail: () => Promise<unknown>]>([
    ['57P01', async () => await open(await postgresUrl())`select pg_terminate_backend(pg_backend_pid())`],
    [
      '25P04',
      async () => await open(await postgresUrl(), { transaction_timeout: '50' })`select pg_sleep(60)`,
    ],
    ['28P01', async () => await open(await changed('username', 'nobody'))`select`],
    ['3D000', async () => await open(await changed('pathname', '/nothing'))`select`],
    // No code of a connection: the setting does not exist.
    ['42704', async () => await open(await postgresUrl(), { no_setting: '1' })`select`],
  ])('is one of the connection: %s', async ([code, fail]) => {
    const error: unknown = await fail().then(
      () => undefined,
      (refused: unknown) => refused,
    )
    expect([databaseCode(error), isDatabaseFailure(error), isUnavailable(error)]).toEqual([code, true, true])
  })

  test('ends a transaction of several statements at its time limit, and the pool works on', async () => {
    const url = await postgresUrl()
    const sql = connectDatabase(url, { max: 1, application_name: 'test', transaction_timeout_ms: 100 })
    onTestFinished(() => sql.end({ timeout: 1 }))
    const error: unknown = await sql
      .begin(async (tx) => {
        await tx`select 1`
        await tx`select pg_sleep(60)`
      })
      .catch((ended: unknown) => ended)
    // The driver may notice the end of the connection before it has read why.
    expect(['25P04', 'CONNECTION_CLOSED']).toContain(databaseCode(error))
    expect(isUnavailable(error)).toBe(true)
    await expect.poll(() => sql`select 1 as one`.catch(() => [])).toEqual([{ one: 1 }])
  })

  test('is told apart from an error of a statement with the same code', async () => {
    const error: unknown = await open(await postgresUrl())`set no_setting = 1`.catch(
      (refused: unknown) => refused,
    )
    expect([databaseCode(error), isDatabaseFailure(error), isUnavailable(error)]).toEqual([
      '42704',
      false,
      false,
    ])
  })
})

test('a connection that is lost while something is written does not end the process, like one that is lost while it reads', async () => {
  for (const syscall of ['write', 'read']) {
    const server = createServer((socket) => socket.once('data', () => socket.resetAndDestroy()))
    onTestFinished(() => void server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    const failed = once(socket, 'error')
    const write = () => {
      socket.write(Buffer.alloc(syscall === 'write' ? 65_536 : 1))
      if (syscall === 'write' && !socket.destroyed) setImmediate(write)
    }
    socket.once('connect', write)
    const [error] = (await failed) as [NodeJS.ErrnoException]
    expect([error.syscall, isUnhandledConnectionLoss(error)]).toEqual([syscall, true])
  }
})

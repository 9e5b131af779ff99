// Database outages longer than a lease: late answers are settled, and workers do not claim recently expired jobs of
// others.
import { describe, expect, onTestFinished } from 'vitest'
import type { Sql } from '#core/db.ts'
import type { Service } from '#core/service.ts'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { claimJobs } from '#domain/jobs/claim.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import { freshKey } from '#test/client.ts'
import { readMessageState } from '#test/messages.ts'
import { startInThisProcess } from '#test/parts.ts'
import { ASYNC, createPayment, eventually, fault, paymentIn } from '#test/payments.ts'
import { until } from '#test/process.ts'
import { startProxy, type Proxy } from '#test/proxy.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn({ parts: ['api', 'webhooks'], notifications: false })
const TIMEOUT_MS = 300_000

/** Starts workers that reach the database through a proxy. */
async function startWorkers(world: World, count: number): Promise<Proxy> {
  const wire = await startProxy(world.env.DATABASE_URL!)
  onTestFinished(() => wire.close())
  for (let nth = 0; nth < count; nth++) {
    const env = { ...world.env, DATABASE_URL: wire.url }
    const worker = await startInThisProcess('worker', env, createLog('silent', 'test'))
    onTestFinished(() => worker.close())
  }
  return wire
}

/** Sends an email that its server accepts at once and acknowledges when `answer` is called. */
async function sendHeldEmail(world: World, to: string) {
  const hold = await world
    .provider('smtp')
    .fault({ match: { method: 'DOT' }, times: 1, fault: { hold: 'after' } })
  const content = { subject: 'Order', text: 'It is on its way.', idempotency_key: freshKey() }
  const { body } = await world.client.post('/v1/messages/email', { to: [to], ...content }, ASYNC)
  await hold.hit()
  const [job] = await world.sql<{ id: string }[]>`
    select id from jobs where resource_id = ${body.id} and state = 'running'`
  return { message_id: body.id as string, job_id: job!.id, answer: () => hold.remove() }
}

/** Sends an email whose server answers after the outage began. Returns the ids of the message and its job. */
async function answerDuringOutage(world: World, to: string, beginOutage: () => void) {
  const { answer, ...ids } = await sendHeldEmail(world, to)
  beginOutage()
  await answer()
  return ids
}

/**
 * Waits until the lease of the job has been expired for `for_s` seconds. The database has then been away for about 4 s
 * longer.
 */
async function awaitExpiry({ sql }: World, job_id: string, for_s = 4): Promise<void> {
  await eventually(async () => {
    const [job] = await sql`
      select state, lease_until < now() - ${for_s} * interval '1 second' as is_old from jobs where id = ${job_id}`
    expect(job).toEqual({ state: 'running', is_old: true })
  })
}

const emailsTo = async (world: World, to: string): Promise<unknown[]> =>
  await world.provider('smtp').control('GET', `/messages?to=${encodeURIComponent(to)}`)

async function countFenced(): Promise<number> {
  return (await metrics.fenced.get()).values.reduce((sum, { value }) => sum + value, 0)
}

const setAway = {
  'refuses connections': (wire: Proxy, is_away: boolean) => wire.refuse(is_away),
  'does not answer': (wire: Proxy, is_away: boolean) => wire.pause(is_away),
}

test.for([
  [1, 'refuses connections'],
  [6, 'refuses connections'],
  [6, 'does not answer'],
] as const)(
  'with workers: %i, an email that was accepted while the database %s for 8 s is sent once',
  { timeout: TIMEOUT_MS },
  async ([count, how], { world }) => {
    const to = `accepted-${count}-${how.split(' ')[0]}@example.com`
    const wire = await startWorkers(world, count)
    const { message_id, job_id } = await answerDuringOutage(world, to, () => setAway[how](wire, true))
    await awaitExpiry(world, job_id)
    setAway[how](wire, false)
    await eventually(async () =>
      expect(await readMessageState(world, message_id)).toMatchObject({
        status: 'sent',
        job: 'succeeded',
        recipients: ['accepted'],
      }),
    )
    const [job] = await world.sql`
      select j.attempt, j.in_doubt, (select count(*) from job_attempts a where a.job_id = j.id) as unfinished
      from jobs j where j.id = ${job_id}`
    expect(job).toEqual({ attempt: 1, in_doubt: false, unfinished: 0 })
    expect(await emailsTo(world, to)).toHaveLength(1)
  },
)

test(
  'if another worker has claimed the job during the outage, the late answer changes nothing, and the email is unknown',
  { timeout: TIMEOUT_MS },
  async ({ world }) => {
    const { sql } = world
    const to = 'claimed@example.com'
    const wire = await startWorkers(world, 1)
    const { message_id, job_id } = await answerDuringOutage(world, to, () => wire.refuse(true))
    await awaitExpiry(world, job_id)
    const [claimed] = await claimJobs(sql, [job_id], { worker: 'other', names: JOB_NAMES })
    expect(claimed!.call).toMatchObject({ in_doubt: true })
    await sql`update jobs set lease_until = now() + interval '1 minute' where id = ${job_id}`
    const before = await countFenced()
    wire.refuse(false)
    await eventually(async () => expect(await countFenced()).toBe(before + 1))
    const [job] = await sql`select state, attempt, lease_token, in_doubt from jobs where id = ${job_id}`
    expect(job).toEqual({ state: 'running', attempt: 2, lease_token: claimed!.lease_token, in_doubt: true })
    expect(await readMessageState(world, message_id)).toMatchObject({ status: 'sending' })
    // The other worker dies.
    await sql`update jobs set lease_until = now() where id = ${job_id}`
    await eventually(async () =>
      expect(await readMessageState(world, message_id)).toMatchObject({ status: 'unknown', job: 'unknown' }),
    )
    expect(await emailsTo(world, to)).toHaveLength(1)
  },
)

/** Starts a worker of one queue. */
async function startWorkerOf(world: World, queue: string, url = world.env.DATABASE_URL!): Promise<Service> {
  const env = { ...world.env, DATABASE_URL: url, QUEUES: queue }
  return await startInThisProcess('worker', env, createLog('silent', 'test'))
}

/**
 * Adds a trigger that runs `code` at each update of the job that matches `when`. Counts these updates, including failed
 * ones: a sequence does not roll back.
 */
async function addJobTrigger(
  sql: Sql,
  { job_id, when, code }: { job_id: string; when: string; code: string },
) {
  const name = `job_trigger_${job_id.replaceAll('-', '_')}`
  await sql.unsafe(`
    create sequence ${name};
    grant usage on sequence ${name} to public;
    create function ${name}() returns trigger language plpgsql as $$
    begin
      perform nextval('${name}');
      ${code}
      return new;
    end $$;
    create trigger ${name} before update on jobs for each row when (new.id = '${job_id}' and ${when})
      execute function ${name}();`)
  return {
    async count(): Promise<number> {
      const [row] = await sql<{ count: number }[]>`
        select case when is_called then last_value else 0 end as count from ${sql(name)}`
      return row!.count
    },
    end: async () => void (await sql.unsafe(`drop function ${name} cascade; drop sequence ${name}`)),
  }
}

/** Longer than SLOW_STATEMENT_MS. */
const SLOW = 'perform pg_sleep(2.2);'
const FAIL = `raise exception 'the database system is starting up' using errcode = '57P03';`

// These tests wait for seconds, so they run concurrently, each with workers of its own queue.
describe.concurrent('during an outage', () => {
  // The limit is below the minute for which a worker that is not stopping would retry.
  test(
    'a worker that is stopped ends without its answer, and another worker performs the job',
    { timeout: 40_000 },
    // Concurrent tests must use the onTestFinished of their own context.
    async ({ world, onTestFinished: onEnd }) => {
      const { client, sql } = world
      const wire = await startProxy(world.env.DATABASE_URL!)
      onEnd(() => wire.close())
      const worker = await startWorkerOf(world, 'ai', wire.url)
      const hold = await world.provider('ai').fault({ fault: 'hold' })
      const task = { idempotency_key: freshKey(), kind: 'generate', input: { prompt: 'Wait.' } }
      const { body } = await client.post('/v1/ai/tasks', task)
      await hold.hit()
      wire.refuse(true)
      await hold.release()
      await worker.close()
      const attempts = async () =>
        Array.from(
          await sql`
            select a.attempt, a.outcome, j.state from jobs j join all_job_attempts a on a.job_id = j.id
            where j.resource_id = ${body.id} order by a.attempt`,
        )
      expect(await attempts()).toEqual([{ attempt: 1, outcome: null, state: 'running' }])
      const connections = wire.opened()
      wire.refuse(false)
      const other = await startWorkerOf(world, 'ai')
      onEnd(() => other.close())
      await eventually(async () =>
        expect((await client.get(`/v1/ai/tasks/${body.id}`)).body).toMatchObject({ status: 'succeeded' }),
      )
      expect(await attempts()).toEqual([
        { attempt: 1, outcome: null, state: 'succeeded' },
        { attempt: 2, outcome: 'done', state: 'succeeded' },
      ])
      // The stopped worker opens no further connection.
      expect(wire.opened()).toBe(connections)
    },
  )

  test(
    'the settlement of a late answer is retried at most twice a second',
    { timeout: TIMEOUT_MS },
    async ({ world, onTestFinished: onEnd }) => {
      const { sql } = world
      const worker = await startWorkerOf(world, 'messages')
      onEnd(() => worker.close())
      const { message_id, job_id, answer } = await sendHeldEmail(world, 'tried@example.com')
      const tries = await addJobTrigger(sql, { job_id, when: `new.state = 'succeeded'`, code: FAIL })
      await answer()
      // After a failure of the database, the worker's scans leave the expired lease alone.
      await until('the settlement has failed', async () => (await tries.count()) > 0)
      await sql`update jobs set lease_until = now() where id = ${job_id}`
      // The worker considers its lease lost 4 s after its last renewal.
      await awaitExpiry(world, job_id, 5)
      const began_at = performance.now()
      const first = await tries.count()
      await until('the settlement is tried four times', async () => (await tries.count()) >= first + 4)
      const delays = (await tries.count()) - first - 1
      // A timer may run a little early.
      expect(delays * 490).toBeLessThanOrEqual(performance.now() - began_at)
      await tries.end()
      await eventually(async () =>
        expect(await readMessageState(world, message_id)).toMatchObject({ status: 'sent', job: 'succeeded' }),
      )
    },
  )

  test(
    'a worker whose renewals fail or are slow claims no job whose lease expired within the last minute',
    { timeout: TIMEOUT_MS },
    async ({ world, onTestFinished: onEnd }) => {
      const { client, sql } = world
      const jobOf = async (payment_id: string) => {
        const [job] = await sql<{ id: string; state: string; worker: string; attempt: number }[]>`
          select id, state, worker, attempt from jobs where resource_id = ${payment_id}`
        return job!
      }
      for (const code of [FAIL, SLOW]) {
        const [expired_long_ago, just_expired] = [
          await createPayment(client, {}, ASYNC),
          await createPayment(client, {}, ASYNC),
        ]
        const ids = [(await jobOf(expired_long_ago.body.id)).id, (await jobOf(just_expired.body.id)).id]
        await claimJobs(sql, ids, { worker: 'other', names: JOB_NAMES })
        await sql`update jobs set lease_until = now() + interval '1 hour' where id = any(${ids}::uuid[])`
        const worker = await startWorkerOf(world, 'payments')
        onEnd(() => worker.close())
        const hold = await fault(world, { match: { contains: 'amount=2345' }, times: 1, fault: 'hold' })
        const held = await createPayment(client, { amount_minor: 2345 }, ASYNC)
        await hold.hit()
        const { id: job_id } = await jobOf(held.body.id)
        // A renewal fails only while it finds a lease to renew.
        await sql`update jobs set lease_until = now() + interval '1 hour' where id = ${job_id}`
        const renewals = await addJobTrigger(sql, { job_id, when: 'new.lease_token = old.lease_token', code })
        // Each renewal begins after the previous one has ended.
        await eventually(async () => expect(await renewals.count()).toBeGreaterThanOrEqual(2))
        await sql`
          update jobs set lease_until = now() - case when id = ${ids[0]!} then 2 else 0 end * interval '1 minute'
          where id = any(${ids}::uuid[])`
        await paymentIn(client, expired_long_ago.body.id, 'authorized')
        expect(await jobOf(just_expired.body.id)).toMatchObject({
          state: 'running',
          worker: 'other',
          attempt: 1,
        })
        await renewals.end()
        await hold.release()
        await worker.close()
      }
    },
  )
})

test(
  'a job without a wake-up is claimed although each scan is slow',
  { timeout: TIMEOUT_MS },
  async ({ world }) => {
    const { client, sql } = world
    const worker = await startWorkerOf(world, 'payments')
    onTestFinished(() => worker.close())
    await fault(world, { match: { contains: 'amount=3456' }, times: 1, fault: 'error_500_before' })
    const { body } = await createPayment(client, { amount_minor: 3456 }, ASYNC)
    // The second attempt has no wake-up.
    await eventually(async () => {
      const found = await sql`
        update jobs set run_at = now() + interval '1 hour' where resource_id = ${body.id} and state = 'ready' and attempt = 1`
      expect(found.count).toBe(1)
    })
    // Each scan reads the pauses.
    await sql.unsafe(`
      alter table pauses rename to real_pauses;
      create view pauses as select * from real_pauses where (select pg_sleep(2.2)) is not null;
      grant select on pauses to public`)
    onTestFinished(
      async () => void (await sql.unsafe('drop view pauses; alter table real_pauses rename to pauses')),
    )
    await sql`update jobs set run_at = now() where resource_id = ${body.id}`
    await eventually(async () => {
      const [job] = await sql`select attempt from jobs where resource_id = ${body.id}`
      expect(job).toEqual({ attempt: 2 })
    })
  },
)

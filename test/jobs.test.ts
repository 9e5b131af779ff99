// Tests the execution of jobs: lost wake-ups, expired leases, paused queues, and fair shares of tenants.
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect } from 'vitest'
import { newId } from '#core/ids.ts'
import type { Sql } from '#core/db.ts'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { createVault } from '#core/secrets.ts'
import { findDue, findStartable, type ScanKind } from '#domain/jobs/claimable.ts'
import { retryJob } from '#domain/job-acts/act.ts'
import { claimJobs, renewLeases, type ClaimedJob } from '#domain/jobs/claim.ts'
import { settleJobs, type Settlement } from '#domain/jobs/settle.ts'
import { createPayments, type CreateRequest } from '#domain/payments/request.ts'
import { paymentMethodContext } from '#domain/payments/sealed.ts'
import { settlePayments } from '#domain/payments/settle.ts'
import { settleRefunds } from '#domain/refunds/settle.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import { capturePayment } from '#jobs/payments.ts'
import {
  continueWith,
  done,
  failed,
  giveBack,
  park,
  retry,
  rotate,
  retryUndone,
  unanswered,
  unknown,
  type Decision,
} from '#workers/decision.ts'
import { startWorker } from '#workers/main.ts'
import { neverSent } from '#workers/handlers/calls.ts'
import { settlementOf } from '#workers/decision.ts'
import { JOB_ONLY } from '#workers/settle.ts'
import { checkInvariants } from '#test/books.ts'
import { findRemainingProblems } from '#test/invariants.ts'
import { freshKey } from '#test/client.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import {
  ASYNC,
  createPayment,
  effectsOf,
  eventually,
  fault,
  authorizedPayment,
  paymentIn,
  refund,
} from '#test/payments.ts'
import { listEvents, stateOf } from '#test/stripe-events.ts'
import { createWorld, describeIn, testIn, type World } from '#test/world.ts'

const settlement = (job: ClaimedJob, decision: Decision) => settlementOf(job, capturePayment, decision)
const succeeded = (job: ClaimedJob) => settlement(job, done())
const claimOptions = (worker: string) => ({ worker, names: JOB_NAMES })

/**
 * A request as `POST /v1/payments` accepts it. `will_wake` announces a wake-up for its job, but the test sends none.
 */
function request(
  { config, tenant_id: first }: World,
  { will_wake, tenant_id = first }: { will_wake: boolean; tenant_id?: string },
): CreateRequest {
  const job_id = newId()
  return {
    tenant_id,
    payment_id: newId(),
    job_id,
    event_id: newId(),
    will_wake,
    idempotency_key: freshKey(),
    route: 'POST /v1/payments',
    fingerprint: '',
    request_id: null,
    amount_minor: 1000,
    currency: 'USD',
    method: 'card',
    customer_id: null,
    merchant_id: null,
    description: null,
    payment_method: createVault(config.ENCRYPTION_KEY!).seal(
      'pm_card_visa',
      paymentMethodContext(tenant_id, job_id),
    ),
    return_url: null,
    metadata: {},
    processor: 'stripe',
  }
}

async function fencedSoFar(): Promise<number> {
  return (await metrics.fenced.get()).values.reduce((sum, { value }) => sum + value, 0)
}

/** All rows of jobs and their resources. */
async function allRows({ sql }: World): Promise<unknown> {
  const tables = ['jobs', 'job_attempts', 'payments', 'refunds', 'events']
  const ledger = ['ledger_transfers', 'ledger_accounts']
  return await Promise.all(
    [...tables, ...ledger].map(async (table) => [
      table,
      ...(await sql`select to_jsonb(t) as row from ${sql(table)} t order by to_jsonb(t)::text`).map(
        ({ row }) => row,
      ),
    ]),
  )
}

const testByQueue = { redis: testIn({ queue: 'redis' }), postgres: testIn({ queue: 'postgres' }) }
describe.each(['redis', 'postgres'] as const)('with wake-ups on %s', (queue) => {
  const test = testByQueue[queue]
  test.afterAll(({ world }) => world.close())

  test('a job whose wake-up is lost is claimed from the database', async ({ world, client }) => {
    const requests = Array.from({ length: 20 }, () => request(world, { will_wake: true }))
    await createPayments(world.sql, requests)
    for (const { payment_id } of requests)
      expect(await paymentIn(client, payment_id, 'authorized')).toMatchObject({
        amount_capturable_minor: 1000,
      })
  })

  test('a job without a wake-up is claimed from the database', async ({ world, client }) => {
    const requests = Array.from({ length: 20 }, () => request(world, { will_wake: false }))
    await createPayments(world.sql, requests)
    for (const { payment_id } of requests)
      expect(await paymentIn(client, payment_id, 'authorized')).toMatchObject({
        amount_capturable_minor: 1000,
      })
  })

  test('a paused queue starts no provider call, and all waiting calls start after the pause', async ({
    world,
    client,
  }) => {
    const expected: string[] = []
    const stop = new AbortController()
    const stream = (async () => {
      while (!stop.signal.aborted) {
        const answers = await Promise.all(Array.from({ length: 5 }, () => createPayment(client, {}, ASYNC)))
        expected.push(...answers.map(({ body }) => body.id))
        await sleep(20)
      }
    })()
    await eventually(async () => expect(expected.length).toBeGreaterThan(30))
    await pauseJobs(world.sql, { queue: 'payments', reason: 'a test' })
    const [paused] = await world.sql<{ at_ms: number }[]>`
      select extract(epoch from created_at)::float8 * 1000 as at_ms from pauses where queue = 'payments'`
    const before = expected.length
    // New jobs arrive until long after the second within which the pause must take effect.
    await eventually(async () => expect(Date.now()).toBeGreaterThan(paused!.at_ms + 2500))
    await eventually(async () => expect(expected.length).toBeGreaterThan(before + 30))
    stop.abort()
    await stream
    const requests = await world.provider('stripe').requests({ method: 'POST', path: '/v1/payment_intents$' })
    const late = requests.filter(({ at_ms }: { at_ms: number }) => at_ms > paused!.at_ms + 1000)
    expect(late).toEqual([])
    const open = await world.sql`select from jobs where queue = 'payments' and finished_at is null`
    expect(open.length).toBeGreaterThan(30)
    await resumeJobs(world.sql, { queue: 'payments' })
    await world.drain()
    const rows = await world.sql`select status from payments where id = any(${expected}::uuid[])`
    expect(rows.filter(({ status }) => status !== 'authorized')).toEqual([])
    expect(rows).toHaveLength(expected.length)
  })

  test('jobs of a paused tenant wait, and jobs of other tenants are performed', async ({ world, client }) => {
    const other = await world.clientOf()
    await pauseJobs(world.sql, { tenant_id: world.tenant_id })
    const { body } = await createPayment(client, {}, ASYNC)
    await authorizedPayment(other)
    await authorizedPayment(other)
    expect((await client.get(`/v1/payments/${body.id}`)).body).toMatchObject({ status: 'pending' })
    const [job] = await world.sql`select attempt, state from jobs where resource_id = ${body.id}`
    expect(job).toEqual({ attempt: 0, state: 'ready' })
    await resumeJobs(world.sql, { tenant_id: world.tenant_id })
    await paymentIn(client, body.id, 'authorized')
  })

  test('a worker whose lease another worker has claimed changes nothing', async ({ world, client }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    // The test stores all notifications first, because even late notifications of the authorization would settle the
    // capture.
    for (const event of await listEvents(world, processor_reference))
      await eventually(async () => expect(await stateOf(world, event)).toMatch(/applied|ignored/))
    await world.provider('stripe').control('POST', '/webhooks', { paused: true })
    const hold = await fault(world, {
      match: { path: `${processor_reference}/capture` },
      fault: { hold: 'after' },
    })
    await client.post(`/v1/payments/${id}/capture`, undefined, ASYNC)
    await hold.hit()
    // Another worker claims the job, with a lease of a minute.
    const other_token = newId()
    await world.sql`
      update jobs set lease_token = ${other_token}, lease_until = now() + interval '1 minute', attempt = attempt + 1
      where resource_id = ${id} and name = 'payment.capture'`
    const before = await fencedSoFar()
    await hold.remove()
    await eventually(async () => expect(await fencedSoFar()).toBe(before + 1))
    const [job] = await world.sql`
      select id, state, attempt, lease_token, outcome, last_error from jobs
      where resource_id = ${id} and name = 'payment.capture'`
    expect(job).toMatchObject({
      state: 'running',
      attempt: 2,
      lease_token: other_token,
      outcome: null,
      last_error: null,
    })
    expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({
      status: 'capturing',
      amount_captured_minor: 0,
    })
    expect(await world.sql`select from ledger_transfers where subject_id = ${id}`).toHaveLength(0)
    // The second worker dies; the next worker finds the effect by the same key.
    await world.sql`update jobs set lease_until = now() where id = ${job!.id}`
    await paymentIn(client, id, 'captured')
    await world.provider('stripe').control('POST', '/webhooks', { paused: false })
    expect((await effectsOf(world, processor_reference)).map(({ effect }) => effect)).toEqual([
      'authorize',
      'capture',
    ])
  })

  test('after all scenarios the books balance and agree with the processor', async ({ world }) => {
    await world.drain()
    expect(await findRemainingProblems(world)).toEqual([])
  })
})

// No worker runs; the test claims the jobs.
describeIn('the fence', { parts: ['api'], notifications: false }, (test) => {
  /** Two claims of the job: the first is expired, the second is current. */
  async function claimedTwice(world: World, job_id: string): Promise<[ClaimedJob, ClaimedJob]> {
    const [first] = await claimJobs(world.sql, [job_id], claimOptions('first'))
    expect(await claimJobs(world.sql, [job_id], claimOptions('too early'))).toEqual([])
    await world.sql`update jobs set lease_until = now() where id = ${job_id}`
    const [second] = await claimJobs(world.sql, [job_id], claimOptions('second'))
    expect(second!.lease_token).not.toBe(first!.lease_token)
    expect(second!.attempt).toBe(first!.attempt + 1)
    expect(second!.call).toEqual({ ...first!.call, in_doubt: true })
    return [first!, second!]
  }

  const update = (job: ClaimedJob, status: 'authorized' | 'captured') => ({
    tenant_id: job.tenant_id,
    payment_id: (job.payload as { payment_id: string }).payment_id,
    status,
    failed_operation: null,
    processor_reference: `pi_${(job.payload as { payment_id: string }).payment_id}`,
    amount_capturable_minor: status === 'authorized' ? 1000 : 0,
    amount_captured_minor: status === 'captured' ? 1000 : 0,
    client_secret: null,
    capture_before: null,
    authorized_at: null,
    cancellation_reason: null,
    failure: null,
  })
  const settlePayment = (
    world: World,
    job: ClaimedJob,
    settlement: Settlement,
    status: 'authorized' | 'captured',
  ) => settlePayments(world.sql, [{ ...settlement, update: update(job, status), notification_id: null }])

  async function jobOf(world: World, payment_id: string, name: string): Promise<string> {
    const [job] = await world.sql<{ id: string }[]>`
      select id from jobs where resource_id = ${payment_id} and name = ${name}`
    return job!.id
  }

  test('only the later of two claims of a job can settle the job, and the earlier claim writes nothing', async ({
    world,
  }) => {
    const { client, sql } = world
    const { body } = await createPayment(client, {}, ASYNC)
    const [first, second] = await claimedTwice(world, await jobOf(world, body.id, 'payment.authorize'))
    const attempts =
      await sql`select attempt, worker, outcome from all_job_attempts where job_id = ${first.id} order by attempt`
    expect([...attempts]).toEqual([
      { attempt: 1, worker: 'first', outcome: null },
      { attempt: 2, worker: 'second', outcome: null },
    ])
    const before = await allRows(world)
    const failure = { code: 'payment_declined', message: 'no' } as const
    for (const decision of [
      done({ reference: 're_1' }),
      failed(failure),
      retry('later'),
      rotate('new key'),
      unknown('no response'),
      giveBack('not now'),
    ]) {
      const late = settlement(first, decision)
      expect(await settleJobs(sql, [late])).toEqual(new Set())
      expect(await settlePayment(world, first, late, 'authorized')).toEqual(new Set())
    }
    expect(await renewLeases(sql, [first])).toEqual(new Set())
    expect(await allRows(world)).toEqual(before)

    expect(await renewLeases(sql, [second, first])).toEqual(new Set([second.id]))
    expect(await settlePayment(world, second, succeeded(second), 'authorized')).toEqual(new Set([second.id]))
    const settled = await allRows(world)
    expect(await settlePayment(world, second, succeeded(second), 'authorized')).toEqual(new Set())
    expect(await settlePayment(world, first, succeeded(first), 'authorized')).toEqual(new Set())
    expect(await allRows(world)).toEqual(settled)
    expect((await client.get(`/v1/payments/${body.id}`)).body).toMatchObject({ status: 'authorized' })
  })

  test('a worker whose lease has expired may settle the job until another worker claims it, but not continue', async ({
    world,
  }) => {
    const { body } = await createPayment(world.client, {}, ASYNC)
    const [job] = await claimJobs(
      world.sql,
      [await jobOf(world, body.id, 'payment.authorize')],
      claimOptions('slow'),
    )
    await world.sql`update jobs set lease_until = now() where id = ${job!.id}`
    const before = await allRows(world)
    const continues = settlement(
      job!,
      continueWith(JOB_ONLY, () => assert.fail()),
    )
    expect(await settleJobs(world.sql, [continues])).toEqual(new Set())
    expect(await renewLeases(world.sql, [job!])).toEqual(new Set())
    expect(await findStartable(world.sql, [job!])).toEqual(new Set())
    const scan = async (leaves_lapsed: boolean) => {
      const options = { names: JOB_NAMES, grace_ms: 1000, leaves_lapsed }
      const [due] = await findDue(world.sql, [{ queue: 'payments', room: 100, after: null }], options)
      return due!.ids.includes(job!.id)
    }
    expect([await scan(true), await scan(false)]).toEqual([false, true])
    expect(await allRows(world)).toEqual(before)
    expect(await settlePayment(world, job!, succeeded(job!), 'authorized')).toEqual(new Set([job!.id]))
    expect((await world.client.get(`/v1/payments/${body.id}`)).body).toMatchObject({ status: 'authorized' })
    const settled = await allRows(world)
    expect(await settlePayment(world, job!, succeeded(job!), 'authorized')).toEqual(new Set())
    expect(await allRows(world)).toEqual(settled)
  })

  test('if a claim and a late settlement compete for an expired lease, exactly one of them happens', async ({
    world,
  }) => {
    const { client, sql } = world
    const ids: string[] = []
    for (let nth = 0; nth < 20; nth++)
      ids.push(await jobOf(world, (await createPayment(client, {}, ASYNC)).body.id, 'payment.authorize'))
    const first = await claimJobs(sql, ids, claimOptions('first'))
    await sql`update jobs set lease_until = now() where id = any(${ids}::uuid[])`
    const results = await Promise.all(
      first.map(async (job) => {
        const [claimed, settled] = await Promise.all([
          claimJobs(sql, [job.id], claimOptions('second')),
          settleJobs(sql, [settlement(job, park('later'))]),
        ])
        const [row] = await sql`select state, worker, attempt from jobs where id = ${job.id}`
        return { claims: claimed.length, settlements: settled.size, ...row }
      }),
    )
    expect(results).toHaveLength(20)
    for (const { claims, ...result } of results)
      expect(result).toEqual(
        claims === 1
          ? { settlements: 0, state: 'running', worker: 'second', attempt: 2 }
          : { settlements: 1, state: 'unknown', worker: null, attempt: 1 },
      )
  })

  test('each settlement of a batch is fenced separately', async ({ world }) => {
    const { client, sql } = world
    const payments = await Promise.all([createPayment(client, {}, ASYNC), createPayment(client, {}, ASYNC)])
    const [one, other] = payments.map(({ body }) => body.id)
    const [late] = await claimedTwice(world, await jobOf(world, one, 'payment.authorize'))
    const [timely] = await claimJobs(
      sql,
      [await jobOf(world, other, 'payment.authorize')],
      claimOptions('timely'),
    )
    const settled = await settlePayments(
      sql,
      [late, timely!].map((job) => ({
        ...succeeded(job),
        update: update(job, 'authorized'),
        notification_id: null,
      })),
    )
    expect(settled).toEqual(new Set([timely!.id]))
    expect((await client.get(`/v1/payments/${one}`)).body).toMatchObject({ status: 'pending' })
    expect((await client.get(`/v1/payments/${other}`)).body).toMatchObject({ status: 'authorized' })
  })

  test('a capture and a refund are posted once, by the worker that has the lease', async ({ world }) => {
    const { client, sql } = world
    const { body } = await createPayment(client, {}, ASYNC)
    const [authorizing] = await claimJobs(
      sql,
      [await jobOf(world, body.id, 'payment.authorize')],
      claimOptions('w'),
    )
    await settlePayment(world, authorizing!, succeeded(authorizing!), 'authorized')
    await client.post(`/v1/payments/${body.id}/capture`, undefined, ASYNC)
    const [late, timely] = await claimedTwice(world, await jobOf(world, body.id, 'payment.capture'))
    const before = await allRows(world)
    expect(await settlePayment(world, late, succeeded(late), 'captured')).toEqual(new Set())
    expect(await allRows(world)).toEqual(before)
    const settlements = await Promise.all(
      [late, timely, timely, late].map((job) => settlePayment(world, job, succeeded(job), 'captured')),
    )
    expect(settlements.filter((ids) => ids.size === 1)).toHaveLength(1)
    expect(await sql`select from ledger_transfers where subject_id = ${body.id}`).toHaveLength(1)

    const { body: refunded } = await refund(client, body.id, { amount_minor: 400 }, ASYNC)
    const [slow, quick] = await claimedTwice(world, await jobOf(world, body.id, 'refund.create'))
    const settle = (job: ClaimedJob) =>
      settleRefunds(sql, [
        {
          ...succeeded(job),
          notification_id: null,
          update: {
            tenant_id: job.tenant_id,
            payment_id: body.id,
            refund_id: refunded.id,
            status: 'succeeded',
            processor_reference: `re_${job.id}`,
            failure: null,
          },
        },
      ])
    const untouched = await allRows(world)
    expect(await settle(slow)).toEqual(new Set())
    expect(await allRows(world)).toEqual(untouched)
    expect(await settle(quick)).toEqual(new Set([quick.id]))
    expect(await settle(quick)).toEqual(new Set())
    expect(await sql`select from ledger_transfers where subject_id = ${refunded.id}`).toHaveLength(1)
  })

  test('a call counts as never sent only if each attempt has recorded that it sent nothing', async ({
    world,
  }) => {
    const { sql, client } = world
    const { body } = await createPayment(client, {}, ASYNC)
    const id = await jobOf(world, body.id, 'payment.authorize')
    const claimAgain = async () => {
      await sql`update jobs set run_at = now(), lease_until = now() where id = ${id}`
      return (await claimJobs(sql, [id], claimOptions('w')))[0]!
    }
    const sentAt = async () => (await sql`select first_sent_at from jobs where id = ${id}`)[0]!
    // An attempt that ends as `returned`, or whose call the provider refuses, does not record a time of sending.
    const refusedBeforeEffect = retryUndone({ kind: 'retry', reason: '429' })
    for (const decision of [giveBack('the worker is stopping'), refusedBeforeEffect]) {
      const job = await claimAgain()
      expect(job.call).toMatchObject({ in_doubt: false, lookup_only: false })
      await settleJobs(sql, [settlement(job, decision)])
      expect(await sentAt()).toEqual({ first_sent_at: null })
    }
    const waited = await claimAgain()
    expect(waited.call).toMatchObject({ in_doubt: false, refused_ms: expect.any(Number) })
    await settleJobs(sql, [settlement(waited, refusedBeforeEffect)])
    // The pause does not count as time in which the call was refused.
    await sql`update jobs set run_at = now() - interval '2 hours' where id = ${id}`
    const [resumed] = await claimJobs(sql, [id], claimOptions('w'))
    expect(resumed!.call).toMatchObject({ in_doubt: false, refused_ms: null })
    // The worker of this attempt died. Later attempts keep the time at which the attempt may have sent the call.
    const first = await sentAt()
    for (const decision of [retryUndone({ kind: 'misconfigured', reason: '401' }), refusedBeforeEffect]) {
      const next = await claimAgain()
      expect(next.call).toMatchObject({ in_doubt: true, lookup_only: false })
      await settleJobs(sql, [settlement(next, decision)])
      expect(await sentAt()).toEqual(first)
      const [recorded] = await sql`
        select in_doubt from job_attempts where job_id = ${id} and outcome is not null order by attempt desc limit 1`
      expect(recorded).toEqual({ in_doubt: true })
      await sql`delete from job_attempts where job_id = ${id}`
    }
    // A call that an attempt may have sent does not count as never sent, even after a day of refusals.
    await sql`update jobs set refused_since = now() - interval '25 hours', run_at = now() where id = ${id}`
    const [refused] = await claimJobs(sql, [id], claimOptions('w'))
    expect(refused).toMatchObject({ failures: 4, call: { in_doubt: true, refused_ms: expect.any(Number) } })
    expect(neverSent(refused!.call!, { kind: 'retry', reason: '429' })).toBe(false)
    // After the change to a new key, no attempt of the call is in doubt.
    await settleJobs(sql, [settlement(refused!, rotate('new key'))])
    await sql`update jobs set run_at = now() where id = ${id}`
    const [rotated] = await claimJobs(sql, [id], claimOptions('w'))
    expect(rotated!.call).toMatchObject({ generation: 2, key: `${id}:2`, in_doubt: false, refused_ms: null })
    const attempts = await sql`select generation, key, first_sent_at from job_attempts where job_id = ${id}`
    expect([...attempts]).toEqual([{ generation: 1, key: `${id}:1`, ...first }])
    await settleJobs(sql, [settlement(rotated!, retry('the lookup failed'))])
    // A day later the call is only looked up. A worker that gives the job back without a lookup keeps the time of the
    // first sending.
    await sql`
      update jobs set first_sent_at = now() - interval '23 hours', last_sent_at = now() - interval '23 hours' where id = ${id}`
    const aged = await sentAt()
    for (const _ of [1, 2]) {
      const lookup = await claimAgain()
      expect(lookup.call).toMatchObject({ lookup_only: true, in_doubt: true })
      await settleJobs(sql, [settlement(lookup, giveBack('the worker is stopping'))])
      expect(await sentAt()).toEqual(aged)
    }
  })

  test('a lookup that is refused because of a rate limit is repeated after the delay that the provider requests', async ({
    world,
  }) => {
    const { sql, client } = world
    const { body } = await createPayment(client, {}, ASYNC)
    const [job] = await claimJobs(sql, [await jobOf(world, body.id, 'payment.authorize')], claimOptions('w'))
    const lookup = { kind: 'retry', reason: '429', after_ms: 3_600_000 } as const
    expect(settlement(job!, unanswered(lookup)).delay_ms).toBe(3_600_000)
  })

  test('the delay that a provider requests after an ambiguous lookup is limited by the schedule of lookups, but not below a minute', async ({
    world,
  }) => {
    const { sql, client } = world
    const { body } = await createPayment(client, {}, ASYNC)
    const [job] = await claimJobs(sql, [await jobOf(world, body.id, 'payment.authorize')], claimOptions('w'))
    const delayOf = (unknown_ms: number, after_ms: number) => {
      const lookup = { kind: 'ambiguous', reason: '409', after_ms, replayed: false } as const
      return settlement({ ...job!, unknown_ms }, unanswered(lookup)).delay_ms
    }
    const { lookup_delays_ms } = capturePayment.retry
    for (const next_ms of lookup_delays_ms) {
      expect(delayOf(next_ms - 1, 3_600_000 * 24)).toBe(Math.max(60_000, next_ms))
      expect(delayOf(next_ms - 1, 40_000)).toBe(40_000)
    }
  })

  test('a renewal skips a lease whose row is locked and renews the other leases', async ({ world }) => {
    const { client, sql } = world
    const ids = await Promise.all(
      [1, 2].map(async () =>
        jobOf(world, (await createPayment(client, {}, ASYNC)).body.id, 'payment.authorize'),
      ),
    )
    const [one, other] = await claimJobs(sql, ids, claimOptions('w'))
    await sql.begin(async (tx) => {
      // A settlement that waits for the balance of a busy account has locked the row.
      await tx`select from jobs where id = ${one!.id} for update`
      expect(await renewLeases(sql, [one!, other!])).toEqual(new Set([other!.id]))
    })
    expect(await renewLeases(sql, [one!, other!])).toEqual(new Set([one!.id, other!.id]))
  })

  test('exactly one of 50 concurrent claims of a job succeeds', async ({ world }) => {
    const { body } = await createPayment(world.client, {}, ASYNC)
    const id = await jobOf(world, body.id, 'payment.authorize')
    const claims = await Promise.all(
      Array.from({ length: 50 }, (_, index) => claimJobs(world.sql, [id], claimOptions(`worker ${index}`))),
    )
    expect(claims.flat()).toHaveLength(1)
    expect(await world.sql`select from all_job_attempts where job_id = ${id}`).toHaveLength(1)
  })
})

describeIn('attempts', { notifications: false }, (test) => {
  // These four tests run concurrently, because each test waits for seconds.
  test.concurrent('a retry repeats the call with the same key and parameters, even after a change of the payment', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const busy = await fault(world, {
      match: { path: `${processor_reference}/capture` },
      times: 3,
      fault: 'rate_limited_429',
    })
    await client.post(`/v1/payments/${id}/capture`, { amount_minor: 300 }, ASYNC)
    await busy.hit()
    // The request comes from the stored call and not from the payment.
    await world.sql`update payments set amount_minor = 2000, amount_capturable_minor = 2000 where id = ${id}`
    await world.sql`update jobs set run_at = now() where resource_id = ${id} and state = 'ready'`
    await paymentIn(client, id, 'captured')
    await world.sql`update payments set amount_minor = 1000 where id = ${id}`
    const requests = await world.provider('stripe').requests({ path: `${processor_reference}/capture` })
    expect(requests.map(({ status }: { status: number }) => status)).toEqual([429, 429, 429, 200])
    expect(
      new Set(requests.map(({ idempotency_key }: { idempotency_key: string }) => idempotency_key)).size,
    ).toBe(1)
    expect((await effectsOf(world, processor_reference)).at(-1)).toMatchObject({
      effect: 'capture',
      amount: 300,
    })
    const attempts = await world.sql`
      select a.outcome from jobs j join all_job_attempts a on a.job_id = j.id
      where j.resource_id = ${id} and j.name = 'payment.capture' order by a.attempt`
    expect(attempts.map(({ outcome }) => outcome)).toEqual(['retry', 'retry', 'retry', 'done'])
  })

  test.concurrent('jobs are retried while the processor is unreachable, and succeed afterwards', async () => {
    const unreachable = await createWorld({ parts: ['api'], notifications: false })
    const config_without_provider = { ...unreachable.config, STRIPE_API_BASE: 'http://127.0.0.1:9' }
    const log = createLog('silent', 'test')
    try {
      const disconnected = await startWorker(config_without_provider, log)
      const { body } = await createPayment(unreachable.client, {}, ASYNC)
      await eventually(async () => {
        const rows = await unreachable.sql`
          select a.outcome from jobs j join job_attempts a on a.job_id = j.id where j.resource_id = ${body.id} and a.ended_at is not null`
        expect(rows.length).toBeGreaterThan(1)
        expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['retry']))
      })
      await disconnected.close()
      const worker = await startWorker(unreachable.config, log)
      await paymentIn(unreachable.client, body.id, 'authorized')
      await worker.close()
      await checkInvariants(unreachable)
    } finally {
      await unreachable.close()
    }
  })

  test.concurrent('a lease is renewed while the handler of its job runs', async ({ world, client }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const hold = await fault(world, { match: { path: `${processor_reference}/capture` }, fault: 'hold' })
    await client.post(`/v1/payments/${id}/capture`, undefined, ASYNC)
    await hold.hit()
    const job = async () =>
      (
        await world.sql`
        select lease_token, attempt, state, lease_until > now() as ours, extract(epoch from now() - started_at)::float8 as age_s
        from jobs where resource_id = ${id} and name = 'payment.capture'`
      )[0]!
    const { age_s: _, ...first } = await job()
    await eventually(async () => {
      const { age_s, ...now } = await job()
      expect(now).toEqual(first)
      expect(age_s).toBeGreaterThan(5.5)
    })
    await hold.remove()
    await paymentIn(client, id, 'captured')
    const requests = await world.provider('stripe').requests({ path: `${processor_reference}/capture` })
    expect(requests).toHaveLength(1)
  })

  test.concurrent('the loss of a lease aborts the call, and the next worker finds the outcome of the call', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const hold = await fault(world, {
      match: { path: `${processor_reference}/capture` },
      fault: { hold: 'after' },
    })
    await client.post(`/v1/payments/${id}/capture`, undefined, ASYNC)
    await hold.hit()
    const before = await fencedSoFar()
    await world.sql`
      update jobs set lease_token = gen_random_uuid(), lease_until = now() + interval '1 minute'
      where resource_id = ${id} and name = 'payment.capture'`
    // The processor has not answered yet.
    await eventually(async () => expect(await fencedSoFar()).toBe(before + 1))
    await hold.remove()
    await world.sql`update jobs set lease_until = now() where resource_id = ${id} and state = 'running'`
    await paymentIn(client, id, 'captured')
  })

  /** Puts the job into the state that it has if the worker died in each of its attempts. */
  async function poison(world: World, job_id: string): Promise<void> {
    await world.sql`
      update jobs set state = 'running', attempt = max_attempts, worker = 'dead worker', started_at = now(),
        run_at = now(), lease_token = gen_random_uuid(), lease_until = now()
      where id = ${job_id}`
  }

  test('a job that kills every worker becomes unknown without another call, and other jobs continue', async ({
    world,
    client,
  }) => {
    await pauseJobs(world.sql, { tenant_id: world.tenant_id })
    const { body } = await createPayment(client, {}, ASYNC)
    const [job] = await world.sql`select id, max_attempts from jobs where resource_id = ${body.id}`
    await poison(world, job!.id)
    await resumeJobs(world.sql, { tenant_id: world.tenant_id })
    await eventually(async () => {
      const [now] = await world.sql`select state, last_error from jobs where id = ${job!.id}`
      expect(now).toMatchObject({
        state: 'unknown',
        last_error: { message: expect.stringContaining('crashed or threw') },
      })
    })
    const requests = await world.provider('stripe').requests({ idempotency_key: `${job!.id}:1` })
    expect(requests).toEqual([])
    expect((await client.get(`/v1/payments/${body.id}`)).body).toMatchObject({ status: 'pending' })
    await authorizedPayment(client)
  })

  test('a job whose lookup kills every worker is parked', async ({ world, client }) => {
    await pauseJobs(world.sql, { tenant_id: world.tenant_id })
    const { body } = await createPayment(client, {}, ASYNC)
    const [job] = await world.sql<{ id: string }[]>`select id from jobs where resource_id = ${body.id}`
    await poison(world, job!.id)
    await world.sql`update jobs set unknown_since = now() where id = ${job!.id}`
    await resumeJobs(world.sql, { tenant_id: world.tenant_id })
    const stateOfJob = async () =>
      (await world.sql`select state, run_at = 'infinity' as parked from jobs where id = ${job!.id}`)[0]
    // After the last attempt one lookup is permitted. If its worker dies too, the job is parked.
    await eventually(async () => expect((await stateOfJob())!.state).toBe('unknown'))
    await poison(world, job!.id)
    await world.sql`update jobs set attempt = attempt + 1 where id = ${job!.id}`
    await eventually(async () => expect(await stateOfJob()).toEqual({ state: 'unknown', parked: true }))
    expect((await client.get(`/v1/reconciliation?payment_id=${body.id}`)).status).toBe(200)
    await authorizedPayment(client)
  })

  test('a job without a provider call that kills every worker is discarded', async ({ world }) => {
    const id = newId()
    await world.sql`
      insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, attempt, worker, started_at, lease_token, lease_until)
      values (${id}, ${world.tenant_id}, 'notifications', 'notification.apply', ${world.sql.json({ notification_id: newId() })}, 3,
        'running', 3, 'dead worker', now(), gen_random_uuid(), now())`
    await eventually(async () => {
      const [job] = await world.sql`select state, attempt from jobs where id = ${id}`
      expect(job).toEqual({ state: 'discarded', attempt: 4 })
    })
  })

  test('a job whose name this version does not support stays ready for a worker of another version', async ({
    world,
    client,
  }) => {
    const { id } = await authorizedPayment(client)
    await pauseJobs(world.sql, { tenant_id: world.tenant_id })
    await client.post(`/v1/payments/${id}/capture`, {}, ASYNC)
    const [job] = await world.sql<{ id: string }[]>`
      update jobs set name = 'payment.take' where resource_id = ${id} and name = 'payment.capture' returning id`
    await resumeJobs(world.sql, { tenant_id: world.tenant_id })
    // Other jobs are claimed in the meantime, with and without wake-ups.
    await authorizedPayment(client)
    const later = request(world, { will_wake: true })
    await createPayments(world.sql, [later])
    await paymentIn(client, later.payment_id, 'authorized')
    expect(await claimJobs(world.sql, [job!.id], claimOptions('worker of another version'))).toEqual([])
    const [due] = await findDue(world.sql, [{ queue: 'payments', room: 100, after: null }], {
      names: JOB_NAMES,
      grace_ms: 0,
    })
    expect(due!.ids).not.toContain(job!.id)
    const [remaining] = await world.sql`
      select state, attempt, first_sent_at from jobs where id = ${job!.id}`
    expect(remaining).toEqual({ state: 'ready', attempt: 0, first_sent_at: null })
    await world.sql`update jobs set name = 'payment.capture' where id = ${job!.id}`
    await paymentIn(client, id, 'captured')
  })

  test('a job with an invalid payload is discarded at its first attempt, and other jobs continue', async ({
    world,
    client,
  }) => {
    const id = newId()
    await world.sql`
      insert into jobs (id, tenant_id, queue, name, payload, max_attempts)
      values (${id}, ${world.tenant_id}, 'notifications', 'notification.apply', '{}', 25)`
    await eventually(async () => {
      const [job] =
        await world.sql`select state, attempt, last_error ->> 'message' as reason from jobs where id = ${id}`
      expect(job).toMatchObject({ state: 'discarded', attempt: 1 })
      expect(job!.reason).toContain('cannot be read: notification_id')
    })
    await authorizedPayment(client)
  })

  test('a call with an invalid request is never sent, and its job is parked until an operator retries the job', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    await pauseJobs(world.sql, { tenant_id: world.tenant_id })
    await client.post(`/v1/payments/${id}/capture`, {}, ASYNC)
    const [capture] = await world.sql<{ job_id: string; request: { amount_minor: number } }[]>`
      select id as job_id, request from jobs where resource_id = ${id} and name = 'payment.capture'`
    const { job_id, request } = capture!
    const write = async (stored: Record<string, unknown>) =>
      await world.sql`update jobs set request = ${world.sql.json(stored as never)} where id = ${job_id}`
    await write({ ...request, amount_minor: 'all of it' })
    await resumeJobs(world.sql, { tenant_id: world.tenant_id })
    await eventually(async () => {
      const [job] = await world.sql`
        select state, run_at = 'infinity' as parked, last_error ->> 'message' as reason, first_sent_at
        from jobs where id = ${job_id}`
      expect(job).toMatchObject({ state: 'unknown', parked: true, first_sent_at: null })
      expect(job!.reason).toContain('cannot be read: amount_minor')
    })
    const path = `${processor_reference}/capture`
    expect(await world.provider('stripe').requests({ path })).toEqual([])
    await write(request)
    await retryJob(world.sql, { job_id, actor: 'test', reason: 'it was repaired' })
    await paymentIn(client, id, 'captured')
  })
})

const CONCURRENCY = 4
const FEW_SLOTS = { notifications: false, env: { WORKER_CONCURRENCY: String(CONCURRENCY) } }
describeIn('shares', FEW_SLOTS, (test) => {
  test('a tenant with thousands of waiting jobs does not delay the next job of another tenant', async ({
    world,
  }) => {
    const { sql } = world
    const noisy = await world.clientOf({ tenant: 'noisy' })
    const quiet = await world.clientOf({ tenant: 'quiet' })
    await pauseJobs(sql, { tenant_id: noisy.tenant_id })
    for (let batch = 0; batch < 10; batch += 1)
      await createPayments(
        sql,
        Array.from({ length: 400 }, () => request(world, { tenant_id: noisy.tenant_id, will_wake: false })),
      )
    await resumeJobs(sql, { tenant_id: noisy.tenant_id })
    let max_running = 0
    const countJobs = async () => {
      const [row] = await sql<{ running: number; waiting: number; done: number }[]>`
        select count(*) filter (where state = 'running') as running,
          count(*) filter (where finished_at is null) as waiting, count(*) filter (where finished_at is not null) as done
        from jobs where tenant_id = ${noisy.tenant_id}`
      max_running = Math.max(max_running, row!.running)
      return row!
    }
    await eventually(async () => expect((await countJobs()).done).toBeGreaterThan(20))
    for (let iteration = 0; iteration < 5; iteration += 1) {
      await authorizedPayment(quiet)
      await countJobs()
    }
    const { waiting } = await countJobs()
    expect(waiting).toBeGreaterThan(1000)
    expect(max_running).toBeLessThanOrEqual(CONCURRENCY)
    // The count of the noisy tenant's jobs that start between a request of the quiet tenant and the start of the
    // request's job.
    const started_before = await sql<{ before: number }[]>`
      select (select count(*) from jobs n where n.tenant_id = ${noisy.tenant_id}
        and n.started_at >= q.created_at and n.started_at <= q.started_at) as before
      from jobs q where q.tenant_id = ${quiet.tenant_id}`
    expect(started_before).toHaveLength(5)
    for (const { before } of started_before) expect(before).toBeLessThanOrEqual(5 * CONCURRENCY)
    await pauseJobs(sql, { tenant_id: noisy.tenant_id })
  })

  test('a scan for jobs without a wake-up finds neither lost wake-ups nor lapsed leases, and reads only the index of such jobs', async ({
    world,
  }) => {
    const { sql, tenant_id } = world
    await pauseJobs(sql, { queue: 'maintenance' })
    const insert = async (state: string, wakeup_sent_at: string | null) => {
      const id = newId()
      await sql`
        insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at, wakeup_sent_at)
        values (${id}, ${tenant_id}, 'maintenance', 'scan', '{}', 1, now() - interval '1 minute',
          ${wakeup_sent_at}::timestamptz)`
      if (state === 'running')
        await sql`
          update jobs set state = 'running', attempt = 1, worker = 'lost', started_at = now(),
            lease_token = gen_random_uuid(), lease_until = now() - interval '1 second'
          where id = ${id}`
      return id
    }
    const long_ago = new Date(Date.now() - 60_000).toISOString()
    const unwoken = await insert('ready', null)
    const others = [
      await insert('ready', long_ago),
      await insert('running', long_ago),
      await insert('running', null),
    ]
    // Jobs that a wake-up brings: the scan must not read them.
    await sql`
      insert into jobs (id, tenant_id, queue, name, payload, max_attempts, wakeup_sent_at)
      select uuidv7(), ${tenant_id}, 'maintenance', 'woken', '{}', 1, now() from generate_series(1, 2000)`
    await sql`analyze jobs`
    const scan = async (tx: Sql, kind: ScanKind) => {
      const scans = [{ queue: 'maintenance', room: 10, after: null }]
      const [found] = await findDue(tx, scans, { names: ['scan'], grace_ms: 1000, kind })
      return { ids: found!.ids.toSorted(), others: found!.others }
    }
    await sql.begin(async (tx) => {
      // Only this transaction sees the end of the pause, so no worker claims these jobs.
      await tx`delete from pauses where queue = 'maintenance'`
      const full = [unwoken, ...others].toSorted()
      expect([await scan(tx as never, 'all'), await scan(tx as never, 'without_wakeup')]).toEqual([
        { ids: full, others: 3 },
        { ids: [unwoken], others: 0 },
      ])
      await tx`update jobs set run_at = now() - interval '2 seconds' where id = ${others[1]!}`
      expect(await scan(tx as never, 'recent')).toEqual({ ids: [others[1]], others: 1 })
      const reads = async () => {
        const indexes = await tx<{ name: string; scans: number }[]>`
          select indexrelname as name, pg_stat_get_xact_numscans(indexrelid)::integer as scans
          from pg_stat_user_indexes where relname = 'jobs'`
        return new Map(indexes.map(({ name, scans }) => [name, scans]))
      }
      const before = await reads()
      await scan(tx as never, 'without_wakeup')
      const used = [...(await reads())].filter(([name, scans]) => scans > before.get(name)!)
      expect(used.map(([name]) => name)).toEqual(['jobs_without_wakeup'])
    })
    await sql`delete from jobs where queue = 'maintenance' and tenant_id = ${tenant_id}`
    await resumeJobs(sql, { queue: 'maintenance' })
  })

  test('a scan finds overdue jobs round robin: the first job of each tenant before the second job of any tenant', async ({
    world,
  }) => {
    const { sql } = world
    const tenants = await Promise.all(
      ['tenant-a', 'tenant-b', 'tenant-c'].map((tenant) => world.clientOf({ tenant })),
    )
    await pauseJobs(sql, { queue: 'maintenance' })
    const scan = async (tx: Sql, after: string | null = null, room = 6) =>
      (await findDue(tx, [{ queue: 'maintenance', room, after }], { names: ['scan'], grace_ms: 1000 }))[0]
    const counts = [50, 2, 1]
    for (const [index, { tenant_id }] of tenants.entries())
      for (let each = 0; each < counts[index]!; each += 1)
        await sql`
          insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at)
          values (${newId()}, ${tenant_id}, 'maintenance', 'scan', '{}', 1, now() - interval '1 minute')`
    expect(await scan(sql)).toBeUndefined()
    await sql.begin(async (tx) => {
      // Only this transaction sees the end of the pause, so no worker claims these jobs.
      await tx`delete from pauses where queue = 'maintenance'`
      const ownersOf = async (ids: string[]) => {
        const rows = await tx<
          { id: string; tenant_id: string }[]
        >`select id, tenant_id from jobs where id = any(${ids}::uuid[])`
        const owner = new Map(rows.map(({ id, tenant_id }) => [id, tenant_id]))
        return ids.map((id) => tenants.findIndex(({ tenant_id }) => tenant_id === owner.get(id)))
      }
      const whole = await scan(tx as never)
      const owners = await ownersOf(whole!.ids)
      expect(new Set(owners.slice(0, 3))).toEqual(new Set([0, 1, 2]))
      expect(new Set(owners.slice(3, 5))).toEqual(new Set([0, 1]))
      expect(owners.slice(5)).toEqual([0])
      // With room for two jobs per scan, the second scan begins with the third tenant.
      const first = await scan(tx as never, null, 2)
      const second = await scan(tx as never, first!.after, 2)
      const two_scans = await ownersOf([...first!.ids, ...second!.ids])
      expect(new Set(two_scans.slice(0, 3))).toEqual(new Set([0, 1, 2]))
      expect(second!.after).toBeNull()
      await tx`insert into pauses (queue) values ('maintenance')`
    })
    await sql`update jobs set state = 'discarded', finished_at = now() where queue = 'maintenance'`
  })
})

// Tests the figures of the dashboard: they equal a recount, even after failures of the roll-up worker.
import postgres from 'postgres'
import { afterAll, expect, onTestFinished } from 'vitest'
import { QUEUES } from '#core/config/queues.ts'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { LOWEST_ID, newId } from '#core/ids.ts'
import { overviewSchema, findOverview } from '#domain/operations/overview.ts'
import { findProviderHealth, providerHealthSchema } from '#domain/operations/provider-health.ts'
import { findNameFigures, nameFiguresSchema } from '#domain/operations/job-names.ts'
import { BOUNDS_MS, percentilesOf } from '#domain/rollups/histograms.ts'
import { deleteOldRollups } from '#domain/rollups/retention.ts'
import { findQueueFigures, queuesFiguresSchema } from '#domain/operations/queues.ts'
import { findSeries, seriesSchema } from '#domain/operations/series.ts'
import { findTenantShares, tenantSharesSchema } from '#domain/operations/tenant-shares.ts'
import { beginRun } from '#domain/jobs/recurring.ts'
import { countJobsForRollups, countPositionSchema } from '#domain/rollups/count-jobs.ts'
import { countPayments } from '#domain/rollups/count-payments.ts'
import { rollUpOnce } from '#workers/recurring/rollups.ts'
import { createDatabase } from '#test/databases.ts'
import { capturedPayment, createPayment, eventually, refund } from '#test/payments.ts'
import { SMALL_TABLES } from '#test/plans.ts'
import { urlAs } from '#test/users.ts'
import { testIn, type World } from '#test/world.ts'

/** Connections with the roles of the roll-up worker and of the dashboard. */
let worker: Sql
let dashboard: Sql
const test = testIn()
test.beforeAll(async ({ world }) => {
  const open = (role: 'worker' | 'dashboard') =>
    connectDatabase(urlAs(role, world.config.DATABASE_URL!), { max: 3, application_name: `test-${role}` })
  worker = open('worker')
  dashboard = open('dashboard')
})
afterAll(async () => {
  await worker?.end()
  await dashboard?.end()
})

/** Runs roll-ups until the roll-ups include every job finished before now. */
async function countAll(world: World): Promise<void> {
  const [now] = await world.sql<{ at: string }[]>`select clock_timestamp() as at`
  await eventually(async () => {
    await world.sql`update recurring_work set due_at = now() where name = 'roll-ups'`
    await rollUpOnce(worker, { jobs_at_once: 3 })
    const [reached] = await world.sql<{ after: string }[]>`
      select position ->> 'after' as after from recurring_work where name = 'roll-ups'`
    expect(reached!.after > now!.at).toBe(true)
  })
}

/** Finished jobs, counted from the table of jobs. */
async function recount(world: World): Promise<object[]> {
  return [
    ...(await world.sql`
    select queue, name, count(*) filter (where state = 'succeeded') as succeeded,
      count(*) filter (where state = 'failed') as failed, count(*) filter (where state = 'discarded') as discarded
    from jobs where finished_at is not null group by 1, 2 order by 1, 2`),
  ]
}

async function rolledUp(world: World, resolution: number): Promise<object[]> {
  return [
    ...(await world.sql`
    select queue, name, sum(succeeded)::bigint as succeeded, sum(failed)::bigint as failed,
      sum(discarded)::bigint as discarded
    from job_rollups where resolution = ${resolution} and name <> '' group by 1, 2
    having sum(succeeded + failed + discarded) > 0 order by 1, 2`),
  ]
}

test('roll-ups count each job, tenant and payment once', async ({ world }) => {
  const { client, sql, tenant_id } = world
  // The first roll-up includes earlier jobs.
  await capturedPayment(client, { currency: 'eur', amount_minor: 500 })
  await world.drain()
  await countAll(world)
  const { id } = await capturedPayment(client)
  await refund(client, id, { amount_minor: 300 })
  await createPayment(client, { payment_method: 'pm_card_chargeDeclined' })
  const other = await world.clientOf()
  await capturedPayment(other)
  await world.drain()
  await countAll(world)

  const counted = await recount(world)
  expect(counted.length).toBeGreaterThan(2)
  expect(await rolledUp(world, 60)).toEqual(counted)
  expect(await rolledUp(world, 3600)).toEqual(counted)
  // In the end, arrivals equal finished jobs, because no job was open at the first roll-up. Arrivals are counted with
  // the next sample of open jobs, later than finished jobs.
  await eventually(async () => {
    await countAll(world)
    const [flow] = await sql`
      select sum(arrived)::bigint as arrivals, sum(succeeded + failed + discarded)::bigint as departures from job_rollups
      where resolution = 60 and name = ''`
    expect(flow!['arrivals']).toBe(flow!['departures'])
  })

  const shares = tenantSharesSchema.parse(
    await findTenantShares(dashboard, { queue: 'payments', window: '1h' }),
  )
  const finished_by_tenant = await sql`
    select tenant_id, count(*) as finished from jobs where queue = 'payments' group by 1 order by 2 desc`
  expect(shares.tenants.map(({ tenant_id: tenant, finished }) => ({ tenant_id: tenant, finished }))).toEqual([
    ...finished_by_tenant,
  ])

  await eventually(async () => {
    await countAll(world)
    expect(await findOverview(dashboard, tenant_id)).toMatchObject({ uncounted_events: 0 })
  })
  const overview = overviewSchema.parse(await findOverview(dashboard, tenant_id))
  const today = overview.currencies.map(({ currency, week }) => ({ currency, ...week }))
  const one = { captured: 1, refunded: 0, refunded_minor: 0, authorized: 1, failed: 0, success_rate: 1 }
  const refunded = { refunded: 1, refunded_minor: 300, failed: 1, success_rate: 0.5 }
  expect(today).toEqual([
    { ...one, currency: 'eur', captured_minor: 500 },
    { ...one, ...refunded, currency: 'usd', captured_minor: 1000 },
  ])
  expect(overview.balances).toHaveLength(2)

  const now = new Date()
  const series = await findSeries(dashboard, {
    queue: 'payments',
    from: new Date(now.getTime() - 600_000).toISOString(),
    to: new Date(now.getTime() + 60_000).toISOString(),
    points: 30,
  })
  const finished = finished_by_tenant.reduce((sum, { finished: count }) => sum + count, 0)
  expect(seriesSchema.parse(series).points.reduce((sum, { out }) => sum + out, 0)).toBe(finished)
  const { names } = nameFiguresSchema.parse(
    await findNameFigures(dashboard, { queue: 'payments', window: '24h' }),
  )
  expect(names.reduce((sum, { out }) => sum + out, 0)).toBe(finished)
  const { providers } = providerHealthSchema.parse(await findProviderHealth(dashboard))
  expect(providers.find(({ provider }) => provider === 'stripe')).toMatchObject({
    calls: 8,
    done: 7,
    declined: 1,
  })
})

test('a roll-up waits for open transactions, and a roll-up whose lease has expired writes nothing', async ({
  world,
}) => {
  const { sql, tenant_id } = world
  await countAll(world)
  const name = 'payment.capture'
  const insert = (state: string) => sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, finished_at)
    values (${newId()}, ${tenant_id}, 'payments', ${name}, '{}', 1, ${state}, now())`
  const late = await sql.reserve()
  try {
    await late`begin`
    await late`
      insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, finished_at)
      values (${newId()}, ${tenant_id}, 'payments', ${name}, '{}', 1, 'failed', now())`
    await insert('failed')
    // The open transaction has written a job, so the roll-up waits for this transaction longer than for other
    // transactions.
    await sql`update recurring_work set due_at = now(), lease_until = null where name = 'roll-ups'`
    const run = await beginRun(worker, 'roll-ups')
    const start_position = countPositionSchema.parse(run!.position)
    const options = { queues: QUEUES, limit: 10 }
    await sql`select pg_sleep(1.1)`
    const first = await countJobsForRollups(worker, run!, start_position, options)
    expect(first).toMatchObject({ waits: true, more: false })
    const at = '2026-01-01T00:00:00.000000Z'
    const { transactions } = first!.position.awaited!
    const later = { ...first!.position, awaited: { at, transactions } }
    expect(await countJobsForRollups(worker, run!, later, options)).toMatchObject({ waits: true })
    await late`commit`
    expect(await countJobsForRollups(worker, run!, first!.position, options)).toMatchObject({ waits: false })
    // Another worker has claimed the run: the writes of the first worker are refused and rolled back.
    await sql`update recurring_work set lease_token = gen_random_uuid() where name = 'roll-ups'`
    expect(await countJobsForRollups(worker, run!, first!.position, options)).toBeUndefined()
    expect(await countPayments(worker, run!)).toBeUndefined()
    // The worker dies after it has committed a step. The next run continues after this step.
    await sql`update recurring_work set lease_token = null, lease_until = null where name = 'roll-ups'`
  } finally {
    await late`rollback`.catch(() => {})
    late.release()
  }
  await countAll(world)
  expect(await rolledUp(world, 60)).toEqual(await recount(world))
})

test('roll-ups of an hour have at most 21 rows for 200 tenants, and percentiles are exact to their bucket', async ({
  world,
}) => {
  const { sql } = world
  const before = await findTenantShares(dashboard, { queue: 'ai', window: '1h' })
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, run_at, started_at, finished_at)
    select gen_random_uuid(), md5((n % 200)::text)::uuid, 'ai', 'ai_task.run', '{}', 1, 'succeeded',
      now() - n * interval '1 millisecond' - interval '2 ms', now() - interval '2 ms', now()
    from generate_series(1, 1000) n`
  await countAll(world)
  const rows =
    await sql`select count(*) as count, queue, at from tenant_rollups where queue = 'ai' group by 2, 3`
  for (const { count } of rows) expect(count).toBeLessThanOrEqual(21)
  const shares = await findTenantShares(dashboard, { queue: 'ai', window: '1h' })
  expect(shares.finished - before.finished).toBe(1000)
  expect(shares.tenants.at(-1)).toMatchObject({ tenant_id: null })
  expect(JSON.stringify(shares)).not.toContain(LOWEST_ID)
  const { names } = await findNameFigures(dashboard, { queue: 'ai', window: '1h' })
  const { wait, run } = names[0]!
  const expectNear = (value: number | null, exact: number) => {
    const upper = BOUNDS_MS.findIndex((bound) => bound > exact)
    expect(value).toBeGreaterThanOrEqual(BOUNDS_MS[upper - 1]!)
    expect(value).toBeLessThanOrEqual(BOUNDS_MS[upper]!)
  }
  expectNear(wait.p50_ms, 500)
  expectNear(wait.p95_ms, 950)
  expectNear(wait.p99_ms, 990)
  expectNear(run.p50_ms, 2)
  expect(percentilesOf([])).toEqual({ p50_ms: null, p95_ms: null, p99_ms: null })
})

test('an hour whose jobs are counted late and in several runs includes all jobs of its tenants', async ({
  world,
}) => {
  const { sql, tenant_id } = world
  await countAll(world)
  const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000 - 6 * 3_600_000).toISOString()
  await sql`
    update recurring_work set position = position || jsonb_build_object('awaited', null, 'after', ${hour.replace('Z', '000Z')}::text,
      'after_id', ${LOWEST_ID}::text) where name = 'roll-ups'`
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, started_at, finished_at)
    select gen_random_uuid(), ${tenant_id}, 'compliance', 'late.work', '{}', 1, 'succeeded', at, at
    from (select ${hour}::timestamptz + n * interval '1 minute' as at from generate_series(1, 50) n) n`
  for (let run = 0; run < 2; run++) {
    await sql`update recurring_work set due_at = now() where name = 'roll-ups'`
    // A run has twenty steps, here of one job each, so it ends before all jobs of the hour are counted.
    await rollUpOnce(worker, { jobs_at_once: 1 })
  }
  await countAll(world)
  const [counted] = await sql`
    select sum(finished)::integer as finished from tenant_rollups
    where resolution = 3600 and at = ${hour} and queue = 'compliance'`
  expect(counted).toEqual({ finished: 50 })
})

test('the figures of a queue, of its job names and of its provider include waiting jobs, and the figures of the queue include its pause', async ({
  world,
}) => {
  const { sql, tenant_id } = world
  await sql`insert into pauses (queue) values ('compliance')`
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at, refused_since, in_doubt)
    select gen_random_uuid(), ${tenant_id}, 'compliance', 'kyc.create', '{}', 1, now() + at,
      case when at < interval '0' then now() end, at = interval '1 hour'
    from unnest(array[interval '-90 s', interval '-10 s', interval '1 hour', interval 'infinity']) at`
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, unknown_since, run_at)
    values (${newId()}, ${tenant_id}, 'compliance', 'kyc.create', '{}', 1, 'unknown', now(), now() + interval '1 hour')`
  const complianceFigures = async () => {
    await countAll(world)
    const { queues, as_of } = queuesFiguresSchema.parse(await findQueueFigures(dashboard))
    expect(as_of).not.toBeNull()
    return queues.find(({ queue }) => queue === 'compliance')!
  }
  await eventually(async () => {
    const compliance = await complianceFigures()
    expect(compliance).toMatchObject({ due: 2, later: 1, running: 0, unknown: 1, parked: 1, paused: true })
    expect(compliance.oldest_due_s).toBeGreaterThanOrEqual(90)
  })
  const currentFigures = async () => {
    const { names } = await findNameFigures(dashboard, { queue: 'compliance', window: '24h' })
    const { providers } = await findProviderHealth(dashboard)
    return [
      names.find(({ name }) => name === 'kyc.create'),
      providers.find(({ provider }) => provider === 'stripe'),
    ]
  }
  const open = { due: 2, later: 1, running: 0, unknown: 1, parked: 1 }
  expect(await currentFigures()).toMatchObject([open, { refused: 2, in_doubt: 1, unknown: 1 }])
  // Jobs that waited during a seal are due since its end.
  await sql`update lineage set unsealed_at = now()`
  await eventually(async () => {
    expect((await complianceFigures()).oldest_due_s).toBeLessThan(90)
    expect((await currentFigures())[0]).toMatchObject({
      due: 2,
      oldest_due_s: expect.toSatisfy((s) => s < 90),
    })
  })
  await sql`delete from jobs where queue = 'compliance'`
  await eventually(async () =>
    expect(await complianceFigures()).toMatchObject({ due: 0, later: 0, parked: 0, oldest_due_s: 0 }),
  )
  // The figures of a day show the open jobs of the last minute, although the row of the hour keeps the maximum.
  const none = { due: 0, later: 0, running: 0, unknown: 0, parked: 0, oldest_due_s: 0 }
  expect(await currentFigures()).toMatchObject([none, { refused: 0, in_doubt: 0, unknown: 0 }])
  await sql`delete from pauses`
  await sql`update lineage set unsealed_at = null`
})

test('the figures of a queue include jobs of the current minute', async ({ world }) => {
  await world.sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, attempt, started_at, finished_at)
    select gen_random_uuid(), ${world.tenant_id}, 'messages', 'just.now', '{}', 1, 'succeeded', 1, now(), now()
    from generate_series(1, 100)`
  await eventually(async () => {
    await countAll(world)
    const { queues } = await findQueueFigures(dashboard)
    const { in_per_s_1m, out_per_s_1m, out_by_minute, wait } = queues.find(
      ({ queue }) => queue === 'messages',
    )!
    expect(out_by_minute.reduce((sum, out) => sum + out, 0)).toBe(100)
    for (const rate of [in_per_s_1m, out_per_s_1m]) {
      expect(rate).toBeGreaterThanOrEqual(100 / 120)
      expect(rate).toBeLessThanOrEqual(100 / 60)
    }
    expect(wait.last_5m.p50_ms).not.toBeNull()
  })
})

test('a job name without open jobs shows zero due jobs, even hours after the last sample', async ({
  world,
}) => {
  const { sql, tenant_id } = world
  await sql`insert into pauses (queue) values ('payouts')`
  onTestFinished(async () => void (await sql`delete from pauses`))
  const due = async (window: '1h' | '24h') => {
    await countAll(world)
    const { names } = await findNameFigures(dashboard, { queue: 'payouts', window })
    return names.find(({ name }) => name === 'payout.create')?.due
  }
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts)
    select gen_random_uuid(), ${tenant_id}, 'payouts', 'payout.create', '{}', 1 from generate_series(1, 3)`
  await eventually(async () => expect([await due('1h'), await due('24h')]).toEqual([3, 3]))
  await sql`delete from jobs where queue = 'payouts'`
  await eventually(async () => expect([await due('1h'), await due('24h')]).toEqual([0, 0]))
  // Moves the rows of the job name into the past. The per-minute rows are then too old to be shown, and the row of
  // their hour keeps the maximum.
  await sql`
    update job_rollups set at = at - interval '2 hours', sampled_at = sampled_at - interval '2 hours'
    where queue = 'payouts' and name <> ''`
  expect(await due('24h')).toBe(0)
})

/** Sets the position of the roll-ups between two runs. */
async function setPosition(world: World, position: object): Promise<void> {
  await world.sql`
    update recurring_work set position = position || ${world.sql.json(position as never)}::jsonb,
      due_at = now() + interval '1 hour' where name = 'roll-ups'`
}

test('rates cover only the counted time, even if open jobs are sampled rarely', async ({ world }) => {
  const { sql, tenant_id } = world
  await countAll(world)
  const minute_ms = Math.floor(Date.now() / 60_000) * 60_000
  const at = (ms: number) => new Date(minute_ms + ms).toISOString().replace('Z', '000Z')
  await sql`delete from job_rollups where queue = 'payouts'`
  await sql`
    insert into job_rollups (resolution, at, queue, name, succeeded, arrived)
    select 60, at::timestamptz, 'payouts', '', n::integer, arrived::integer
    from (values (${at(0)}, 45, 0), (${at(-60_000)}, 60, 0), (${at(-120_000)}, 60, 20), (${at(-180_000)}, 60, 120)) r(at, n, arrived)`
  await setPosition(world, { after: at(45_000), sampled: at(-110_000) })
  const { queues } = await findQueueFigures(dashboard)
  const payouts = queues.find(({ queue }) => queue === 'payouts')!
  expect(payouts).toMatchObject({ out_per_s_1m: 1, in_per_s_1m: 2 })

  // Arrivals since the last sample are spread over all minutes since that sample.
  await sql`insert into pauses (queue) values ('payouts')`
  onTestFinished(async () => void (await sql`delete from pauses`))
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts)
    select gen_random_uuid(), ${tenant_id}, 'payouts', 'payout.create', '{}', 1 from generate_series(1, 180)`
  await setPosition(world, {
    after: at(-120_000),
    after_id: LOWEST_ID,
    sampled: at(-120_000),
    sample_at_ms: 0,
  })
  await sql`delete from job_rollups where queue = 'payouts'`
  await sql`update jobs set created_at = ${at(-60_000)} where queue = 'payouts'`
  await eventually(async () => {
    await countAll(world)
    const rows = await sql<{ arrived: number }[]>`
      select arrived from job_rollups where resolution = 60 and queue = 'payouts' and name = '' and arrived > 0`
    expect(rows.reduce((sum, { arrived }) => sum + arrived, 0)).toBe(180)
    for (const { arrived } of rows) expect(arrived).toBeLessThanOrEqual(90)
  })
  await sql`delete from jobs where queue = 'payouts'`
})

test('without roll-ups the figures state that counting has stopped, the oldest due job is read live, and unknown calls remain', async ({
  world,
}) => {
  const { sql, tenant_id } = world
  await sql`insert into pauses (queue) values ('payouts')`
  onTestFinished(async () => {
    await sql`delete from pauses`
    await sql`delete from jobs where queue = 'payouts'`
  })
  const insert = async (row: object) => {
    const job = {
      id: newId(),
      tenant_id,
      queue: 'payouts',
      name: 'payout.create',
      payload: {},
      max_attempts: 1,
    }
    await sql`insert into jobs ${sql({ ...job, ...row } as never)}`
  }
  const unknown = { state: 'unknown', unknown_since: 'now', run_at: '2100-01-01' }
  await insert(unknown)
  const unresolvedCalls = async () => {
    const { providers, counting } = await findProviderHealth(dashboard)
    const stripe = providers.find(({ provider }) => provider === 'stripe')!
    return { unknown: stripe.unknown, counting }
  }
  await eventually(async () => {
    await countAll(world)
    expect(await unresolvedCalls()).toEqual({ unknown: 1, counting: 'current' })
  })
  // Simulates a worker that stopped 20 minutes ago.
  await sql`
    update job_rollups set at = at - interval '20 minutes', sampled_at = sampled_at - interval '20 minutes'
    where resolution = 60 and at > now() - interval '5 minutes'`
  const [stopped] = await sql<{ at: string }[]>`select now() - interval '20 minutes' as at`
  await setPosition(world, { after: stopped!.at, sampled: stopped!.at })
  await sql`update recurring_work set ended_at = ${stopped!.at} where name = 'roll-ups'`
  await insert({ run_at: new Date(Date.now() - 90_000).toISOString() })
  expect(await unresolvedCalls()).toEqual({ unknown: 1, counting: 'stopped' })
  const { queues, as_of, counting } = await findQueueFigures(dashboard)
  expect([as_of, counting]).toEqual([stopped!.at, 'stopped'])
  expect(queues.find(({ queue }) => queue === 'payouts')!.oldest_due_s).toBeGreaterThanOrEqual(90)
  // A worker runs again and has a backlog.
  await sql`update recurring_work set lease_until = now() + interval '1 minute' where name = 'roll-ups'`
  expect(await unresolvedCalls()).toMatchObject({ counting: 'behind' })
  await sql`update recurring_work set lease_until = null where name = 'roll-ups'`
})

test('roll-ups are deleted after their retention, but the per-minute rows of a tenant are kept until their hour is summed', async ({
  world,
}) => {
  const { sql } = world
  const [kept, expired, counted] = [newId(), newId(), new Date().toISOString()]
  const [queue, summed] = ['forgotten', '1970-01-01T00:00:00Z']
  await sql`
    insert into job_rollups (resolution, at, queue, name)
    select resolution, now() - at::interval, ${queue}, '' from (values (60, '47 h'), (60, '49 h'), (3600, '89 d'), (3600, '91 d'))
      r(resolution, at)`
  await sql`
    insert into tenant_rollups (resolution, at, queue, tenant_id, finished, run_ms)
    select resolution, now() - at::interval, ${queue}, tenant_id::uuid, 1, 1
    from (values (60, '2 h', ${kept}), (60, '5 h', ${expired}), (3600, '89 d', ${kept}), (3600, '91 d', ${expired}))
      r(resolution, at, tenant_id)`
  await sql`
    insert into payment_days (tenant_id, day, currency, kind, count, amount_minor)
    select tenant_id::uuid, now()::date - days, 'USD', 'captured', 1, 1
    from (values (399, ${kept}), (401, ${expired})) d(days, tenant_id)`
  const remainingRows = async () => {
    const [row] = await sql`
      select (select array_agg(resolution || ' ' || extract(day from now() - at) order by at) from job_rollups
          where queue = ${queue}) as jobs,
        (select array_agg(distinct tenant_id::text) from tenant_rollups where queue = ${queue} and resolution = 60) as minutes,
        (select array_agg(tenant_id::text) from tenant_rollups where queue = ${queue} and resolution = 3600) as hours,
        (select array_agg(tenant_id::text) from payment_days where tenant_id in (${kept}, ${expired})) as days`
    return row
  }
  await deleteOldRollups(worker, summed, 100)
  const after = { jobs: ['3600 89', '60 1'], hours: [kept], days: [kept] }
  expect(await remainingRows()).toEqual({ ...after, minutes: [kept, expired].toSorted() })
  await deleteOldRollups(worker, counted, 100)
  expect(await remainingRows()).toEqual({ ...after, minutes: [kept] })
})

test('no query of the dashboard or of the roll-ups scans a table of jobs, payments or events', async () => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  const open = (role: 'worker' | 'dashboard') =>
    connectDatabase(urlAs(role, database.url), { max: 1, application_name: `test-${role}` })
  const [roll_ups, reader] = [open('worker'), open('dashboard')]
  await rollUpOnce(roll_ups)
  await findQueueFigures(reader)
  const to = new Date().toISOString()
  await findSeries(reader, { queue: 'payments', from: '2026-01-01T00:00:00Z', to, points: 10 })
  await findNameFigures(reader, { queue: 'payments', window: '24h' })
  await findTenantShares(reader, { window: '7d' })
  await findProviderHealth(reader)
  await findOverview(reader, newId())
  for (const sql of [roll_ups, reader]) {
    await sql`select pg_stat_force_next_flush()`
    await sql`select 1`
    await sql.end()
  }
  const sql = postgres(database.url, { max: 1 })
  const used = await sql<{ relname: string; seq_scan: string; idx_scan: string }[]>`
    select relname, seq_scan, idx_scan from pg_stat_user_tables where seq_scan > 0 or idx_scan > 0`
  await sql.end()
  const names = used.map(({ relname }) => relname)
  expect(names).toEqual(expect.arrayContaining(['jobs', 'job_rollups', 'payment_days', 'webhook_endpoints']))
  const scanned_tables = used.filter(({ seq_scan }) => seq_scan !== '0').map(({ relname }) => relname)
  expect(scanned_tables.filter((name) => !SMALL_TABLES.has(name))).toEqual([])
})

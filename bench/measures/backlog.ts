// Drains a backlog: the rate must not depend on its size or on the number of tenants, and other tenants must not wait
// longer.
import { setTimeout as sleep } from 'node:timers/promises'
import { BY_CARD, freshKey } from '#test/client.ts'
import { median } from '../compare.ts'
import { openLoop, request } from '../load.ts'
import type { System } from '../system.ts'
import { atLeast, atMost, info, type Row } from '../table.ts'
import type { Measure } from './measure.ts'

const TENANT_COUNT = 2000
/** The first and the last part of a drain are compared. Each part is this share of the drain's time. */
const SHARE = 0.2
/** A smaller backlog of the noisy tenant, as a share of the large one. */
const SMALL_SHARE = 0.25
const OTHER_REQUESTS_PER_S = 20

const HEADERS = { 'content-type': 'application/json', prefer: 'respond-async' }
const paymentOf = (idempotency_key: string) =>
  JSON.stringify({ ...BY_CARD, idempotency_key, amount_minor: 1000 })

/**
 * Drains the cheapest jobs: those of notifications that do not exist. Each job is claimed, looked up and settled
 * without a provider call, so that the figures show the queue and not the work.
 */
export const backlog: Measure = {
  name: 'backlog',
  about: 'draining a backlog (--backlog N jobs) of 2 and 2,000 tenants; waits of other tenants meanwhile',
  async run(system) {
    const { backlog: jobs, log } = system.options
    const row = { measure: 'backlog', unit: 'jobs/s' } as const
    const rows: Row[] = []
    const two_tenants = await drain(system, jobs, 2)
    log(`over 2 tenants: ${Math.round(two_tenants.rate)} jobs/s`)
    const many = await drain(system, jobs, TENANT_COUNT)
    log(`over ${TENANT_COUNT} tenants: ${Math.round(many.rate)} jobs/s`)
    for (const [tenants, drained] of [
      ['2 tenants', two_tenants],
      ['2,000 tenants', many],
    ] as const) {
      rows.push(
        info({ ...row, name: `Backlog over ${tenants}, drained at`, measured: drained.rate }),
        atLeast(
          { ...row, name: `Backlog over ${tenants}, the last fifth`, measured: drained.last },
          { name: 'the first fifth', value: drained.first },
          0.8,
        ),
        info({
          ...row,
          unit: 'MB',
          name: `Backlog over ${tenants}, memory of the worker`,
          measured: drained.rss_mb,
        }),
      )
    }
    rows.push(
      atLeast(
        { ...row, name: 'Backlog over 2,000 tenants, drained at', measured: many.rate },
        { name: 'over 2 tenants', value: two_tenants.rate },
        0.8,
      ),
    )
    const quiet = await waitNextTo(system, 0)
    const small = await waitNextTo(system, Math.round(jobs * SMALL_SHARE))
    const large = await waitNextTo(system, jobs)
    const wait = { measure: 'backlog', unit: 'ms' } as const
    rows.push(
      info({ ...wait, name: 'Wait of another tenant, p95, idle', measured: quiet }),
      info({
        ...wait,
        name: `The same next to a backlog of ${Math.round(jobs * SMALL_SHARE)} jobs`,
        measured: small,
      }),
      atMost(
        { ...wait, name: `The same next to a backlog of ${jobs} jobs`, measured: large },
        { name: 'a quarter of the backlog', value: small },
        1.1,
      ),
    )
    return rows
  },
}

async function fill({ sql }: System, jobs: number, tenants: number): Promise<void> {
  await sql`truncate jobs, job_attempts`
  const batch_size = 50_000
  for (let from = 0; from < jobs; from += batch_size)
    await sql`
      insert into jobs (id, tenant_id, queue, name, payload, max_attempts)
      select gen_random_uuid(), md5('backlog ' || n % ${tenants}::integer)::uuid, 'payments', 'notification.apply',
        jsonb_build_object('notification_id', gen_random_uuid()), 25
      from generate_series(${from}::integer, ${Math.min(jobs, from + batch_size) - 1}::integer) n`
  await sql`analyze jobs`
}

async function isOpen({ sql }: System, queue: string): Promise<boolean> {
  const rows = await sql`select from jobs where queue = ${queue} and finished_at is null limit 1`
  return rows.length > 0
}

type Drained = { rate: number; first: number; last: number; rss_mb: number }

/** Drains a backlog and measures from the first finished job to the last. */
async function drain(system: System, jobs: number, tenants: number): Promise<Drained> {
  await fill(system, jobs, tenants)
  await using worker = await system.startProduct('worker', { QUEUES: 'payments' })
  let rss_mb = 0
  const timer = setInterval(() => (rss_mb = Math.max(rss_mb, worker.rssMb())), 1000)
  // Other queues have no worker: a late notification would wait there forever.
  while (await isOpen(system, 'payments')) await sleep(50)
  clearInterval(timer)
  const [row] = await system.sql<Omit<Drained, 'rss_mb'>[]>`
    with done as (select extract(epoch from finished_at - min(finished_at) over ())::float8 as at from jobs),
      took as (select max(at) as s from done)
    select ${jobs}::float8 / s as rate,
      (select count(*) from done where at <= s * ${SHARE}::float8) / (s * ${SHARE}::float8) as first,
      (select count(*) from done where at >= s * (1 - ${SHARE}::float8)) / (s * ${SHARE}::float8) as last
    from took`
  return { ...row!, rss_mb }
}

/**
 * The p95 of the time that other tenants' jobs wait for a worker while one tenant has this backlog; median of the
 * rounds.
 */
async function waitNextTo(system: System, jobs: number): Promise<number> {
  const { seconds, rounds } = system.options
  const waits: number[] = []
  for (let round = 0; round < rounds; round++) {
    await fill(system, jobs, 1)
    await using api = await system.startProduct('api')
    await using worker = await system.startProduct('worker', { QUEUES: 'payments' })
    void worker
    await sleep(1000)
    const next = () => {
      const { authorization } = system.keys[waits.length % system.keys.length]!
      return request('POST', '/v1/payments', { ...HEADERS, authorization }, paymentOf(freshKey()))
    }
    await openLoop({ url: api.url, connections: 8, seconds, rate: OTHER_REQUESTS_PER_S, expect: 202, next })
    const [row] = await system.sql<{ p95_ms: number; open: boolean }[]>`
      select percentile_cont(0.95) within group (order by extract(epoch from started_at - created_at)::float8 * 1000) as p95_ms,
        exists (select from jobs where name = 'notification.apply' and finished_at is null) as open
      from jobs where name = 'payment.authorize'`
    if (jobs > 0 && !row!.open)
      throw new Error(`the backlog of ${jobs} jobs was drained before the end of the run: increase --backlog`)
    waits.push(row!.p95_ms)
  }
  return median(waits)
}

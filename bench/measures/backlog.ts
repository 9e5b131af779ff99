// Draining a backlog: at a constant rate whatever waits, the same over few and many tenants, and beside it others wait no longer.
import { setTimeout as sleep } from 'node:timers/promises'
import { BY_CARD, freshKey } from '#test/client.ts'
import { median } from '../compare.ts'
import { openLoop, request } from '../load.ts'
import type { System } from '../system.ts'
import { atLeast, atMost, info, type Row } from '../table.ts'
import { untilDrained, type Measure } from './measure.ts'

const MANY_TENANTS = 2000
/** Of the time a drain takes, the first and the last this part are compared. */
const SHARE = 0.2
/** A noisy tenant with few waiting: as much noise, of another size. */
const SMALL_SHARE = 0.25
const OTHERS_PER_S = 20

const HEADERS = { 'content-type': 'application/json', prefer: 'respond-async' }
const paymentOf = (idempotency_key: string) =>
  JSON.stringify({ ...BY_CARD, idempotency_key, amount_minor: 1000 })

/**
 * Jobs of the cheapest kind, notifications that nobody stored: each is claimed, looked for and settled like any other, and no
 * processor is asked, so what is measured is the draining and not the work.
 */
export const backlog: Measure = {
  name: 'backlog',
  about: 'draining a backlog (--backlog N jobs) over 2 and 2,000 tenants; others beside a noisy tenant',
  async run(system) {
    const { backlog: jobs, log } = system.options
    const row = { measure: 'backlog', unit: 'jobs/s' } as const
    const rows: Row[] = []
    const few = await drain(system, jobs, 2)
    log(`over 2 tenants: ${Math.round(few.rate)} jobs/s`)
    const many = await drain(system, jobs, MANY_TENANTS)
    log(`over ${MANY_TENANTS} tenants: ${Math.round(many.rate)} jobs/s`)
    for (const [tenants, drained] of [
      ['2 tenants', few],
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
        { name: 'over 2 tenants', value: few.rate },
        0.8,
      ),
    )
    const quiet = await waitNextTo(system, 0)
    const small = await waitNextTo(system, Math.round(jobs * SMALL_SHARE))
    const large = await waitNextTo(system, jobs)
    const wait = { measure: 'backlog', unit: 'ms' } as const
    rows.push(
      info({ ...wait, name: 'Wait of another tenant, p95, nothing else to do', measured: quiet }),
      info({
        ...wait,
        name: `The same beside ${Math.round(jobs * SMALL_SHARE)} waiting jobs`,
        measured: small,
      }),
      atMost(
        { ...wait, name: `The same beside ${jobs} waiting jobs`, measured: large },
        { name: 'beside a quarter of them', value: small },
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

type Drained = { rate: number; first: number; last: number; rss_mb: number }

/** From the first job that is done to the last. */
async function drain(system: System, jobs: number, tenants: number): Promise<Drained> {
  await fill(system, jobs, tenants)
  await using worker = await system.startProduct('worker', { QUEUES: 'payments' })
  let rss_mb = 0
  const timer = setInterval(() => (rss_mb = Math.max(rss_mb, worker.rssMb())), 1000)
  await untilDrained(system)
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

/** The p95 of how long the jobs of other tenants wait for a worker, beside a tenant with so many waiting; the median of the rounds. */
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
    await openLoop({ url: api.url, connections: 8, seconds, rate: OTHERS_PER_S, expect: 202, next })
    const [row] = await system.sql<{ p95_ms: number; open: boolean }[]>`
      select percentile_cont(0.95) within group (order by extract(epoch from started_at - created_at)::float8 * 1000) as p95_ms,
        exists (select from jobs where name = 'notification.apply' and finished_at is null) as open
      from jobs where name = 'payment.authorize'`
    if (jobs > 0 && !row!.open)
      throw new Error(`a backlog of ${jobs} is drained before the end of the run: --backlog`)
    waits.push(row!.p95_ms)
  }
  return median(waits)
}

// Growth: captures and sweeps in a database with many finished jobs, compared with an empty one.
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { auditChanges } from '#domain/audit/audit.ts'
import { findDue, findOldestDue } from '#domain/jobs/claimable.ts'
import { HISTORY_START, moveFinishedJobs, type MovePosition } from '#domain/history.ts'
import { deleteOldKeys } from '#domain/idempotency.ts'
import { countUnknown } from '#domain/jobs/states.ts'
import { countParked } from '#domain/notifications/notification.ts'
import { findAbandonedPayments, findExpiredHolds, warnOfExpiry } from '#domain/payments/expiry.ts'
import { syncUnknownDrifts } from '#domain/reconciliation/unknown-jobs.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { needRedis } from '#test/redis.ts'
import { runAlternately, median } from '../compare.ts'
import { createKeys, type System } from '../system.ts'
import { atLeast, atMost, info, type Row } from '../table.ts'
import { openPayments } from './captures/payments.ts'
import { fill } from './growth/fill.ts'
import type { Measure } from './measure.ts'

const SWEEPS: Record<string, (sql: Sql) => Promise<unknown>> = {
  findDue: (sql) =>
    findDue(sql, [{ queue: 'payments', room: 100, after: null }], { names: JOB_NAMES, grace_ms: 1000 }),
  findOldestDue: (sql) => findOldestDue(sql, ['payments'], JOB_NAMES),
  countUnknown,
  countParked: (sql) => countParked(sql, 1_000),
  syncUnknownDrifts,
  warnOfExpiry: (sql) => warnOfExpiry(sql, 100),
  findExpiredHolds: (sql) => findExpiredHolds(sql, 100),
  findAbandonedPayments: (sql) => findAbandonedPayments(sql, 86_400, 100),
  deleteOldKeys: (sql) => deleteOldKeys(sql, 1_000),
  moveFinishedJobs: (sql) => moveFinishedJobs(sql, HISTORY_START, 1_000),
}

export const growth: Measure = {
  name: 'growth',
  about: 'only when named: captures and sweeps with --finished finished jobs, against an empty database',
  on_demand: true,
  async run(system) {
    await using empty = await openGrowthSystem(system, 0)
    await using full = await openGrowthSystem(system, system.options.finished)
    const { seconds, rounds, finished, log } = system.options
    const row = { measure: 'growth' } as const
    const many = `${finished.toLocaleString('en-US')} finished jobs`
    log('sweeps')
    const sweeps = { empty: await timeSweeps(empty.sql), full: await timeSweeps(full.sql) }
    const rows: Row[] = Object.keys(SWEEPS).map((name) =>
      info(
        { ...row, unit: 'ms', name: `${name}, ${many}`, measured: sweeps.full[name]! },
        { name: 'empty', value: sweeps.empty[name]! },
      ),
    )
    const sumOf = (times: Record<string, number>) =>
      Object.values(times).reduce((total, each) => total + each)
    rows.push(
      atMost(
        { ...row, unit: 'ms', name: `All sweeps once, ${many}`, measured: sumOf(sweeps.full) },
        { name: 'an empty database', value: sumOf(sweeps.empty) },
        2,
      ),
    )

    log('capturing')
    for (const side of [empty, full]) await side.capture(Math.min(3, seconds))
    const results = await runAlternately(rounds, {
      empty: () => empty.capture(seconds),
      full: () => full.capture(seconds),
    })
    rows.push(
      atLeast(
        { ...row, unit: 'req/s', name: `Capture, 64 clients, ${many}`, measured: results.full.rate },
        { name: 'an empty database', value: results.empty.rate },
        0.95,
      ),
    )
    log('moving and auditing')
    rows.push(
      info({
        ...row,
        unit: 'jobs/s',
        name: 'Moving finished jobs',
        measured: await moveJobsToHistory(full.sql),
      }),
    )
    const started_at = performance.now()
    await auditChanges(full.sql, new Date(Date.now() - 3_600_000).toISOString(), [])
    rows.push(
      info({
        ...row,
        unit: 's',
        name: 'Audit of the last hour',
        measured: (performance.now() - started_at) / 1000,
      }),
    )
    return rows
  },
}

/** A database with its own Redis, API and worker, and payments to capture. */
async function openGrowthSystem(system: System, finished: number) {
  const database_url = await system.createDatabase('migrated')
  const sql = connectDatabase(database_url, { max: 2, application_name: 'bench' })
  const keys = await createKeys(sql, 100)
  if (finished > 0) {
    system.options.log(`writing ${finished.toLocaleString('en-US')} finished jobs and what belongs to them`)
    await fill(database_url, finished)
  }
  const folder = await createTemporaryFolder('bench')
  const redis = await needRedis({ data_dir: folder.path })
  const env = { DATABASE_URL: database_url, REDIS_URL: redis.url }
  const api = await system.startProduct('api', env)
  const worker = await system.startProduct('worker', env)
  const payments = openPayments({ ...system, sql, keys }, api.url)
  return {
    sql,
    async capture(seconds: number) {
      await payments.prepare(4000 * seconds)
      await payments.settled()
      return await payments.capture(64, seconds, 4000)
    },
    async [Symbol.asyncDispose]() {
      for (const each of [worker, api]) await each.stop()
      await sql.end()
      await redis.stop()
      await folder.remove()
    },
  }
}

/** The duration of each sweep in milliseconds; median of eleven runs. */
async function timeSweeps(sql: Sql): Promise<Record<string, number>> {
  const times: Record<string, number> = {}
  for (const [name, sweep] of Object.entries(SWEEPS)) {
    const each: number[] = []
    for (let round = 0; round < 12; round++) {
      const started_at = performance.now()
      await sweep(sql)
      each.push(performance.now() - started_at)
    }
    times[name] = median(each.slice(1))
  }
  return times
}

/** Moves the jobs of the last hour into the history. Returns jobs per second. */
async function moveJobsToHistory(sql: Sql): Promise<number> {
  await sql.begin(async (tx) => {
    await tx`set local statement_timeout = 0`
    await tx`update jobs set finished_at = finished_at - interval '2 hours' where finished_at is not null`
  })
  await sql`vacuum (analyze) jobs`
  let moved = 0
  const started_at = performance.now()
  for (let position: MovePosition | null = HISTORY_START; position !== null;) {
    const step = await moveFinishedJobs(sql, position, 1_000)
    moved += step.moved
    position = step.next
  }
  return (moved * 1000) / (performance.now() - started_at)
}

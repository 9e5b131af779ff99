// The queue alone: BullMQ with no-op jobs, on both backends.
import { info } from '../table.ts'
import type { Measure } from './measure.ts'

export const queue: Measure = {
  name: 'queue',
  about: 'BullMQ no-op jobs on Redis and on its PostgreSQL backend (no required value)',
  async run(system) {
    const run = async (backend: string, jobs: number) => {
      await using floor = await system.startFloor('queue', { BACKEND: backend, JOBS: String(jobs) })
      return floor.report as { rate: number; idle_p50_ms: number }
    }
    const redis = await run('redis', 15_000 * system.options.seconds)
    const postgres = await run('postgres', 1_000 * system.options.seconds)
    const row = { measure: 'queue' } as const
    return [
      info({
        ...row,
        unit: 'jobs/s',
        name: 'Floor: BullMQ on Redis, no-op, concurrency 50',
        measured: redis.rate,
      }),
      info({
        ...row,
        unit: 'ms',
        name: 'Floor: the same idle, add to completed, p50',
        measured: redis.idle_p50_ms,
      }),
      info({ ...row, unit: 'jobs/s', name: 'Floor: BullMQ on PostgreSQL, no-op', measured: postgres.rate }),
      info({
        ...row,
        unit: 'ms',
        name: 'Floor: the same idle, add to completed, p50',
        measured: postgres.idle_p50_ms,
      }),
    ]
  },
}

// Payments with notifications and deliveries beside a snapshot that another session holds: no row that was changed or
// deleted since then can be removed from the tables and indexes, so everything that reads past such rows slows down.
import postgres from 'postgres'
import { closedLoop, openLoop } from '../load.ts'
import { atLeast, atMost, info } from '../table.ts'
import { ALLOW_LOOPBACK, registerBenchEndpoint } from './events/fixtures.ts'
import { untilApplied, type Target } from './life/live.ts'
import { startProductProcesses } from './life/product.ts'
import type { Measure } from './measure.ts'

/**
 * The rate: this share of what 64 clients reach until all is applied, and at most `max` payments per second. Payments
 * that come one by one cost more processor time each, and deliveries are on top: this leaves a third of it free.
 */
const LOAD = { share: 0.2, max: 400 }
/** Seconds of the run that finds the rate, and of the run without the snapshot. At most `--seconds`. */
const SHORT_S = 60
/** The tenants with an endpoint. */
const ENDPOINTS = 20
const CONNECTIONS = 256

const row = { measure: 'snapshot', unit: 'payments/s' } as const

export const snapshot: Measure = {
  name: 'snapshot',
  about:
    'only when named: payments with notifications and deliveries beside a held snapshot, which lasts --seconds, e.g. 3600',
  on_demand: true,
  async run(system) {
    const { seconds, log } = system.options
    await using cleanup = new AsyncDisposableStack()
    const receiver = cleanup.use(await system.startFloor('receiver'))
    const parts = cleanup.use(await startProductProcesses(system, ALLOW_LOOPBACK))
    for (const key of parts.keys.slice(0, ENDPOINTS))
      await registerBenchEndpoint(parts.target.url, key, {
        url: `${String(receiver.report['url'])}/hook/held`,
      })
    const short_s = Math.min(SHORT_S, seconds)
    const rate = Math.min(LOAD.max, Math.floor(LOAD.share * (await highestRate(parts.target, short_s))))
    log(`${rate} payments a second, without a snapshot`)
    const free = await liveAt(parts.target, { rate, seconds: short_s })
    log(`beside a snapshot, for ${seconds} s`)
    const held = await beside(parts.database_url, () => liveAt(parts.target, { rate, seconds }))
    const without = { name: 'without it', value: free.rate }
    return [
      atLeast({ ...row, name: 'Payments beside a held snapshot', measured: held.value.rate }, without, 0.95),
      atMost(
        { ...row, unit: 'ms', name: 'A request beside a held snapshot, p95', measured: held.value.p95_ms },
        { name: 'without it', value: free.p95_ms },
        1.3,
      ),
      ...held.dead.map(({ name, dead, mb }) =>
        info({
          ...row,
          unit: 'rows/h',
          name: `Dead rows of ${name}, ${Math.round(mb)} MB in all`,
          measured: (dead * 3600) / held.elapsed_s,
        }),
      ),
    ]
  },
}

/** Payments per second that 64 clients authorize and capture, until their notifications are applied. */
async function highestRate(target: Target, seconds: number): Promise<number> {
  const authorized: string[] = []
  const { rate } = await untilApplied(target, true, async () => {
    const load = await closedLoop({
      url: target.url,
      connections: 64,
      seconds,
      expect: [201, 200],
      next: () => authorized.pop() ?? target.authorize(),
      last: () => authorized.pop(),
      onBody: (body, { status }) => {
        if (status === 201) authorized.push(target.capture(body))
      },
    })
    return load.count / 2
  })
  return rate
}

/** Authorizes and captures payments at this rate. `rate`: captured payments per second until all is applied. */
async function liveAt(target: Target, { rate, seconds }: { rate: number; seconds: number }) {
  const authorized: string[] = []
  const latencies: number[] = []
  let captured = 0
  const figures = await untilApplied(target, true, async () => {
    await openLoop({
      url: target.url,
      connections: CONNECTIONS,
      seconds,
      rate: 2 * rate,
      expect: [201, 200],
      next: () => authorized.pop() ?? target.authorize(),
      onBody(body, { status, latency_ms }) {
        latencies.push(latency_ms)
        if (status === 201) authorized.push(target.capture(body))
        else captured += 1
      },
    })
    return captured
  })
  latencies.sort((a, b) => a - b)
  return { rate: figures.rate, p95_ms: latencies[Math.floor(latencies.length * 0.95)]! }
}

type Held<Result> = { value: Result; dead: { name: string; dead: number; mb: number }[]; elapsed_s: number }

/** Holds a snapshot during `work`. `dead`: the tables with dead rows at its end, those with the most first. */
async function beside<Result>(database_url: string, work: () => Promise<Result>): Promise<Held<Result>> {
  const holder = postgres(database_url, { max: 1, max_lifetime: null, onnotice: () => {} })
  const started_at = performance.now()
  try {
    await holder`begin isolation level repeatable read`
    await holder`select from payments limit 1`
    const value = await work()
    const elapsed_s = (performance.now() - started_at) / 1000
    await holder`rollback`
    const dead = await holder<Held<Result>['dead']>`
      select coalesce(parent.relname, t.relname) as name, sum(t.n_dead_tup)::integer as dead,
        sum(pg_total_relation_size(t.relid)) / 1048576::float8 as mb
      from pg_stat_user_tables t left join pg_inherits i on i.inhrelid = t.relid
      left join pg_class parent on parent.oid = i.inhparent
      group by 1 having sum(t.n_dead_tup) > 0 order by 2 desc`
    return { value, dead, elapsed_s }
  } finally {
    await holder.end()
  }
}

// Outgoing events: delivery rate, latency next to hanging endpoints and a long backlog, the feed, the sequencer, and
// the cost for writers.
import { setTimeout as sleep } from 'node:timers/promises'
import { cpuTimes, costs } from '../cpu.ts'
import { closedLoop, request } from '../load.ts'
import { runAlternately, median } from '../compare.ts'
import type { System } from '../system.ts'
import { above, atLeast, atMost, below, cost, info, type Row } from '../table.ts'
import { costOfAccepting } from './events/accepting.ts'
import {
  deleteEndpoint,
  resetStats,
  registerBenchEndpoint,
  ALLOW_LOOPBACK,
  received,
  untilReceived,
  writeEvents,
  writeEventsAt,
  type Received,
} from './events/fixtures.ts'
import type { Measure } from './measure.ts'

const CONCURRENCY = { DELIVERY_CONCURRENCY: '500' }
/** Number of tenants whose deliveries are counted. */
const TENANTS = 20
const DELIVERIES_BAR = 1_500
const SEQUENCER_BAR = 5_000
/** Deliveries per second of the best other system, measured on a comparable machine. */
const BEST_PEER = { name: 'the best peer, on another day', value: 369 }
const PROBE_RATE_PER_S = 100
/** The p99 of 1,000 deliveries is the tenth slowest. With fewer deliveries the p99 would be random. */
const PROBE_SECONDS = 10
const BACKLOG_EVENTS = 100_000

export const events: Measure = {
  name: 'events',
  about:
    'outgoing events: deliveries of one worker, their latency next to bad endpoints, the feed and the sequencer',
  async guarded(system, cleanup) {
    const api = cleanup.use(await system.startProduct('api', ALLOW_LOOPBACK))
    const receiver = cleanup.use(await system.startFloor('receiver'))
    const { deliver, alone } = await openDeliveries(system, cleanup, {
      api: api.url,
      receiver: String(receiver.report['url']),
    })
    return [{ name: 'Delivery of an event', product: deliver, floor: alone }]
  },
  async run(system) {
    await using api = await system.startProduct('api', ALLOW_LOOPBACK)
    await using receiver = await system.startFloor('receiver')
    const to = { api: api.url, receiver: String(receiver.report['url']) }
    return [
      ...(await measureAccepting(system)),
      ...(await measureSequencer(system)),
      ...(await measureDeliveries(system, to)),
      ...(await measureLatency(system, to)),
      ...(await measureFeed(system, to.api)),
    ]
  },
}

type Urls = { api: string; receiver: string }
const startWorker = (system: System) =>
  system.startProduct('worker', { ...ALLOW_LOOPBACK, ...CONCURRENCY, QUEUES: 'deliveries' })

async function measureAccepting(system: System): Promise<Row[]> {
  system.options.log('the cost of the feed for writers')
  const ratio = await costOfAccepting(system)
  const row = {
    measure: 'events',
    name: 'Accepting a customer, processor time of PostgreSQL beyond that with plain events',
    unit: '%',
  } as const
  return [below({ ...row, measured: (ratio - 1) * 100 }, 3)]
}

/** Measures the rate of the sequencer from the first assigned sequence to the last. Polls every 20 ms. */
async function measureSequencer(system: System): Promise<Row[]> {
  const { sql, keys, options } = system
  options.log('the sequencer')
  const count = 10_000 * options.seconds
  const rates: number[] = []
  for (let round = 0; round < options.rounds; round++) {
    await writeEvents(system, [keys[0]!], count)
    const lastOf = async () =>
      (
        await sql<{ last_sequence: number }[]>`
        select last_sequence from event_sequences where tenant_id = ${keys[0]!.tenant_id}`
      )[0]?.last_sequence ?? 0
    const before = await lastOf()
    await using worker = await startWorker(system)
    void worker
    let started_at: { at: number; last: number } | null = null
    for (let last = before; last < before + count; last = await lastOf()) {
      if (started_at === null && last > before) started_at = { at: performance.now(), last }
      await sleep(20)
    }
    rates.push((before + count - started_at!.last) / ((performance.now() - started_at!.at) / 1000))
  }
  const row = {
    measure: 'events',
    name: 'Sequencer, one tenant',
    measured: median(rates),
    unit: 'events/s',
  } as const
  return [above(row, SEQUENCER_BAR)]
}

/**
 * Starts a worker with an endpoint for each tenant, and the floor. `deliver` delivers as many events as a first run of
 * it delivered in this time. `cleanup` stops them and deletes the endpoints.
 */
async function openDeliveries(system: System, cleanup: AsyncDisposableStack, { api, receiver }: Urls) {
  const tenants = system.keys.slice(0, TENANTS)
  const poster = cleanup.use(await system.startFloor('post', CONCURRENCY))
  cleanup.use(await startWorker(system))
  for (const key of tenants) {
    const id = await registerBenchEndpoint(api, key, { url: `${receiver}/hook/count` })
    cleanup.defer(() => deleteEndpoint(api, key, id))
  }
  const deliverEvents = async (of_each: number) => {
    await resetStats(receiver, 'count')
    const before = cpuTimes()
    await writeEvents(system, tenants, of_each)
    const { count, took_ms } = await untilReceived(receiver, 'count', TENANTS * of_each)
    return { rate: count / (took_ms / 1000), count, ...costOf(before, count) }
  }
  const alone = async (seconds: number) => {
    await resetStats(receiver, 'count')
    const before = cpuTimes()
    const query = new URLSearchParams({
      seconds: String(seconds),
      url: `${receiver}/hook/count`,
      body: 'x'.repeat(700),
    })
    const answer = await fetch(`${String(poster.report['url'])}/post?${query.toString()}`)
    const { posted } = (await answer.json()) as { posted: number }
    return { rate: posted / seconds, count: posted, ...costOf(before, posted) }
  }
  const { rate } = await deliverEvents(100)
  return {
    deliver: (seconds: number) => deliverEvents(Math.ceil((rate * seconds) / TENANTS)),
    alone,
  }
}

async function measureDeliveries(system: System, { api, receiver }: Urls): Promise<Row[]> {
  const { seconds, rounds, log } = system.options
  log('deliveries')
  await using cleanup = new AsyncDisposableStack()
  const { deliver, alone } = await openDeliveries(system, cleanup, { api, receiver })
  const { floor, product } = await runAlternately(rounds, {
    floor: () => alone(seconds),
    product: () => deliver(seconds),
  })
  const row = { measure: 'events', unit: 'events/s' } as const
  const name = 'Deliveries, one worker process'
  return [
    info({ ...row, name: 'Floor: undici and one HMAC', measured: floor.rate }),
    info({ ...row, name, measured: product.rate }, { name: 'undici and one HMAC', value: floor.rate }),
    above({ ...row, name, measured: product.rate }, DELIVERIES_BAR),
    atLeast({ ...row, name, measured: product.rate }, BEST_PEER, 4),
    cost({ ...row, name }, product, { ...floor, name: 'undici and one HMAC' }),
  ]
}

function costOf(before: ReturnType<typeof cpuTimes>, count: number) {
  const cpu = costs(before, cpuTimes(), count)
  return { cpu, cpu_us: Object.values(cpu).reduce((sum, us) => sum + us, 0) }
}

/**
 * Measures the time from the commit of an event to the arrival of its delivery: idle, next to hanging endpoints, and
 * next to a long backlog.
 */
async function measureLatency(system: System, { api, receiver }: Urls): Promise<Row[]> {
  const { keys, options, sql } = system
  const { rounds, log } = options
  const probe_keys = keys.slice(TENANTS, 2 * TENANTS)
  const noisy = keys[2 * TENANTS]!
  await using worker = await startWorker(system)
  void worker
  await Promise.all(
    probe_keys.map((key) =>
      registerBenchEndpoint(api, key, { url: `${receiver}/hook/calm`, max_in_flight: 10 }),
    ),
  )
  const measure = async (): Promise<Received> => {
    await resetStats(receiver, 'calm')
    await writeEventsAt(system, probe_keys, { rate: PROBE_RATE_PER_S, seconds: PROBE_SECONDS })
    return await untilReceived(receiver, 'calm', PROBE_RATE_PER_S * PROBE_SECONDS)
  }
  await measure()
  const quiet: Received[] = []
  const loaded: Record<'hanging' | 'due', Received[]> = { hanging: [], due: [] }
  for (let round = 0; round < rounds; round++) {
    quiet.push(await measure())
    log('next to hanging endpoints')
    const hanging = await Promise.all(
      [0, 1, 2].map(() => registerBenchEndpoint(api, noisy, { url: `${receiver}/hang` })),
    )
    await writeEvents(system, [noisy], 1_000)
    await sleep(500)
    loaded.hanging.push(await measure())
    await Promise.all(hanging.map((id) => deleteEndpoint(api, noisy, id)))
    log('next to a long backlog')
    const slow = await registerBenchEndpoint(api, noisy, { url: `${receiver}/hook/due`, rate_per_s: 200 })
    await writeEvents(system, [noisy], BACKLOG_EVENTS)
    await untilSequenced(system, noisy.tenant_id)
    // Vacuum and checkpoint after the inserts, so that neither runs during the measurement.
    await sql`vacuum analyze`
    await sql`checkpoint`
    loaded.due.push(await measure())
    const { count } = await received(receiver, 'due')
    if (count >= BACKLOG_EVENTS) throw new Error('the long backlog was empty before the end of the run')
    await deleteEndpoint(api, noisy, slow)
    await sql`delete from webhook_due where tenant_id = ${noisy.tenant_id}`
  }
  const p = (of: Received[], which: 'p50_ms' | 'p99_ms') => median(of.map((one) => one[which]))
  const row = { measure: 'events', unit: 'ms' } as const
  const alone = { name: 'idle', value: p(quiet, 'p99_ms') }
  return [
    info({
      ...row,
      name: `First attempt after the commit, p50 at ${PROBE_RATE_PER_S}/s`,
      measured: p(quiet, 'p50_ms'),
    }),
    info({ ...row, name: 'First attempt after the commit, p99', measured: p(quiet, 'p99_ms') }),
    atMost(
      {
        ...row,
        name: 'The same p99 next to three hanging endpoints',
        measured: p(loaded.hanging, 'p99_ms'),
      },
      alone,
      1.1,
    ),
    atMost(
      {
        ...row,
        name: 'The same p99 next to a backlog of 100,000, sent at 200/s',
        measured: p(loaded.due, 'p99_ms'),
      },
      alone,
      1.1,
    ),
  ]
}

async function untilSequenced({ sql }: System, tenant_id: string): Promise<void> {
  for (;;) {
    const left = await sql`select from event_outbox where tenant_id = ${tenant_id} limit 1`
    if (left.length === 0) return
    await sleep(50)
  }
}

async function measureFeed(system: System, url: string): Promise<Row[]> {
  const { keys, options, sql } = system
  const { seconds, rounds, log } = options
  log('the feed')
  const key = keys[0]!
  const [row] = await sql<{ last_sequence: number }[]>`
    select last_sequence from event_sequences where tenant_id = ${key.tenant_id}`
  const next = () => {
    const after = Math.floor(Math.random() * (row!.last_sequence - 25))
    return request('GET', `/v1/events?after=${after}&limit=25`, { authorization: key.authorization })
  }
  const bare = await system.startFloor('select', {
    DATABASE_URL: system.database_url,
    TENANT_ID: key.tenant_id,
  })
  await using floor = bare
  const select = () =>
    request('GET', `/events?after=${Math.floor(Math.random() * (row!.last_sequence - 25))}`)
  const read = (at: string, nextRequest: () => string) =>
    closedLoop({ url: at, connections: 64, seconds, expect: 200, next: nextRequest })
  await read(url, next)
  const results = await runAlternately(rounds, {
    floor: () => read(String(floor.report['url']), select),
    product: () => read(url, next),
  })
  const of = { measure: 'events', unit: 'req/s' } as const
  return [
    info({ ...of, name: 'Floor: a bare SELECT of 25 events', measured: results.floor.rate }),
    atLeast(
      { ...of, name: 'Reading 25 events of the feed', measured: results.product.rate },
      { name: 'a bare SELECT', value: results.floor.rate },
      0.5,
    ),
  ]
}

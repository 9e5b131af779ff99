// The complete life of a payment: authorized, captured, and all its notifications applied.
import { join } from 'node:path'
import { runAlternately } from '../compare.ts'
import { peakRss } from '../processes.ts'
import { resetStatements, writeStatements } from '../statements.ts'
import type { System } from '../system.ts'
import { atLeast, atMost, below, cost, info, type Row } from '../table.ts'
import { openLifeFloor } from './life/floor.ts'
import { runPaymentLives, type PaymentLife, type Target } from './life/live.ts'
import { startProductProcesses, startWithNpmStart } from './life/product.ts'
import type { Measure } from './measure.ts'

/** Numbers of clients, with the required multiple of the floor's rate; null: none is required. */
const CLIENTS = [
  { clients: 1, times: null },
  { clients: 16, times: null },
  { clients: 64, times: 2 },
  { clients: 256, times: 3 },
]
/** `npm start` is measured with at most this many clients, because it is for one developer and demonstrations. */
const MAX_START_CLIENTS = 64

const row = { measure: 'life', unit: 'payments/s' } as const

export const life: Measure = {
  name: 'life',
  about: 'authorize, capture and all notifications applied: 1 to 256 clients, `npm start`, the chain floor',
  async guarded(system, cleanup) {
    const product = cleanup.use(await startProductProcesses(system)).target
    const floor = cleanup.use(await openLifeFloor(system)).target
    const live = (target: Target) => (seconds: number) =>
      runPaymentLives(target, { clients: 64, seconds, notified: true })
    return [{ name: 'Life of a payment, 64 clients', product: live(product), floor: live(floor) }]
  },
  async run(system) {
    const { seconds, log } = system.options
    await using parts = await startProductProcesses(system)
    const warm = (target: Target) =>
      runPaymentLives(target, { clients: 64, seconds: Math.min(3, seconds), notified: true })
    await warm(parts.target)
    await using floor = await openLifeFloor(system)
    await warm(floor.target)
    await using start = await startWithNpmStart()
    await warm(start.target)

    const sides = { floor: floor.target, parts: parts.target, start: start.target }
    const { value: rows, peak_mb } = await peakRss([parts.api, parts.worker], async () => {
      const all: Row[] = []
      for (const { clients, times } of CLIENTS) {
        log(`life of payments, ${clients} clients`)
        all.push(...(await measure(system, sides, clients, times)))
      }
      return all
    })
    const name = 'Memory of api and worker together while payments live, peak'
    rows.push(below({ ...row, unit: 'MB', name, measured: peak_mb }, 300))
    if (system.options.profile !== null) await profileStatements(system, parts)
    return rows
  },
}

type Results = Record<'floor' | 'parts' | 'silent', PaymentLife> &
  Partial<Record<'start' | 'silent_start', PaymentLife>>
type LifeTargets = { floor: Target; parts: Target; start: Target }

async function measure(
  { options }: System,
  { floor, parts, start }: LifeTargets,
  clients: number,
  times: number | null,
): Promise<Row[]> {
  const { seconds, rounds } = options
  const run = (target: Target, notified: boolean) => () =>
    runPaymentLives(target, { clients, seconds, notified })
  const usual = { floor: run(floor, true), parts: run(parts, true), silent: run(parts, false) }
  const results: Results = await (clients > MAX_START_CLIENTS
    ? runAlternately(rounds, usual)
    : runAlternately(rounds, { ...usual, start: run(start, true), silent_start: run(start, false) }))
  const many = clientsText(clients)
  const name = `Life of a payment, ${many}`
  const whole = { ...row, name, measured: results.parts.rate }
  const chain = { name: 'chain floor', value: results.floor.rate }
  const silent = { name: 'without notifications', value: results.silent.rate }
  const rows = [
    info({ ...row, name: `Chain floor, life of a payment, ${many}`, measured: results.floor.rate }),
    times === null ? info(whole, chain) : atLeast(whole, chain, times),
    info({ ...row, name: `${name}, without notifications`, measured: results.silent.rate }),
    clients === 64 ? atLeast(whole, silent, 0.85) : info(whole, silent),
    info(
      { ...row, unit: 's', name: `${name}, until all was applied`, measured: results.parts.lag_s },
      { name: 'chain floor', value: results.floor.lag_s },
    ),
    info(
      {
        ...row,
        unit: 'requests',
        name: `${name}, to the provider`,
        measured: results.parts.provider_requests,
      },
      { name: 'chain floor', value: results.floor.provider_requests },
    ),
    cost({ ...row, name }, results.parts, { ...results.floor, name: 'chain floor' }),
  ]
  if (clients === 1) rows.push(...idle(results))
  if (results.start && results.silent_start) {
    const started = { ...row, name: `${name}, \`npm start\``, measured: results.start.rate }
    const separate = { name: 'the parts', value: results.parts.rate }
    const quiet = { name: 'without notifications', value: results.silent_start.rate }
    rows.push(
      clients === 64 ? atLeast(started, separate, 0.7) : info(started, separate),
      info(started, quiet),
    )
  }
  return rows
}

/** The latencies of a single client while the notifications of its payments arrive. */
function idle({ floor, parts }: { floor: PaymentLife; parts: PaymentLife }): Row[] {
  return [
    ['Authorize', parts.authorize_p50_ms, floor.authorize_p50_ms] as const,
    ['Capture', parts.capture_p50_ms, floor.capture_p50_ms] as const,
  ].map(([operation, measured, value]) =>
    atMost(
      { ...row, unit: 'ms', name: `${operation}, idle, 1 client, notifications arriving, p50`, measured },
      { name: 'chain floor', value },
      1.3,
    ),
  )
}

function clientsText(clients: number): string {
  return clients === 1 ? '1 client' : `${clients} clients`
}

/** Makes two more runs, and writes PostgreSQL's statements per payment to a file for each. */
async function profileStatements({ options }: System, parts: { target: Target; sql: System['sql'] }) {
  for (const clients of [1, 64]) {
    await resetStatements(parts.sql)
    const { count } = await runPaymentLives(parts.target, {
      clients,
      seconds: options.seconds,
      notified: true,
    })
    const file = join(options.profile!, `statements-life-${clients}.txt`)
    const lines = await writeStatements(parts.sql, file, count)
    for (const line of [clientsText(clients), ...lines.slice(0, 15)]) options.log(line)
  }
}

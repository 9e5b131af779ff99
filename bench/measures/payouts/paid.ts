// Payouts until they are paid: requested, accepted by the provider, and posted after its notification.
import type postgres from 'postgres'
import { SETTLE_DELAY_MS } from '#providers/sandbox/stripe/schedule.ts'
import { runAlternately } from '../../compare.ts'
import { closedLoop } from '../../load.ts'
import type { System } from '../../system.ts'
import { cost, info, type Row } from '../../table.ts'
import { openLifeFloor } from '../life/floor.ts'
import { untilApplied, type NotifiedSystem, type CompleteRuns } from '../life/live.ts'
import type { ProductProcesses } from '../life/product.ts'
import { floorPayout, payoutRequests, type Payer } from './payers.ts'

const CLIENTS = [1, 64]
/** The time that the emulated bank takes for its two steps. */
const BANK_MS = 2 * SETTLE_DELAY_MS

const row = { measure: 'payouts', unit: 'payouts/s' } as const

/** A system that pays out. */
type PayoutSystem = NotifiedSystem & {
  /** A request for a payout that is answered after the provider has accepted it. */
  payOut: () => string
  /** Times from acceptance to paid, of payouts since this time (ISO 8601). */
  times: (since: string) => Promise<Times>
}
type Times = { p50_ms: number; p99_ms: number }

/** Measures payouts until they are paid, as rows of the table. */
export async function measurePaid(system: System, parts: ProductProcesses, payers: Payer[]): Promise<Row[]> {
  const { seconds, rounds, log } = system.options
  await using cleanup = new AsyncDisposableStack()
  const { product, floor } = await openPayoutSystems(system, cleanup, parts, payers)
  for (const side of [product, floor]) await pay(side, 64, Math.min(3, seconds))
  const rows: Row[] = []
  for (const clients of CLIENTS) {
    log(nameOf(clients))
    const results = await runAlternately(rounds, {
      floor: () => pay(floor, clients, seconds),
      product: () => pay(product, clients, seconds),
    })
    rows.push(...rowsOf(clients, results))
  }
  return rows
}

/** Opens the product and the chain floor. `cleanup` stops the floor. */
export async function openPayoutSystems(
  system: System,
  cleanup: AsyncDisposableStack,
  parts: ProductProcesses,
  payers: Payer[],
): Promise<{ product: PayoutSystem; floor: PayoutSystem }> {
  const chain = cleanup.use(await openLifeFloor(system))
  return { product: productSystem(parts, payers), floor: floorSystem(chain) }
}

function rowsOf(
  clients: number,
  { floor, product }: Record<'floor' | 'product', CompleteRuns & Times>,
): Row[] {
  const name = nameOf(clients)
  const chain = (value: number) => ({ name: 'chain floor', value })
  const without_bank = `without the ${BANK_MS} ms of the bank`
  return [
    info({ ...row, name, measured: product.rate }, chain(floor.rate)),
    info(
      { ...row, unit: 'ms', name: `${name}, p50 ${without_bank}`, measured: product.p50_ms - BANK_MS },
      chain(floor.p50_ms - BANK_MS),
    ),
    info(
      { ...row, unit: 'ms', name: `${name}, p99 ${without_bank}`, measured: product.p99_ms - BANK_MS },
      chain(floor.p99_ms - BANK_MS),
    ),
    info(
      { ...row, unit: 'requests', name: `${name}, to the provider`, measured: product.provider_requests },
      chain(floor.provider_requests),
    ),
    info(
      { ...row, unit: 'requests', name: `${name}, notifications`, measured: product.notifications },
      chain(floor.notifications),
    ),
    cost({ ...row, name }, product, { ...floor, name: 'chain floor' }),
  ]
}

function nameOf(clients: number): string {
  return `Payout to paid, ${clients === 1 ? '1 client' : `${clients} clients`}`
}

/**
 * Each client requests payouts one by one, and waits until the provider has accepted each. The run ends when all are
 * paid.
 */
export async function pay(
  side: PayoutSystem,
  clients: number,
  seconds: number,
): Promise<CompleteRuns & Times> {
  const since = new Date().toISOString()
  const figures = await untilApplied(side, true, async () => {
    const { url, payOut: next } = side
    return (await closedLoop({ url, connections: clients, seconds, expect: 201, next })).count
  })
  return { ...figures, ...(await side.times(since)) }
}

function productSystem({ target, sql }: ProductProcesses, payers: Payer[]): PayoutSystem {
  return {
    ...target,
    payOut: payoutRequests(payers, { prefer: 'wait=10' }),
    async isBusy() {
      const [found] = await sql<{ open: boolean }[]>`select exists (select from payouts where open) as open`
      return found!.open || (await target.isBusy())
    },
    times: (since) => timesOf(sql, 'payouts', since),
  }
}

function floorSystem({ target, sql }: Awaited<ReturnType<typeof openLifeFloor>>): PayoutSystem {
  return {
    ...target,
    payOut: floorPayout,
    async isBusy() {
      const [found] = await sql<{ open: boolean }[]>`
        select exists (select from floor_payouts where status <> 'paid') as open`
      return found!.open
    },
    times: (since) => timesOf(sql, 'floor_payouts', since),
  }
}

async function timesOf(sql: postgres.Sql, table: string, since: string): Promise<Times> {
  const [times] = await sql<Times[]>`
    select percentile_cont(0.5) within group (order by took) as p50_ms, percentile_cont(0.99) within group (order by took) as p99_ms
    from (select extract(epoch from paid_at - created_at)::float8 * 1000 as took from ${sql(table)} where created_at >= ${since}) paid`
  return times!
}

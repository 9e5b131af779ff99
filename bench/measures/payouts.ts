// Measures payouts: their acceptance, which checks the balance, compared with one INSERT; and complete payouts, until
// they are paid, compared with the chain floor.
import { join } from 'node:path'
import { runAlternately } from '../compare.ts'
import { closedLoop } from '../load.ts'
import { resetStatements, writeStatements } from '../statements.ts'
import type { System } from '../system.ts'
import { atLeast, cost, info, type Row } from '../table.ts'
import { durableFloor } from './customers.ts'
import { startProductProcesses, type ProductProcesses } from './life/product.ts'
import type { Measure } from './measure.ts'
import { measurePaid, openPayoutSystems, pay } from './payouts/paid.ts'
import { createPayers, payoutRequests, type Payer } from './payouts/payers.ts'

export const payouts: Measure = {
  name: 'payouts',
  about:
    'POST /v1/payouts of 100 tenants and of one against the durable floor, and to paid against the chain floor',
  async guarded(system, cleanup) {
    const parts = cleanup.use(await startProductProcesses(system))
    const payers = await createPayers(parts.sql, parts.target.url, parts.keys)
    const { product, floor } = await openPayoutSystems(system, cleanup, parts, payers)
    return [
      {
        name: 'Payout to paid, 64 clients',
        product: (seconds) => pay(product, 64, seconds),
        floor: (seconds) => pay(floor, 64, seconds),
      },
    ]
  },
  async run(system) {
    await using parts = await startProductProcesses(system)
    const payers = await createPayers(parts.sql, parts.target.url, parts.keys)
    const paid = await measurePaid(system, parts, payers)
    // Wake-ups are sent, but no worker runs: only accepting is measured, as with customers.
    await parts.worker.stop()
    return [...(await measureCreating(system, parts, payers)), ...paid]
  },
}

async function measureCreating(
  system: System,
  { env, sql }: ProductProcesses,
  payers: Payer[],
): Promise<Row[]> {
  const { seconds, rounds, profile, log } = system.options
  log('creating payouts')
  await using floor = await durableFloor(system)
  await using api = await system.startProduct('api', { ...env, TENANT_WINDOW: '1000000' })
  const create = (selected: Payer[], run_s: number) =>
    closedLoop({ url: api.url, connections: 64, seconds: run_s, expect: 201, next: payoutRequests(selected) })
  await create(payers, Math.min(3, seconds))
  await floor.run(Math.min(3, seconds))
  const results = await runAlternately(rounds, {
    floor: () => floor.run(seconds),
    product: () => create(payers, seconds),
    one: () => create(payers.slice(0, 1), seconds),
  })
  if (profile !== null) {
    await resetStatements(sql)
    const { count } = await create(payers, seconds)
    await writeStatements(sql, join(profile, 'statements-payouts.txt'), count)
  }
  const row = { measure: 'payouts', unit: 'req/s' } as const
  const durable = { name: 'durable floor', value: results.floor.rate }
  const many = { ...row, name: 'Create payout, 100 tenants' }
  const one = { ...row, name: 'Create payout, one tenant' }
  const costs = { ...results.floor, name: 'durable floor' }
  return [
    info({ ...row, name: 'Durable floor, repeated', measured: results.floor.rate }),
    atLeast({ ...many, measured: results.product.rate }, durable, 0.5),
    info({ ...one, measured: results.one.rate }, durable),
    info({ ...one, measured: results.one.rate }, { name: '100 tenants', value: results.product.rate }),
    info(
      { ...row, unit: 'ms', name: `${many.name}, p99 at that rate`, measured: results.product.p99_ms },
      { name: 'durable floor', value: results.floor.p99_ms },
    ),
    cost(many, results.product, costs),
    cost(one, results.one, costs),
  ]
}

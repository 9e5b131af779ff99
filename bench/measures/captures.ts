// Authorizes and captures payments with all protections, compared with a chain that has none.
import { runAlternately } from '../compare.ts'
import { openLoop } from '../load.ts'
import { peakRss } from '../processes.ts'
import type { System } from '../system.ts'
import { atLeast, below, cost, info, type Row } from '../table.ts'
import { openChain } from './captures/chain.ts'
import { openPayments } from './captures/payments.ts'
import { durableFloor } from './customers.ts'
import { peer, type Measure } from './measure.ts'

/** The payments that are prepared for each second of a guarded run. A run ends when all are captured. */
const GUARDED_RATE = 2000

export const captures: Measure = {
  name: 'captures',
  about: 'authorize and capture, request to captured: 64 and 256 clients, idle, respond-async; memory',
  async guarded(system, cleanup) {
    const api = cleanup.use(await system.startProduct('api'))
    cleanup.use(await system.startProduct('worker'))
    const payments = openPayments(system, api.url)
    const chain = await openChain(system, {})
    cleanup.defer(() => chain.stop())
    return [64, 256].map((connections) => ({
      name: `Capture, ${connections} clients`,
      product: (seconds) => payments.capture(connections, seconds, GUARDED_RATE),
      floor: (seconds) => chain.capture(connections, seconds),
    }))
  },
  async run(system) {
    await using api = await system.startProduct('api')
    await using worker = await system.startProduct('worker')
    const { value: rows, peak_mb } = await peakRss([api, worker], () => measure(system, api.url))
    return [
      ...rows,
      below(
        {
          measure: 'captures',
          unit: 'MB',
          name: 'Memory of api and worker together, peak',
          measured: peak_mb,
        },
        300,
      ),
    ]
  },
}

async function measureAuthorizations(
  { options: { seconds, rounds } }: System,
  payments: ReturnType<typeof openPayments>,
): Promise<Row[]> {
  const row = { measure: 'captures', unit: 'req/s' } as const
  await payments.authorize(64, Math.min(3, seconds))
  const authorized = await runAlternately(rounds, { product: () => payments.authorize(64, seconds) })
  return [
    info({ ...row, name: 'Authorize, 64 clients', measured: authorized.product.rate }, peer('authorize')),
    cost({ ...row, name: 'Authorize, 64 clients' }, authorized.product),
  ]
}

async function measure(system: System, url: string): Promise<Row[]> {
  const { seconds, rounds, log } = system.options
  const payments = openPayments(system, url)
  const row = { measure: 'captures', unit: 'req/s' } as const
  const rows: Row[] = []
  const chain = await openChain(system, {})
  const stubbed = await openChain(system, { STUB: '1' })
  try {
    log('authorizing payments')
    rows.push(...(await measureAuthorizations(system, payments)))

    const capture = (connections: number, run_s: number) =>
      payments.capture(connections, run_s, connections === 1 ? 1000 : 6000)
    await capture(64, Math.min(3, seconds))
    await chain.capture(64, Math.min(3, seconds))
    await stubbed.capture(64, Math.min(3, seconds))

    let max_rate = 0
    for (const [connections, times] of [
      [64, 2],
      [256, 3],
    ] as const) {
      log(`capturing with ${connections} clients`)
      const results = await runAlternately(rounds, {
        floor: () => chain.capture(connections, seconds),
        product: () => capture(connections, seconds),
        stubbed: () => stubbed.capture(connections, seconds),
      })
      max_rate = Math.max(max_rate, results.product.rate)
      const name = `Capture, ${connections} clients, 100 tenants`
      const floor = { name: 'chain floor', value: results.floor.rate }
      rows.push(
        info({ ...row, name: `Chain floor, ${connections} clients`, measured: results.floor.rate }),
        info({
          ...row,
          name: `Chain floor, provider replaced by a function`,
          measured: results.stubbed.rate,
        }),
        atLeast({ ...row, name, measured: results.product.rate }, floor, times),
        info(
          { ...row, unit: 'ms', name: `${name}, p99`, measured: results.product.p99_ms },
          {
            name: 'chain floor',
            value: results.floor.p99_ms,
          },
        ),
      )
      rows.push(
        cost({ ...row, name: `Chain floor, ${connections} clients` }, results.floor),
        cost({ ...row, name }, results.product, { ...results.floor, name: 'chain floor' }),
      )
      if (connections === 64)
        rows.push(info({ ...row, name, measured: results.product.rate }, peer('capture')))
    }

    log('capturing with one client')
    const idle = await runAlternately(rounds, {
      floor: () => chain.capture(1, seconds),
      product: () => capture(1, seconds),
    })
    rows.push(
      // No value is required here. The measure `life` requires a value for captures while notifications arrive.
      info(
        { ...row, unit: 'ms', name: 'Capture, idle, 1 client, p50', measured: idle.product.p50_ms },
        { name: 'chain floor', value: idle.floor.p50_ms },
      ),
    )

    log('capturing with respond-async')
    const rate = max_rate / 2
    await using durable = await durableFloor(system)
    await durable.run(Math.min(3, seconds))
    const accepted = await runAlternately(rounds, {
      floor: () => durable.at(rate, seconds),
      async product() {
        await payments.prepare(Math.ceil(rate * seconds))
        const load = await openLoop({
          url,
          connections: 256,
          seconds,
          rate,
          expect: 202,
          next: payments.nextAsync,
        })
        await payments.settled()
        return load
      },
    })
    const name = `respond-async, accept p99 at ${Math.round(rate)} captures/s`
    const measured = { ...row, unit: 'ms', name, measured: accepted.product.p99_ms } as const
    rows.push(below(measured, 15), info(measured, { name: 'durable floor', value: accepted.floor.p99_ms }))
    return rows
  } finally {
    await chain.stop()
    await stubbed.stop()
  }
}

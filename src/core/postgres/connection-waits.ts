// Measures how long statements and transactions wait for a connection, and counts the connections of a pool.
import { poolsMetrics, reportPool, type PoolConnections } from '../metrics/pools.ts'
import type { Traffic } from './traffic.ts'

export type Begin = (...args: unknown[]) => Promise<unknown>

/** The connections in use. A statement may share a connection with others, so more statements may be pending. */
function countConnections(traffic: Traffic, max: number): PoolConnections {
  const busy = Math.min(max, traffic.pending.size + traffic.transactions)
  const open = Math.max(busy, traffic.sent === 0 ? 0 : Math.min(max, traffic.peak))
  return { busy, idle: open - busy, unopened: max - open }
}

/** Whether `countConnections` would count an idle connection. It creates no object, because each statement calls it. */
function hasIdle({ pending, transactions, peak, sent }: Traffic, max: number): boolean {
  return sent > 0 && pending.size + transactions < Math.min(max, peak)
}

/**
 * Measures the pool with this name, which opens at most `max` connections, until `stop` is called. `currentTraffic`
 * returns the present traffic of the pool.
 */
export function measurePool(
  name: string,
  max: number,
  currentTraffic: () => Traffic,
): {
  /** Measures a statement that is not sent yet. */
  statement(query: object): void
  /** `begin` of the driver, measured. */
  transaction(begin: Begin): Begin
  stop(): void
} {
  const wait = poolsMetrics.poolWait.labels({ pool: name })
  return {
    stop: reportPool(name, () => countConnections(currentTraffic(), max)),
    statement(query) {
      if (hasIdle(currentTraffic(), max)) return wait.observe(0)
      const began_at = performance.now()
      // The driver sets `active` when the statement runs on a connection.
      let active = false
      let waits = true
      Object.defineProperty(query, 'active', {
        configurable: true,
        get: () => active,
        set(value: boolean) {
          active = value
          if (value && waits) wait.observe((performance.now() - began_at) / 1000)
          waits &&= !value
        },
      })
    },
    transaction:
      (begin) =>
      async (...args) => {
        const began_at = performance.now()
        const traffic = currentTraffic()
        const work = args.at(-1) as (...given: unknown[]) => unknown
        traffic.transactions += 1
        traffic.peak = Math.max(traffic.peak, traffic.transactions + traffic.pending.size)
        try {
          return await begin(...args.slice(0, -1), async (...given: unknown[]) => {
            wait.observe((performance.now() - began_at) / 1000)
            return await work(...given)
          })
        } finally {
          traffic.transactions -= 1
        }
      },
  }
}

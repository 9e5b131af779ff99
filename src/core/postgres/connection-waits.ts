// Measures how long statements and transactions wait for a connection, and counts the connections of a pool.
import { poolsMetrics, reportPool } from '../metrics/pools.ts'
import type { PooledConnections } from './connections.ts'
import type { DriverBegin } from './transactions.ts'

/** Measures the pool with this name and these connections, at most `max`, until `stop` is called. */
export function measurePool(
  name: string,
  max: number,
  connections: PooledConnections,
): {
  /** Measures a statement that is not sent yet. */
  statement(query: object): void
  /** Returns `begin` of the pool, measured. */
  measuring(begin: DriverBegin): DriverBegin
  stop(): void
} {
  const wait = poolsMetrics.poolWait.labels({ pool: name })
  return {
    stop: reportPool(name, () => {
      const { open, busy } = connections.count()
      return { busy, idle: open - busy, unopened: max - open }
    }),
    statement(query) {
      if (connections.hasIdle()) return wait.observe(0)
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
    measuring:
      (begin) =>
      async (...args) => {
        const began_at = performance.now()
        const work = args.at(-1) as (...given: unknown[]) => unknown
        return await begin(...args.slice(0, -1), (...given: unknown[]) => {
          wait.observe((performance.now() - began_at) / 1000)
          return work(...given)
        })
      },
  }
}

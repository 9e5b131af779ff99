// Metrics of the connection pools of this process.
import { Gauge, Histogram } from 'prom-client'
import { SHORT_BUCKETS, registers } from './registry.ts'

/** The connections of a pool. Their sum is the maximum of the pool. */
export type PoolConnections = { busy: number; idle: number; unopened: number }

/** The pools by name. Several pools of one name are reported as one. */
const readers = new Map<() => PoolConnections, string>()

export const poolsMetrics = {
  poolConnections: new Gauge({
    name: 'sluice_pool_connections',
    help: 'Connections of a pool, by state: busy, idle, unopened. Their sum is the maximum of the pool',
    labelNames: ['pool', 'state'],
    registers,
    collect() {
      this.reset()
      for (const [read, pool] of readers)
        for (const [state, count] of Object.entries(read())) this.inc({ pool, state }, count)
    },
  }),
  poolWait: new Histogram({
    name: 'sluice_pool_wait_seconds',
    help: 'Time that a statement or transaction waits for a connection; a transaction also waits for its begin',
    labelNames: ['pool'],
    buckets: SHORT_BUCKETS,
    registers,
  }),
}

/** Reports a pool until the returned function is called. */
export function reportPool(name: string, read: () => PoolConnections): () => void {
  readers.set(read, name)
  return () => void readers.delete(read)
}

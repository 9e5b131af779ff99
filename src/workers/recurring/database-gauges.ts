// The gauges of the oldest snapshots and writing transactions in the database, by holder.
import { metrics } from '#core/metrics.ts'
import { findDatabaseHolders } from '#domain/operations/database-holders.ts'
import type { Sql } from '#core/db.ts'

/** The number of holders that are reported at a time. */
const MAX_REPORTED = 5
/** The number of holders that get a label of their own while this process runs. The others share `OTHER_HOLDERS`. */
const MAX_LABELS = 30
const OTHER_HOLDERS = 'other'
const NO_HOLDER = 'none'

/**
 * The label of a holder. Otherwise a user who may create roles or replication slots could create any number of series.
 */
export function createHolderLabels(): (name: string) => string {
  const labels = new Set<string>()
  return (name) => {
    if (labels.size < MAX_LABELS) labels.add(name)
    return labels.has(name) ? name : OTHER_HOLDERS
  }
}

/** Remembers when keys were first seen. Keys that are not seen again are forgotten. */
function createFirstSeen(): (keys: string[]) => (key: string) => number {
  let first_seen = new Map<string, number>()
  return (keys) => {
    const now = performance.now()
    first_seen = new Map(keys.map((key) => [key, first_seen.get(key) ?? now]))
    return (key) => (now - (first_seen.get(key) ?? now)) / 1000
  }
}

/**
 * Returns a function that sets the gauges. Times that PostgreSQL hides from our user are measured from when this worker
 * first saw the transaction or snapshot.
 */
export function createDatabaseGauges(): (sql: Sql) => Promise<void> {
  const [seeWriting, seeSnapshots] = [createFirstSeen(), createFirstSeen()]
  const labelOf = createHolderLabels()
  return async (sql) => {
    const holders = await findDatabaseHolders(sql)
    const writing = holders.filter(({ xid }) => xid !== null)
    const writingFor = seeWriting(writing.map(({ id, xid }) => `${id} ${xid}`))
    setOldest(
      metrics.oldestWriting,
      labelOf,
      writing.map(({ id, name, xid, transaction_s }) => ({
        name,
        age_s: transaction_s ?? writingFor(`${id} ${xid}`),
      })),
    )
    const snapshots = holders.filter(({ xmin }) => xmin !== null)
    const snapshotFor = seeSnapshots(snapshots.map(({ id, xmin }) => `${id} ${xmin}`))
    setOldest(
      metrics.oldestSnapshot,
      labelOf,
      snapshots.map(({ id, name, xmin, transaction_s, snapshot_s }) => ({
        name,
        // Two statements of one session can have equal snapshots: no snapshot is older than its transaction.
        age_s: Math.max(snapshot_s, Math.min(snapshotFor(`${id} ${xmin}`), transaction_s ?? Infinity)),
      })),
    )
  }
}

function setOldest(
  gauge: typeof metrics.oldestSnapshot,
  labelOf: (name: string) => string,
  found: { name: string; age_s: number }[],
): void {
  const oldest = new Map<string, number>()
  for (const { name, age_s } of found.toSorted((a, b) => b.age_s - a.age_s)) {
    if (oldest.size === MAX_REPORTED) break
    const label = labelOf(name)
    if (!oldest.has(label)) oldest.set(label, age_s)
  }
  gauge.reset()
  for (const [holder, age_s] of oldest.size === 0 ? [[NO_HOLDER, 0] as const] : oldest)
    gauge.set({ holder }, age_s)
}

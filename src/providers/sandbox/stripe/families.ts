// Families of objects, such as a payment intent with its charges, refunds and disputes. A host that limits the size of
// a sandbox deletes whole families, because their objects refer to each other.
import type { Engine } from './engine.ts'
import { currentVersions, findObject } from './store.ts'
import type { Version } from './versions.ts'

/** The id of the object to which the others of the family belong. */
export function rootOf(version: Version): string {
  switch (version.object) {
    case 'charge':
    case 'refund':
    case 'dispute':
      return version.payment_intent
    case 'transfer_reversal':
      return version.transfer
    default:
      return version.id
  }
}

/**
 * The roots of the families for which nothing is expected any more. Those that have not changed for the longest time
 * come first: a late lookup is about a recent change.
 */
export function endedRoots({ store, schedule }: Engine): string[] {
  const open = new Set<string>()
  /** By root, the highest revision of its family. */
  const changed = new Map<string, number>()
  for (const { id } of schedule.byKey.values()) {
    const version = findObject(store, id)
    if (version !== undefined) open.add(rootOf(version))
  }
  for (const version of currentVersions(store)) {
    const root = rootOf(version)
    changed.set(root, Math.max(version.revision, changed.get(root) ?? 0))
    if ('status' in version && !FINAL_STATUSES.has(version.status)) open.add(root)
  }
  return [...changed.keys()]
    .filter((root) => !open.has(root))
    .toSorted((a, b) => changed.get(a)! - changed.get(b)!)
}

/** Statuses of objects of all types that are final, or may be. */
const FINAL_STATUSES: ReadonlySet<string> = new Set([
  'succeeded',
  'failed',
  'canceled',
  'paid',
  'reversed',
  'won',
  'lost',
  'warning_closed',
  'verified',
])

// Families of objects, such as a payment intent with its charges, refunds and disputes. A host that limits the size of
// a sandbox deletes whole families, because their objects refer to each other.
import type { Engine } from './engine.ts'
import { findObject } from './store.ts'
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
 * The roots of all families, those first for which nothing is expected any more, and each part by the creation of the
 * root, oldest first.
 */
export function rootsByEnd(engine: Engine): string[] {
  const { store, schedule } = engine
  const open = new Set<string>()
  for (const { id } of schedule.byKey.values()) {
    const version = findObject(store, id)
    if (version !== undefined) open.add(rootOf(version))
  }
  const collections = [
    store.refunds,
    store.disputes,
    store.intents,
    store.payouts,
    store.topups,
    store.sessions,
  ]
  for (const { byId } of collections)
    for (const version of byId.values()) if (!isEnded(version)) open.add(rootOf(version))
  const roots = [store.intents, store.payouts, store.transfers, store.topups, store.sessions]
    .flatMap(({ byId }): Version[] => [...byId.values()])
    .toSorted((a, b) => a.created - b.created)
    .map(({ id }) => id)
  return [...roots.filter((id) => !open.has(id)), ...roots.filter((id) => open.has(id))]
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

function isEnded(version: Version): boolean {
  return 'status' in version && FINAL_STATUSES.has(version.status)
}

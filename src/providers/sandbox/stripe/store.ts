// The current versions of all objects: one collection per type, and the children of objects.
import type {
  Charge,
  Dispute,
  Intent,
  Payout,
  Refund,
  Reversal,
  Topup,
  Transfer,
  VerificationSession,
  Version,
} from './versions.ts'

export type Collection<T> = {
  byId: Map<string, T>
  /** The ids of all objects, oldest first. */
  ids: string[]
}

export type Store = {
  /** The highest revision of a version. */
  revision: number
  intents: Collection<Intent>
  charges: Collection<Charge>
  refunds: Collection<Refund>
  disputes: Collection<Dispute>
  payouts: Collection<Payout>
  transfers: Collection<Transfer>
  reversals: Collection<Reversal>
  topups: Collection<Topup>
  sessions: Collection<VerificationSession>
  /** Ids of the refunds of a payment intent, the disputes of a charge and the reversals of a transfer, oldest first. */
  childIdsOf: Map<string, string[]>
}

export function emptyStore(): Store {
  return {
    revision: 0,
    intents: emptyCollection(),
    charges: emptyCollection(),
    refunds: emptyCollection(),
    disputes: emptyCollection(),
    payouts: emptyCollection(),
    transfers: emptyCollection(),
    reversals: emptyCollection(),
    topups: emptyCollection(),
    sessions: emptyCollection(),
    childIdsOf: new Map(),
  }
}

/** Stores a version as the current one of its object, without writing it to the journal. */
export function putVersion(store: Store, version: Version): void {
  const isNew = put(collectionOf(store, version.object), version)
  const parent_id = parentIdOf(version)
  if (isNew && parent_id !== null) {
    const siblings = store.childIdsOf.get(parent_id)
    if (siblings) siblings.push(version.id)
    else store.childIdsOf.set(parent_id, [version.id])
  }
  if (version.revision > store.revision) store.revision = version.revision
}

/** Finds an object of any type by the prefix of its id. */
export function findObject(store: Store, id: string): Version | undefined {
  const object = PREFIXES[id.slice(0, id.indexOf('_'))]
  return object && collectionOf(store, object).byId.get(id)
}

/** The current versions of all objects. */
export function currentVersions(store: Store): Version[] {
  return Object.values(COLLECTION_NAMES).flatMap((name): Version[] => [...store[name].byId.values()])
}

/** Whether this is the name of a type of objects. */
export function isObjectType(name: unknown): name is Version['object'] {
  return typeof name === 'string' && Object.hasOwn(COLLECTION_NAMES, name)
}

const PREFIXES: Record<string, Version['object']> = {
  pi: 'payment_intent',
  ch: 'charge',
  re: 'refund',
  du: 'dispute',
  po: 'payout',
  tr: 'transfer',
  trr: 'transfer_reversal',
  tu: 'topup',
  vs: 'identity.verification_session',
}

const COLLECTION_NAMES = {
  payment_intent: 'intents',
  charge: 'charges',
  refund: 'refunds',
  dispute: 'disputes',
  payout: 'payouts',
  transfer: 'transfers',
  transfer_reversal: 'reversals',
  topup: 'topups',
  'identity.verification_session': 'sessions',
} as const satisfies Record<Version['object'], keyof Store>

function collectionOf(store: Store, object: Version['object']): Collection<Version> {
  return store[COLLECTION_NAMES[object]]
}

/** The id of the parent object; null if it has none. */
function parentIdOf(version: Version): string | null {
  if (version.object === 'refund') return version.payment_intent
  if (version.object === 'dispute') return version.charge
  return version.object === 'transfer_reversal' ? version.transfer : null
}

function emptyCollection<T>(): Collection<T> {
  return { byId: new Map(), ids: [] }
}

function put<T extends Version>(collection: Collection<T>, version: T): boolean {
  const isNew = !collection.byId.has(version.id)
  collection.byId.set(version.id, version)
  if (isNew) collection.ids.push(version.id)
  return isNew
}

// What the emulator knows: payment intents, charges and refunds, each as a row of versions that are never changed.
import type { AppendFile } from '../shared/append-file.ts'

/** A change makes a new version, so that events and stored answers keep what they were about without copying it. */
type Versioned = {
  id: string
  /** Unix seconds. */
  created: number
  /** Numbered over all objects. */
  revision: number
  metadata: Record<string, string>
}

export type PaymentError = {
  type: 'card_error' | 'invalid_request_error'
  code: string
  message: string
  decline_code?: string
  charge?: string
  /** The method that was refused; the intent itself has lost it. */
  method: Method | null
}

/** A use of a test method: `id` is what Stripe answers with, `token` what was asked for. */
export type Method = { id: string; token: string }

export type Intent = Versioned & {
  object: 'payment_intent'
  amount: number
  amount_capturable: number
  amount_received: number
  currency: string
  status:
    | 'requires_payment_method'
    | 'requires_confirmation'
    | 'requires_action'
    | 'requires_capture'
    | 'succeeded'
    | 'canceled'
  capture_method: 'automatic' | 'automatic_async' | 'manual'
  client_secret: string
  customer: string | null
  description: string | null
  receipt_email: string | null
  statement_descriptor: string | null
  statement_descriptor_suffix: string | null
  transfer_group: string | null
  setup_future_usage: string | null
  /** Null: only the listed types. */
  automatic: { enabled: boolean; allow_redirects: string } | null
  method_types: string[]
  method: Method | null
  return_url: string | null
  latest_charge: string | null
  error: PaymentError | null
  canceled_at: number | null
  cancellation_reason: string | null
}

export type Charge = Versioned & {
  object: 'charge'
  payment_intent: string
  amount: number
  amount_captured: number
  /** What was refunded and what was released. */
  amount_refunded: number
  currency: string
  status: 'succeeded' | 'failed'
  captured: boolean
  customer: string | null
  description: string | null
  method: Method
  authenticated: boolean
  /** Unix seconds; null once captured. */
  capture_before: number | null
  failure: { code: string; message: string; decline_code?: string } | null
  balance_transaction: string | null
}

export type Refund = Versioned & {
  object: 'refund'
  amount: number
  currency: string
  charge: string
  payment_intent: string
  reason: string | null
  status: 'pending' | 'requires_action' | 'succeeded' | 'failed' | 'canceled'
  failure_reason: string | null
  balance_transaction: string | null
  failure_balance_transaction: string | null
}

export type Version = Intent | Charge | Refund

type Collection<T> = {
  byId: Map<string, T>
  /** Oldest first. */
  ids: string[]
}

export type Store = {
  revision: number
  intents: Collection<Intent>
  charges: Collection<Charge>
  refunds: Collection<Refund>
  /** Ids of the refunds of a payment intent, oldest first. */
  refundsOf: Map<string, string[]>
  journal: AppendFile | null
}

export function emptyStore(): Store {
  return {
    revision: 0,
    intents: { byId: new Map(), ids: [] },
    charges: { byId: new Map(), ids: [] },
    refunds: { byId: new Map(), ids: [] },
    refundsOf: new Map(),
    journal: null,
  }
}

/** Makes `next` the current version of its object and hands it back. */
export function save<T extends Version>(store: Store, next: T): T {
  next.revision = ++store.revision
  remember(store, next)
  store.journal?.append({ version: next })
  return next
}

/** The same for a version read from the journal. */
export function remember(store: Store, version: Version): void {
  if (version.object === 'payment_intent') keep(store.intents, version)
  else if (version.object === 'charge') keep(store.charges, version)
  else if (keep(store.refunds, version)) {
    const others = store.refundsOf.get(version.payment_intent)
    if (others) others.push(version.id)
    else store.refundsOf.set(version.payment_intent, [version.id])
  }
  if (version.revision > store.revision) store.revision = version.revision
}

/** By the prefix of its id, whatever it is. */
export function findObject(store: Store, id: string): Version | undefined {
  if (id.startsWith('pi_')) return store.intents.byId.get(id)
  if (id.startsWith('ch_')) return store.charges.byId.get(id)
  return store.refunds.byId.get(id)
}

function keep<T extends Version>(collection: Collection<T>, version: T): boolean {
  const isNew = !collection.byId.has(version.id)
  collection.byId.set(version.id, version)
  if (isNew) collection.ids.push(version.id)
  return isNew
}

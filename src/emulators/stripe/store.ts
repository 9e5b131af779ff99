// What the emulator knows: payments, payouts and all else, each as a row of versions that are never changed.
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

export type Payout = Versioned & {
  object: 'payout'
  amount: number
  currency: string
  /** Unix seconds, the beginning of a day. */
  arrival_date: number
  /** `ba_...` or `card_...`. */
  destination: string
  method: 'standard' | 'instant'
  source_type: string
  description: string | null
  statement_descriptor: string | null
  status: 'pending' | 'in_transit' | 'paid' | 'failed' | 'canceled'
  failure: { code: string; message: string } | null
  balance_transaction: string
  failure_balance_transaction: string | null
}

export type Transfer = Versioned & {
  object: 'transfer'
  amount: number
  amount_reversed: number
  currency: string
  /** `acct_...`. */
  destination: string
  destination_payment: string
  description: string | null
  source_transaction: string | null
  source_type: string
  transfer_group: string | null
  balance_transaction: string
  /** Newest first: all that Stripe shows on the transfer itself. */
  latest_reversals: Reversal[]
  reversal_count: number
}

export type Reversal = Versioned & {
  object: 'transfer_reversal'
  transfer: string
  amount: number
  currency: string
  balance_transaction: string
  destination_payment_refund: string
}

export type Topup = Versioned & {
  object: 'topup'
  amount: number
  currency: string
  source: string | null
  payment_method: string | null
  description: string | null
  statement_descriptor: string | null
  transfer_group: string | null
  /** Unix seconds. */
  expected_availability_date: number
  status: 'pending' | 'succeeded' | 'failed' | 'canceled' | 'reversed'
  failure: { code: string; message: string } | null
  balance_transaction: string | null
}

export type Version = Intent | Charge | Refund | Payout | Transfer | Reversal | Topup

export type Collection<T> = {
  byId: Map<string, T>
  /** Oldest first. */
  ids: string[]
}

export type Store = {
  revision: number
  intents: Collection<Intent>
  charges: Collection<Charge>
  refunds: Collection<Refund>
  payouts: Collection<Payout>
  transfers: Collection<Transfer>
  reversals: Collection<Reversal>
  topups: Collection<Topup>
  /** Ids of the refunds of a payment intent and of the reversals of a transfer, oldest first. */
  partsOf: Map<string, string[]>
  journal: AppendFile | null
}

export function emptyStore(): Store {
  return {
    revision: 0,
    intents: nothing(),
    charges: nothing(),
    refunds: nothing(),
    payouts: nothing(),
    transfers: nothing(),
    reversals: nothing(),
    topups: nothing(),
    partsOf: new Map(),
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
  const isNew = keep(collectionOf(store, version.object), version)
  const whole = wholeOf(version)
  if (isNew && whole !== null) {
    const others = store.partsOf.get(whole)
    if (others) others.push(version.id)
    else store.partsOf.set(whole, [version.id])
  }
  if (version.revision > store.revision) store.revision = version.revision
}

/** By the prefix of its id, whatever it is. */
export function findObject(store: Store, id: string): Version | undefined {
  const object = PREFIXES[id.slice(0, id.indexOf('_'))]
  return object && collectionOf(store, object).byId.get(id)
}

const PREFIXES: Record<string, Version['object']> = {
  pi: 'payment_intent',
  ch: 'charge',
  re: 'refund',
  po: 'payout',
  tr: 'transfer',
  trr: 'transfer_reversal',
  tu: 'topup',
}

const NAMES = {
  payment_intent: 'intents',
  charge: 'charges',
  refund: 'refunds',
  payout: 'payouts',
  transfer: 'transfers',
  transfer_reversal: 'reversals',
  topup: 'topups',
} as const satisfies Record<Version['object'], keyof Store>

function collectionOf(store: Store, object: Version['object']): Collection<Version> {
  return store[NAMES[object]]
}

/** What it is listed as a part of. */
function wholeOf(version: Version): string | null {
  if (version.object === 'refund') return version.payment_intent
  return version.object === 'transfer_reversal' ? version.transfer : null
}

function nothing<T>(): Collection<T> {
  return { byId: new Map(), ids: [] }
}

function keep<T extends Version>(collection: Collection<T>, version: T): boolean {
  const isNew = !collection.byId.has(version.id)
  collection.byId.set(version.id, version)
  if (isNew) collection.ids.push(version.id)
  return isNew
}

// The independent record of money movements: one line per hold, capture, release, refund, payout, transfer, top-up and
// reversal.
import type { AppendFile } from './append-file.ts'
import type { Call } from './call.ts'

/** Types of Stripe's objects. Each line has the ids of the objects that it concerns. */
const RESOURCES = [
  'payment_intent',
  'refund',
  'dispute',
  'payout',
  'transfer',
  'transfer_reversal',
  'topup',
] as const
type EffectReferences = { [Resource in (typeof RESOURCES)[number]]?: string }

export type Effect = EffectReferences & {
  /** Sequence number, from 1 without gaps. */
  seq: number
  /** Time of the real clock (ISO 8601). */
  at: string
  effect:
    | 'authorize'
    | 'capture'
    | 'cancel'
    | 'refund'
    | 'refund_failed'
    | 'payout'
    | 'payout_failed'
    | 'payout_canceled'
    | 'transfer'
    | 'transfer_reversed'
    | 'top_up'
    | 'top_up_reversed'
    | 'dispute_withdrawn'
    | 'dispute_reinstated'
  /** The amount in the smallest unit. For `cancel`: the released amount. */
  amount: number
  currency: string
  idempotency_key: string | null
  metadata: Record<string, string>
  source: Call['source']
}

/** The record in memory. `file` contains the same lines. */
export type Effects = { lines: Effect[]; file: AppendFile | null }

/** Appends an effect. `moved`: the ids of its objects, the amount in the smallest unit, and the metadata. */
export function recordEffect(
  effects: Effects,
  call: Call,
  effect: Effect['effect'],
  moved: EffectReferences & { amount: number; currency: string; metadata: Record<string, string> },
): void {
  const { amount, currency, metadata, ...references } = moved
  const line: Effect = {
    seq: effects.lines.length + 1,
    at: new Date().toISOString(),
    effect,
    ...references,
    amount,
    currency,
    idempotency_key: call.idempotency_key,
    metadata,
    source: call.source,
  }
  effects.lines.push(line)
  effects.file?.append(line)
}

export type EffectFilter = EffectReferences & {
  effect?: string
  source?: string
  idempotency_key?: string
  /** Only lines after this number. */
  after_seq?: number
  metadata?: Record<string, string>
}

/** Filters by equality, in addition to metadata and `after_seq`. */
export const EFFECT_FILTERS = ['effect', 'source', 'idempotency_key', ...RESOURCES] as const

/** Matching effects, oldest first, after the file is flushed. */
export async function findEffects(effects: Effects, filter: EffectFilter): Promise<Effect[]> {
  await effects.file?.flush()
  const metadata = Object.entries(filter.metadata ?? {})
  return effects.lines.filter(
    (line) =>
      line.seq > (filter.after_seq ?? 0) &&
      EFFECT_FILTERS.every((name) => filter[name] === undefined || line[name] === filter[name]) &&
      metadata.every(([key, value]) => line.metadata[key] === value),
  )
}

// The independent record of what really moved: one line per authorization, capture, release, refund and failed refund.
import type { AppendFile } from './append-file.ts'
import type { Call } from './call.ts'

export type Effect = {
  /** From 1, without gaps. */
  seq: number
  /** ISO 8601, of the real clock. */
  at: string
  effect: 'authorize' | 'capture' | 'cancel' | 'refund' | 'refund_failed'
  payment_intent: string
  refund?: string
  /** In the smallest unit; of a `cancel`, what was released. */
  amount: number
  currency: string
  idempotency_key: string | null
  metadata: Record<string, string>
  source: 'api' | 'dashboard' | 'browser' | 'expiry'
}

/** `file` holds the same lines. */
export type Effects = { lines: Effect[]; file: AppendFile | null }

export function recordEffect(
  effects: Effects,
  call: Call,
  effect: Effect['effect'],
  moved: {
    payment_intent: string
    refund?: string
    amount: number
    currency: string
    metadata: Record<string, string>
  },
): void {
  const line: Effect = {
    seq: effects.lines.length + 1,
    at: new Date().toISOString(),
    effect,
    payment_intent: moved.payment_intent,
    ...(moved.refund && { refund: moved.refund }),
    amount: moved.amount,
    currency: moved.currency,
    idempotency_key: call.idempotency_key,
    metadata: moved.metadata,
    source: call.source,
  }
  effects.lines.push(line)
  effects.file?.append(line)
}

export type EffectFilter = {
  effect?: string
  payment_intent?: string
  refund?: string
  source?: string
  idempotency_key?: string
  /** Only lines after this number. */
  after_seq?: number
  metadata?: Record<string, string>
}

/** Oldest first; what it shows is in the file. */
export async function findEffects(effects: Effects, filter: EffectFilter): Promise<Effect[]> {
  await effects.file?.flush()
  const metadata = Object.entries(filter.metadata ?? {})
  return effects.lines.filter(
    (line) =>
      line.seq > (filter.after_seq ?? 0) &&
      (filter.effect === undefined || line.effect === filter.effect) &&
      (filter.payment_intent === undefined || line.payment_intent === filter.payment_intent) &&
      (filter.refund === undefined || line.refund === filter.refund) &&
      (filter.source === undefined || line.source === filter.source) &&
      (filter.idempotency_key === undefined || line.idempotency_key === filter.idempotency_key) &&
      metadata.every(([key, value]) => line.metadata[key] === value),
  )
}

// Effects: the movements of money, one for each hold, capture, release, refund, payout, transfer, top-up and reversal.
import type { Call } from './call.ts'

/** Types of Stripe's objects. An effect has the ids of the objects that it concerns. */
export const EFFECT_RESOURCES = [
  'payment_intent',
  'refund',
  'dispute',
  'payout',
  'transfer',
  'transfer_reversal',
  'topup',
] as const
export type EffectReferences = { [Resource in (typeof EFFECT_RESOURCES)[number]]?: string }

export type Effect = EffectReferences & {
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

/** The part of the engine that receives effects: the engine's own type depends on this file. */
type Receiver = { hooks: { onEffect: (effect: Effect) => void } }

/**
 * Passes an effect to the host. `moved`: the ids of its objects, the amount in the smallest unit, and the metadata. The
 * engine never reads effects.
 */
export function recordEffect(
  { hooks }: Receiver,
  { idempotency_key, source }: Call,
  effect: Effect['effect'],
  moved: EffectReferences & Pick<Effect, 'amount' | 'currency' | 'metadata'>,
): void {
  const { amount, currency, metadata, ...references } = moved
  hooks.onEffect({ effect, ...references, amount, currency, idempotency_key, metadata, source })
}

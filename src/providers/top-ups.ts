// The interface of a processor that fills balances, and the types of what it is asked and answers.
import type { Outcome } from '#core/outcome.ts'

/** The processor's record of a top-up. Amounts are in the currency's smallest unit, `currency` in lower case. */
export type ProcessorTopUp = {
  reference: string
  status: 'pending' | 'succeeded' | 'failed' | 'canceled' | 'reversed'
  amount_minor: number
  currency: string
  /** Only where it failed. */
  failure: { code: string; message: string } | null
  metadata: Record<string, string>
}

export type TopUpCall = {
  amount_minor: number
  currency: string
  description: string | null
  /** A token; null: what the platform has set up with the processor. */
  source: string | null
  /** Our ids, so that notifications and lists can be joined: `sluice_top_up_id`, `sluice_tenant_id`. */
  metadata: Record<string, string>
}

/** The writing call takes the idempotency key that is stored with its job. Outcomes are returned, never thrown. */
export type TopUpProcessor = {
  readonly name: string
  /** A fingerprint of the credentials: calls that were sent with others may be of another account. */
  readonly credentials: string
  /** The id of the account that they are of. */
  findAccount(): Promise<Outcome<string>>
  topUp(request: TopUpCall, key: string): Promise<Outcome<ProcessorTopUp>>
  /** Null: the processor knows no such top-up. */
  findTopUp(reference: string): Promise<Outcome<ProcessorTopUp | null>>
  /**
   * By `sluice_top_up_id` among the top-ups of this amount from `from_s` to `to_s`. `now_s` is the present by the
   * same clock (unix seconds): an absence with another clock is no answer.
   */
  searchTopUp(asked: {
    top_up_id: string
    amount_minor: number
    from_s: number
    to_s: number
    now_s: number
  }): Promise<Outcome<ProcessorTopUp | null>>
}

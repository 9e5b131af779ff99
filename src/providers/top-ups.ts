// The interface of a top-up processor.
import type { Outcome } from '#core/outcome.ts'
import type { ObjectLists } from './objects.ts'

/** The processor's record of a top-up. Amounts are in the currency's smallest unit, `currency` in lower case. */
export type ProcessorTopUp = {
  reference: string
  status: 'pending' | 'succeeded' | 'failed' | 'canceled' | 'reversed'
  amount_minor: number
  currency: string
  /** Only if it failed. */
  failure: { code: string; message: string } | null
  description: string | null
  metadata: Record<string, string>
}

export type TopUpCall = {
  amount_minor: number
  currency: string
  description: string | null
  /** A token; null: the platform's default source at the processor. */
  source: string | null
  /** Sluice ids for matching notifications and lists: `sluice_top_up_id`, `sluice_tenant_id`. */
  metadata: Record<string, string>
}

/**
 * The call that changes something takes the idempotency key that is stored with its job. Outcomes are returned, never
 * thrown.
 */
export type TopUpProcessor = {
  readonly name: string
  /** The lists of the objects by creation time. */
  readonly lists: ObjectLists
  /** A fingerprint of the credentials. Calls with other credentials may belong to another account. */
  readonly credentials: string
  /** The id of the account of the credentials. */
  findAccount(): Promise<Outcome<string>>
  topUp(request: TopUpCall, key: string): Promise<Outcome<ProcessorTopUp>>
  /** Looks up a top-up. Null: the processor has no such top-up. */
  findTopUp(reference: string): Promise<Outcome<ProcessorTopUp | null>>
  /**
   * Searches the top-ups of this amount (null: of any) from `from_s` to `to_s` (unix seconds) for the top-up with this
   * `sluice_top_up_id` in its metadata. `now_s`: the current time by the clock of the range. If the provider's clock
   * differs, an empty result is ambiguous.
   */
  searchTopUp(query: {
    top_up_id: string
    amount_minor: number | null
    from_s: number
    to_s: number
    now_s: number
  }): Promise<Outcome<ProcessorTopUp | null>>
}

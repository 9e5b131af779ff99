// The interface of a payout processor.
import type { Outcome } from '#core/outcome.ts'
import type { ObjectLists } from './objects.ts'

/**
 * The processor's record of a payout or transfer. Amounts are in the currency's smallest unit, `currency` in lower
 * case.
 */
export type ProcessorPayout = {
  reference: string
  status: 'processing' | 'paid' | 'failed' | 'canceled'
  amount_minor: number
  currency: string
  /** The amount that was returned. */
  returned_minor: number
  destination: string | null
  /** A date such as `2026-11-24`; null if the processor reports none. */
  arrival_date: string | null
  /** Only if it failed. */
  failure: { code: string; message: string } | null
  description: string | null
  metadata: Record<string, string>
}

export type PayoutCall = {
  /** A token of a bank account, card or connected account. */
  destination: string
  amount_minor: number
  currency: string
  description: string | null
  /** Sluice ids for matching notifications and lists: `sluice_payout_id`, `sluice_tenant_id`. */
  metadata: Record<string, string>
}

/**
 * Calls that change something take the idempotency key that is stored with their job. Outcomes are returned, never
 * thrown.
 */
export type PayoutProcessor = {
  readonly name: string
  /** The lists of the objects by creation time. */
  readonly lists: ObjectLists
  /** A fingerprint of the credentials. Calls with other credentials may belong to another account. */
  readonly credentials: string
  /** The id of the account of the credentials. */
  findAccount(): Promise<Outcome<string>>
  payOut(request: PayoutCall, key: string): Promise<Outcome<ProcessorPayout>>
  /** Cancels a payout. Possible only before the payout has left the processor. */
  cancelPayout(reference: string, key: string): Promise<Outcome<ProcessorPayout>>
  /** Looks up a payout. Null: the processor has no such payout. */
  findPayout(reference: string): Promise<Outcome<ProcessorPayout | null>>
  /**
   * Searches the payouts to this destination (null: to any) from `from_s` to `to_s` (unix seconds) for the payout with
   * this `sluice_payout_id` in its metadata. `now_s`: the current time by the clock of the range. If the provider's
   * clock differs, an empty result is ambiguous.
   */
  searchPayout(query: {
    payout_id: string
    destination: string | null
    from_s: number
    to_s: number
    now_s: number
  }): Promise<Outcome<ProcessorPayout | null>>
}

/** Whether the processor refused a payout because the platform's balance at the processor is too low. */
export function lacksFunds({ failure }: { failure: { processor_code?: string } }): boolean {
  return failure.processor_code === LACKS_FUNDS
}
/** The `processor_code` of a failure because of the platform's balance. */
export const LACKS_FUNDS = 'platform_balance_insufficient'

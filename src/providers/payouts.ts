// The interface of a processor that pays out, and the types of what it is asked and answers.
import type { Outcome } from '#core/outcome.ts'

/** The processor's record of a payout or transfer. Amounts are in the currency's smallest unit, `currency` in lower case. */
export type ProcessorPayout = {
  reference: string
  status: 'processing' | 'paid' | 'failed' | 'canceled'
  amount_minor: number
  currency: string
  /** What has come back of what was paid. */
  returned_minor: number
  destination: string | null
  /** The day, as `2026-11-24`; null where the processor says none. */
  arrival_date: string | null
  /** Only where it failed. */
  failure: { code: string; message: string } | null
  metadata: Record<string, string>
}

export type PayoutCall = {
  /** A token of a bank account, card or connected account. */
  destination: string
  amount_minor: number
  currency: string
  description: string | null
  /** Our ids, so that notifications and lists can be joined: `sluice_payout_id`, `sluice_tenant_id`. */
  metadata: Record<string, string>
}

/** Every call that writes takes the idempotency key that is stored with its job. Outcomes are returned, never thrown. */
export type PayoutProcessor = {
  readonly name: string
  /** A fingerprint of the credentials: calls that were sent with others may be of another account. */
  readonly credentials: string
  /** The id of the account that they are of. */
  findAccount(): Promise<Outcome<string>>
  payOut(request: PayoutCall, key: string): Promise<Outcome<ProcessorPayout>>
  /** Only what has not left the processor yet can be canceled. */
  cancelPayout(reference: string, key: string): Promise<Outcome<ProcessorPayout>>
  /** Null: the processor knows no such payout. */
  findPayout(reference: string): Promise<Outcome<ProcessorPayout | null>>
  /**
   * By our id in the metadata, among what went to this destination from `from_s` to `to_s`. `now_s` is the present by the
   * same clock (unix seconds): an absence with another clock is no answer.
   */
  searchPayout(asked: {
    payout_id: string
    destination: string
    from_s: number
    to_s: number
    now_s: number
  }): Promise<Outcome<ProcessorPayout | null>>
}

/** Whether the processor refused only because the platform's own balance there is too low for now. */
export function lacksFunds({ failure }: { failure: { processor_code?: string } }): boolean {
  return failure.processor_code === LACKS_FUNDS
}
/** A failure's code, in our words. */
export const LACKS_FUNDS = 'platform_balance_insufficient'

// The interface of a provider that verifies who somebody is, and the types of what it is asked and answers.
import type { Outcome } from '#core/outcome.ts'

/** The provider's record of a verification. */
export type IdentitySession = {
  reference: string
  status: 'requires_input' | 'processing' | 'verified' | 'canceled'
  /** The page for the person, good for one visit: a secret. Each answer has another one, where there is any. */
  url: string | null
  /** What was wrong, where the person has to try again. */
  failure: { code: string; message: string } | null
  /** What it knew is erased, or will be. One that was not over is canceled by that. */
  redacted: boolean
  /** Erased with the rest. */
  metadata: Record<string, string>
}

export type SessionCall = {
  return_url: string | null
  /** Our ids, so that notifications and lists can be joined: `sluice_kyc_id`, `sluice_tenant_id`. */
  metadata: Record<string, string>
}

/** Every call that writes takes the idempotency key that is stored with its job. Outcomes are returned, never thrown. */
export type IdentityProvider = {
  readonly name: string
  /** A fingerprint of the credentials: calls that were sent with others may be of another account. */
  readonly credentials: string
  /** The id of the account that they are of. */
  findAccount(): Promise<Outcome<string>>
  /** For how long a page is there. */
  readonly url_lifetime_ms: number
  openSession(request: SessionCall, key: string): Promise<Outcome<IdentitySession>>
  /** Only one that waits for the person can be canceled. */
  cancelSession(reference: string, key: string): Promise<Outcome<IdentitySession>>
  /** Null: the provider knows no such session. */
  findSession(reference: string): Promise<Outcome<IdentitySession | null>>
  /**
   * By our id, among the sessions since `from_s`, but for those of `except`; one that is canceled only if no other is there.
   * Without the page. `now_s` is the present by the same clock (unix seconds): an absence with another clock is no answer.
   */
  searchSession(asked: {
    kyc_id: string
    from_s: number
    now_s: number
    except?: string[]
  }): Promise<Outcome<IdentitySession | null>>
}

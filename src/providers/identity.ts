// The interface of an identity verification provider.
import type { Outcome } from '#core/outcome.ts'

/** The provider's record of a verification. */
export type IdentitySession = {
  reference: string
  status: 'requires_input' | 'processing' | 'verified' | 'canceled'
  /** The hosted page, valid for one visit: a secret. Each answer has a new URL. Null if the person has nothing to do. */
  url: string | null
  /** Why the person has to try again. */
  failure: { code: string; message: string } | null
  /** Its data is erased or will be. Redaction cancels a session that is not final. */
  redacted: boolean
  /** Erased by redaction, too. */
  metadata: Record<string, string>
}

export type SessionCall = {
  return_url: string | null
  /** Sluice ids for matching notifications and lists: `sluice_kyc_id`, `sluice_tenant_id`. */
  metadata: Record<string, string>
}

/** Writing calls take the idempotency key that is stored with their job. Outcomes are returned, never thrown. */
export type IdentityProvider = {
  readonly name: string
  /** A fingerprint of the credentials. Calls with other credentials may belong to another account. */
  readonly credentials: string
  /** The id of the account of the credentials. */
  findAccount(): Promise<Outcome<string>>
  /** Lifetime of a page. */
  readonly url_lifetime_ms: number
  openSession(request: SessionCall, key: string): Promise<Outcome<IdentitySession>>
  /** Only possible while the session waits for the person. */
  cancelSession(reference: string, key: string): Promise<Outcome<IdentitySession>>
  /** Null: the provider has no such session. */
  findSession(reference: string): Promise<Outcome<IdentitySession | null>>
  /**
   * Finds a session by `kyc_id` among the sessions since `from_s`, without those of `except`; a canceled session only if
   * there is no other. The result has no `url`. `now_s`: the current time by the same clock (unix seconds); with a skewed
   * clock an empty result is ambiguous.
   */
  searchSession(query: {
    kyc_id: string
    from_s: number
    now_s: number
    except?: string[]
  }): Promise<Outcome<IdentitySession | null>>
}

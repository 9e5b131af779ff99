// The interface of an identity verification provider.
import type { Outcome } from '#core/outcome.ts'
import type { ObjectLists } from './objects.ts'

/** The provider's record of a verification. */
export type IdentitySession = {
  reference: string
  status: 'requires_input' | 'processing' | 'verified' | 'canceled'
  /**
   * The URL of the provider's page: a secret that is valid for one visit. Each answer has a new URL. Null if the person
   * has nothing to do.
   */
  url: string | null
  /** Why the person has to try again. */
  failure: { code: string; message: string } | null
  /** Whether the session's data is erased or will be. A redaction cancels a session that is not final. */
  redacted: boolean
  /** When the session was created (unix seconds). */
  created_s: number
  /** A redaction also erases the metadata. */
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
  /** The lists of the objects by creation time. */
  readonly lists: ObjectLists
  /** A fingerprint of the credentials. Calls with other credentials may belong to another account. */
  readonly credentials: string
  /** The id of the account of the credentials. */
  findAccount(): Promise<Outcome<string>>
  /** How long the URL of a page is valid. */
  readonly url_lifetime_ms: number
  openSession(request: SessionCall, key: string): Promise<Outcome<IdentitySession>>
  /** Cancels a session. Possible only while the session waits for the person. */
  cancelSession(reference: string, key: string): Promise<Outcome<IdentitySession>>
  /** Looks up a session. Null: the provider has no such session. */
  findSession(reference: string): Promise<Outcome<IdentitySession | null>>
  /**
   * Searches the sessions created since `from_s`, without those in `except`, for a session of this verification.
   * Returns a canceled session only if there is no other. The result has no `url`. `now_s`: the current time by the
   * clock of `from_s` (unix seconds). If the provider's clock differs, an empty result is ambiguous.
   */
  searchSession(query: {
    kyc_id: string
    from_s: number
    now_s: number
    except?: string[]
  }): Promise<Outcome<IdentitySession | null>>
}

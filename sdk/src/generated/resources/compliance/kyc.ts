// `sluice.compliance.kyc`.

import type { Answer } from '../../../answer.ts'
import type { RequestOptions } from '../../../client.ts'
import type { Pages } from '../../../pages.ts'
import { pathSegment, Resource } from '../../../resource.ts'
import type {
  CreateVerification,
  DecideVerification,
  KycSubjectType,
  LinkVerification,
  TimelineEntry,
  Verification,
  VerificationStatus,
} from '../../schemas.ts'

/** Query parameters of `compliance.kyc.list`. */
export interface ListKycQuery {
  /** The `created_at` of the last item of the previous page. */
  before?: string
  /**
   * Page size.
   *
   * `Default: `25`.
   */
  limit?: number
  /** Created at or after. */
  created_from?: string
  /** Created before. */
  created_to?: string
  /** Filter by status. */
  status?: VerificationStatus
  /** Filter by type of subject. */
  subject_type?: KycSubjectType
  /** Filter by subject. */
  subject_id?: string
  /**
   * Only verifications without a decision.
   *
   * `Default: `false`.
   */
  open?: boolean
}

/** Query parameters of `compliance.kyc.timeline`. */
export interface GetKycTimelineQuery {
  /** The `at` of the first entry of the later page. */
  before?: string
  /**
   * Page size.
   *
   * `Default: `100`.
   */
  limit?: number
}

/** Whether customers, merchants and recipients are who they say they are. */
export class ComplianceKycResource extends Resource {
  /**
   * Start a verification.
   *
   * Opens a session at the identity provider. The answer contains the `url` of the provider's page, to
   * which you send the person. Only one answer contains this `url`: a repeated request with the same key
   * returns it only if no earlier answer did. A subject can have one open verification at a time. A
   * deleted customer and an archived merchant or recipient cannot be verified.
   *
   * Waits for the provider (10 s; `Prefer: wait=N`, at most 30, or `respond-async`). If the work is not
   * finished by then, the answer is 202.
   *
   * Needs the scope `compliance:write`.
   *
   * `POST /v1/compliance/kyc`
   */
  create(body: CreateVerification, options?: RequestOptions): Answer<Verification> {
    return this.send('POST', '/v1/compliance/kyc', { body, key: 'header' }, options)
  }

  /**
   * List verifications, newest first.
   *
   * Needs the scope `compliance:read`.
   *
   * `GET /v1/compliance/kyc`
   */
  list(query?: ListKycQuery, options?: RequestOptions): Pages<Verification> {
    return this.pages('/v1/compliance/kyc', query, options)
  }

  /**
   * Retrieve a verification.
   *
   * Needs the scope `compliance:read`.
   *
   * `GET /v1/compliance/kyc/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<Verification> {
    return this.send('GET', `/v1/compliance/kyc/${pathSegment(id)}`, {}, options)
  }

  /**
   * Decide a verification manually.
   *
   * Approves or rejects a verification at once and finally, in any state, even after the provider has
   * decided. You can do this once. A session that still waits for the person is canceled. An outdated
   * verification cannot be decided. Later reports from the provider appear in the timeline and change
   * nothing. The verification names the API key that decided.
   *
   * Needs the scope `compliance:write`.
   *
   * `POST /v1/compliance/kyc/{id}/decide`
   */
  decide(id: string, body: DecideVerification, options?: RequestOptions): Answer<Verification> {
    return this.send('POST', `/v1/compliance/kyc/${pathSegment(id)}/decide`, { body, key: 'header' }, options)
  }

  /**
   * Request another link.
   *
   * Requests another page for the person from the provider, if the link to the first page was used, was
   * lost or has expired. Only one answer contains the `url` of the page. This is possible only while the
   * verification requires input. While 10 requests for links to one verification are unfinished, further
   * requests are refused with `rate_limited`.
   *
   * Waits for the provider (10 s; `Prefer: wait=N`, at most 30, or `respond-async`). If the work is not
   * finished by then, the answer is 202.
   *
   * Needs the scope `compliance:write`.
   *
   * `POST /v1/compliance/kyc/{id}/link`
   */
  link(id: string, body?: LinkVerification, options?: RequestOptions): Answer<Verification> {
    return this.send('POST', `/v1/compliance/kyc/${pathSegment(id)}/link`, { body, key: 'header' }, options)
  }

  /**
   * Retrieve the timeline of a verification.
   *
   * Every attempt, provider answer, webhook and event of the verification, including provider reports
   * after a decision, oldest first: the last `limit` entries, or the last `limit` before `before`.
   * Entries of the same moment come on the same page, so there may be a few more than `limit`. A full
   * page links to the previous entries.
   *
   * Needs the scope `compliance:read`.
   *
   * `GET /v1/compliance/kyc/{id}/timeline`
   */
  timeline(id: string, query?: GetKycTimelineQuery, options?: RequestOptions): Pages<TimelineEntry> {
    return this.pages(`/v1/compliance/kyc/${pathSegment(id)}/timeline`, query, options)
  }
}

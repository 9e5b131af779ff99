// `sluice.compliance`.

import { Resource } from '../../resource.ts'
import { ComplianceKycResource } from './compliance/kyc.ts'

export class ComplianceResource extends Resource {
  /** Whether customers, merchants and recipients are who they say they are. */
  readonly kyc = new ComplianceKycResource(this.client)
}

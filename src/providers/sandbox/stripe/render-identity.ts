// Verification sessions in the format of Stripe's API.
import type { Rendered } from './rendered.ts'
import type { VerificationSession } from './versions.ts'

export function renderSession(session: VerificationSession, pages_url: string): Rendered {
  const { id, link, redaction } = session
  return {
    id,
    object: 'identity.verification_session',
    client_reference_id: session.client_reference_id,
    client_secret: link?.secret ?? null,
    created: session.created,
    last_error: session.last_error,
    last_verification_report: session.report,
    livemode: false,
    metadata: session.metadata,
    options: session.options,
    ...(session.provided_details && { provided_details: session.provided_details }),
    redaction: redaction && { status: redaction },
    related_customer: session.related_customer,
    related_customer_account: null,
    status: session.status,
    type: session.type,
    url: link && `${pages_url}/identity/${id}/start?link=${link.token}`,
    verified_outputs: null,
  }
}

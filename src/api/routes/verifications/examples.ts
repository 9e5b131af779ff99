// Example verifications: only the fields in which they differ from the examples of the schema.

const UPDATED_AT = '2026-11-20T10:17:02.654321Z'

export const PENDING_VERIFICATION = { status: 'pending', provider_reference: null, url: null }
/** An answer without the link. */
export const WAITING_VERIFICATION = { url: null }
export const DECIDED_VERIFICATION = {
  status: 'approved',
  url: null,
  decision: 'approved',
  decision_reason: 'The document was seen in person.',
  decided_by: 'manual',
  decided_by_key_id: '0198f6ef-c0de-7000-8000-123456789abc',
  decided_at: UPDATED_AT,
  updated_at: UPDATED_AT,
}

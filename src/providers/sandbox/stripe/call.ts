// The origin of an operation.

/** The origin: the API, a person in the provider's dashboard, the buyer's browser, a bank, or an expiry. */
export type Call = {
  source: 'api' | 'dashboard' | 'browser' | 'bank' | 'expiry'
  request_id: string | null
  idempotency_key: string | null
}

export const DASHBOARD_CALL: Call = { source: 'dashboard', request_id: null, idempotency_key: null }
export const BROWSER_CALL: Call = { source: 'browser', request_id: null, idempotency_key: null }
export const BANK_CALL: Call = { source: 'bank', request_id: null, idempotency_key: null }
export const EXPIRY_CALL: Call = { source: 'expiry', request_id: null, idempotency_key: null }

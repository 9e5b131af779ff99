// Who asks an emulator for something.

/** Who asks: the API, a person in the provider's dashboard, the buyer's browser, or time. */
export type Call = {
  source: 'api' | 'dashboard' | 'browser' | 'expiry'
  request_id: string | null
  idempotency_key: string | null
}

/** Somebody in the dashboard, and the buyer. */
export const DASHBOARD: Call = { source: 'dashboard', request_id: null, idempotency_key: null }
export const BROWSER: Call = { source: 'browser', request_id: null, idempotency_key: null }

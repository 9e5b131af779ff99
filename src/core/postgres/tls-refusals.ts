// Fault of postgres.js (3.0.0 to 3.4.9): it begins with TLS although the server answers that it has none. The server hangs up, or
// answers nonsense, and the error names neither. Healed by recognising those errors.
// To be sent upstream: upstream/tls-refusals.patch.

/** What libpq says then. */
export const TLS_UNSUPPORTED = 'server does not support SSL, but SSL was required'

/** Whether a connection failed because the server has no TLS. */
export function isTlsUnsupported(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = 'code' in error ? String(error.code) : ''
  return /before secure TLS connection/.test(error.message) || /^(EPROTO|ERR_SSL_)/.test(code)
}

// Fault of postgres.js (3.0.0 to 3.4.9): the driver starts TLS although the server answered that it does not support
// TLS. The server closes the connection or sends plain data, and the error does not mention TLS. Workaround: those
// errors are recognized. Patch for upstream: upstream/tls-refusals.patch.

/** libpq's message for a server without TLS. */
export const TLS_UNSUPPORTED = 'server does not support SSL, but SSL was required'

/** Whether a connection failed because the server has no TLS. */
export function isTlsUnsupported(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = 'code' in error ? String(error.code) : ''
  return /before secure TLS connection/.test(error.message) || /^(EPROTO|ERR_SSL_)/.test(code)
}

// Classifies failed attempts at receivers. The texts are for tenants and reveal nothing about the internal network.
import { AddressRefused, AnswerTooLong } from './connect.ts'

/** The messages for tenants, by stored error. */
export const RECEIVER_ERROR_TEXTS = {
  address_refused: 'the address does not resolve or is not public',
  connect_failed: 'no connection could be made',
  tls_failed: 'the TLS handshake failed, or the certificate is not valid for this name',
  timeout: 'no answer in time',
  connection_lost: 'the connection was lost before an answer came',
  bad_answer: 'the answer is not valid HTTP/1.1, or is too long',
  not_sent: 'not sent',
  abandoned: 'sent, but the answer was not awaited',
} as const

export type ReceiverError = keyof typeof RECEIVER_ERROR_TEXTS

/** System errors before the TLS handshake. */
const NOT_CONNECTED = /^(?:E[A-Z]+|UND_ERR_CONNECT_TIMEOUT)$/
const IN_TLS = new Set(['EPROTO', 'ECONNRESET', 'EPIPE'])
const CERTIFICATE = /^(?:CERT_|DEPTH_|SELF_SIGNED_|UNABLE_TO_|ERR_TLS_CERT_|HOSTNAME_MISMATCH)/
/** The client was closed. */
const CLOSED = new Set(['UND_ERR_CLOSED', 'UND_ERR_DESTROYED'])
const UNREADABLE = new Set(['HTTPParserError', 'HeadersOverflowError'])
/** Errors of undici: an unrequested protocol upgrade, or bytes without a request. */
const NO_ANSWER = new Set(['bad response', 'bad upgrade'])

/**
 * The failure of an attempt. `sent`: whether any byte of the request was sent. `code`: the problem of the certificate,
 * if it is the cause.
 */
export function failureOf(
  error: unknown,
  { sent, protocol }: { sent: boolean; protocol: string },
): { error: ReceiverError; code?: string } {
  if (error instanceof AddressRefused) return { error: 'address_refused' }
  if (error instanceof AnswerTooLong) return { error: 'bad_answer' }
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (CLOSED.has(code)) return { error: sent ? 'abandoned' : 'not_sent' }
  if (error instanceof Error && (UNREADABLE.has(error.name) || NO_ANSWER.has(error.message)))
    return { error: 'bad_answer' }
  if (sent) return { error: 'connection_lost' }
  if (protocol !== 'https:' || (NOT_CONNECTED.test(code) && !IN_TLS.has(code)))
    return { error: 'connect_failed' }
  return CERTIFICATE.test(code) ? { error: 'tls_failed', code } : { error: 'tls_failed' }
}

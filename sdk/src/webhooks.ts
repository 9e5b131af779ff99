// Verifies webhook signatures.
import { SluiceSignatureError } from './errors.ts'
import type { WebhookEvent } from './generated/events.ts'

/** Headers of `fetch`, Node, Express and others. Names are case-insensitive. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>

/** Maximum difference between the timestamp and now, in either direction. */
const TOLERANCE_S = 300
const MIN_KEY_BYTES = 24
/** Version 1: an HMAC of 32 bytes in base64. */
const SIGNATURE = /^v1,[A-Za-z0-9+/]{43}=$/
/**
 * The maximum number of signatures that are compared: more than the number of secrets that an endpoint can have at the
 * same time.
 */
const MAX_SIGNATURES = 20

/**
 * Verifies a webhook and returns its event. `payload` is the raw body, before any parsing. `secret` is the endpoint's
 * secret, `whsec_...`, or several of which one must match. Throws a {@link SluiceSignatureError} if the signature is
 * invalid or the timestamp is more than 300 s off.
 */
export async function verifyWebhook(
  payload: string | Uint8Array | ArrayBuffer,
  headers: WebhookHeaders,
  secret: string | readonly string[],
): Promise<WebhookEvent> {
  const [id, timestamp, signature] = ['id', 'timestamp', 'signature'].map((name) =>
    headerOf(headers, `webhook-${name}`),
  ) as [string, string, string]
  if (id === '' || signature === '' || !/^\d{1,12}$/.test(timestamp))
    throw signatureError('The webhook has no signature')
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_S)
    throw signatureError('The timestamp of the webhook is more than 300 s from now')
  const body = typeof payload === 'string' ? new TextEncoder().encode(payload) : new Uint8Array(payload)
  const head = new TextEncoder().encode(`${id}.${timestamp}.`)
  const signed_content = new Uint8Array(head.length + body.length)
  signed_content.set(head)
  signed_content.set(body, head.length)

  const keys = await Promise.all([secret].flat().map(keyOf))
  // One HMAC for each secret, whatever the number of signatures in the request.
  const expected = await Promise.all(keys.map((key) => crypto.subtle.sign('HMAC', key, signed_content)))
  const signatures = signature
    .split(' ')
    .filter((each) => SIGNATURE.test(each))
    .slice(0, MAX_SIGNATURES)
    .map((each) => decodeBase64(each.slice('v1,'.length)))
  if (!expected.some((computed) => signatures.some((each) => isEqual(new Uint8Array(computed), each))))
    throw signatureError('The signature does not match')
  return JSON.parse(new TextDecoder().decode(body)) as WebhookEvent
}

/** Compares in constant time. */
function isEqual(one: Uint8Array, other: Uint8Array): boolean {
  return (
    one.length === other.length && one.reduce((differs, byte, at) => differs | (byte ^ other[at]!), 0) === 0
  )
}

async function keyOf(secret: string): Promise<CryptoKey> {
  const bytes = decodeBase64(secret.replace(/^whsec_/, ''))
  if (bytes.length < MIN_KEY_BYTES) throw signatureError('The secret of the endpoint is missing or invalid')
  return await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
}

/** Empty if the text is not base64. */
function decodeBase64(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))
  } catch {
    return new Uint8Array()
  }
}

function headerOf(headers: WebhookHeaders, name: string): string {
  if (typeof headers.get === 'function') return (headers as Headers).get(name) ?? ''
  const found = Object.entries(headers).find(([each]) => each.toLowerCase() === name)
  // The signatures may be split over several headers.
  return found?.[1] === undefined ? '' : [found[1]].flat().join(' ')
}

function signatureError(message: string): SluiceSignatureError {
  return new SluiceSignatureError({ code: 'invalid_signature', message })
}

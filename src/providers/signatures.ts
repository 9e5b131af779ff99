// Verifies the signatures of webhooks.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { standardDigest, webhookKey } from '#core/standard-webhooks.ts'

const TOLERANCE_S = 300

export type SignatureVerdict = 'valid' | 'malformed' | 'stale' | 'mismatch'

/**
 * Checks a `Stripe-Signature` header without the body. Undefined if the signature may be valid. `now_s`: unix seconds;
 * the timestamp may differ by 300 s. Never throws.
 */
export function checkStripeHeader(
  header: string | undefined,
  now_s: number,
): 'malformed' | 'stale' | undefined {
  const parsed = parseHeader(header)
  if (!parsed) return 'malformed'
  return Math.abs(now_s - Number(parsed.t)) <= TOLERANCE_S ? undefined : 'stale'
}

/**
 * Verifies a `Stripe-Signature` header over the raw body. `secrets`: complete `whsec_...` strings, several during a
 * rotation. `now_s`: unix seconds. The result `stale`: a genuine signature with an old timestamp. Never throws.
 */
export function verifyStripe(
  raw: Buffer,
  header: string | undefined,
  secrets: string[],
  now_s: number,
): SignatureVerdict {
  const parsed = parseHeader(header)
  if (!parsed) return 'malformed'
  const is_genuine = secrets.some((secret) => {
    // An empty secret is skipped, because anyone can sign with it. A stray comma in the configuration creates one.
    if (secret === '') return false
    const expected = createHmac('sha256', secret).update(`${parsed.t}.`).update(raw).digest()
    return parsed.signatures.some(
      (signature) => signature.length === expected.length && timingSafeEqual(signature, expected),
    )
  })
  if (!is_genuine) return 'mismatch'
  return Math.abs(now_s - Number(parsed.t)) <= TOLERANCE_S ? 'valid' : 'stale'
}

/** Whether an `X-Twilio-Signature` header has the form of a signature. */
export function isTwilioSignature(header: string | undefined): header is string {
  return header !== undefined && /^[A-Za-z0-9+/]{27}=$/.test(header)
}

/**
 * Verifies an `X-Twilio-Signature` header. `url`: the configured callback URL with its query; the signature may be over
 * the URL with or without the default port, as in Twilio's own libraries. `parameters`: the form in the body. `tokens`:
 * several during a rotation. Never throws.
 */
export function verifyTwilio(
  url: string,
  parameters: URLSearchParams,
  header: string | undefined,
  tokens: readonly string[],
): SignatureVerdict {
  if (!isTwilioSignature(header)) return 'malformed'
  const signature = Buffer.from(header, 'base64')
  // A pair of name and value that occurs several times counts once.
  const form = Array.from(parameters)
    .toSorted(
      ([name, value], [other, other_value]) =>
        compareCodeUnits(name, other) || compareCodeUnits(value, other_value),
    )
    .filter(([name, value], nth, all) => name !== all[nth - 1]?.[0] || value !== all[nth - 1]?.[1])
    .flat()
    .join('')
  const is_genuine = tokens.some((token) => {
    if (token === '') return false
    return withAndWithoutPort(url).some((each) => {
      const expected = createHmac('sha1', token).update(each).update(form).digest()
      return timingSafeEqual(signature, expected)
    })
  })
  return is_genuine ? 'valid' : 'mismatch'
}

/** Compares texts by code units, which is Twilio's order. */
function compareCodeUnits(one: string, other: string): number {
  return one < other ? -1 : Number(one > other)
}

function withAndWithoutPort(url: string): string[] {
  const [, scheme, host, port, path] = /^(https?:\/\/)([^/?#]*?)(:\d+)?([/?#].*)?$/is.exec(url) ?? []
  if (scheme === undefined || host === undefined) return [url]
  const default_port = scheme.toLowerCase() === 'https://' ? ':443' : ':80'
  return [url, scheme + host + (port === undefined ? default_port : '') + (path ?? '')]
}

/**
 * Parses a `Stripe-Signature` header. It must have one `t` and at least one `v1`; other schemes (`v0`) are ignored.
 * Null if malformed.
 */
function parseHeader(header: string | undefined): { t: string; signatures: Buffer[] } | null {
  let t: string | null = null
  const signatures: Buffer[] = []
  for (const pair of header?.split(',') ?? []) {
    const [, name, value] = /^(\w+)=(.*)$/s.exec(pair) ?? []
    if (name === undefined || value === undefined) return null
    if (name === 't') {
      if (t !== null || !/^\d{1,12}$/.test(value)) return null
      t = value
    }
    // Accepts only complete digests: `Buffer.from` stops without an error at the first character that is not hex.
    if (name === 'v1')
      signatures.push(/^[0-9a-f]{64}$/i.test(value) ? Buffer.from(value, 'hex') : Buffer.alloc(0))
  }
  return t !== null && signatures.length > 0 ? { t, signatures } : null
}

/** The signature headers of Standard Webhooks 1.0. */
export type StandardHeaders = {
  id: string | undefined
  timestamp: string | undefined
  signature: string | undefined
}

/**
 * Verifies the headers of a Standard Webhook over the raw body. `secrets`: complete `whsec_...` strings, several during
 * a rotation. `now_s`: unix seconds; the timestamp may differ by 300 s. The result `stale`: a genuine signature with an
 * old timestamp.
 */
export function verifyStandard(
  raw: Buffer,
  { id, timestamp, signature }: StandardHeaders,
  secrets: string[],
  now_s: number,
): SignatureVerdict {
  if (id === undefined || timestamp === undefined || signature === undefined) return 'malformed'
  if (!/^[\x21-\x7e]{1,255}$/.test(id) || !/^\d{1,12}$/.test(timestamp)) return 'malformed'
  const signatures = signature
    .split(' ')
    .flatMap((part) => (/^v1,[A-Za-z0-9+/]{43}=$/.test(part) ? [Buffer.from(part.slice(3), 'base64')] : []))
  if (signatures.length === 0) return 'malformed'
  const is_genuine = secrets.some((secret) => {
    const key = webhookKey(secret)
    // An empty key is skipped, because anyone can sign with it.
    if (key.length === 0) return false
    const expected = standardDigest(key, id, timestamp, raw)
    return signatures.some((each) => timingSafeEqual(each, expected))
  })
  if (!is_genuine) return 'mismatch'
  return Math.abs(now_s - Number(timestamp)) <= TOLERANCE_S ? 'valid' : 'stale'
}

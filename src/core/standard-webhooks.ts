// Standard Webhooks 1.0: the secrets, and the signature over id, time and body.
import { createHmac, randomBytes } from 'node:crypto'

const PREFIX = 'whsec_'
const SECRET_BYTES = { min: 24, new: 32, max: 64 } as const

/** The headers of a signed webhook. */
export type StandardSignatureHeaders = {
  'webhook-id': string
  'webhook-timestamp': string
  'webhook-signature': string
}

/** A new secret: `whsec_` and the base64 of 32 random bytes. */
export function newWebhookSecret(): string {
  return webhookSecretOf(randomBytes(SECRET_BYTES.new))
}

/** Encodes a key of 24 to 64 bytes as a secret. */
export function webhookSecretOf(key: Buffer): string {
  return `${PREFIX}${key.toString('base64')}`
}

/** Whether a text is `whsec_` and the base64 of 24 to 64 bytes. */
export function isWebhookSecret(secret: string): boolean {
  const key = webhookKey(secret)
  // Buffer.from skips invalid base64, so the key is encoded again and compared with the secret.
  return key.length >= SECRET_BYTES.min && key.length <= SECRET_BYTES.max && webhookSecretOf(key) === secret
}

/** The key of a secret; the prefix may be missing. */
export function webhookKey(secret: string): Buffer {
  return Buffer.from(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret, 'base64')
}

/**
 * The headers of a webhook. `id`: the same for each attempt. `timestamp_s`: Unix seconds of this attempt. `body`: the
 * exact body. `secrets`: complete `whsec_...` strings; during a rotation all of them sign. Throws if there is no
 * secret or one is invalid.
 */
export function signStandardWebhook(
  { id, timestamp_s, body }: { id: string; timestamp_s: number; body: string | Buffer },
  secrets: readonly string[],
): StandardSignatureHeaders {
  // The error must not show the secret.
  if (secrets.length === 0 || !secrets.every(isWebhookSecret))
    throw new Error(
      'The signing secret is missing or invalid: it must be whsec_ and 24 to 64 bytes in base64',
    )
  const timestamp = String(Math.floor(timestamp_s))
  const signatures = secrets.map(
    (secret) => `v1,${standardDigest(webhookKey(secret), id, timestamp, body).toString('base64')}`,
  )
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') }
}

/** The HMAC-SHA256 of `<id>.<timestamp>.<body>`. */
export function standardDigest(key: Buffer, id: string, timestamp: string, body: string | Buffer): Buffer {
  return createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest()
}

// Secrets at rest: AES-256-GCM with the key of the environment.
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'

export type Vault = { seal(text: string): string; open(sealed: string): string }

/** Seals and opens short texts. `key`: 32 bytes, base64. A sealed text names its key, so that keys can be rotated. */
export function createVault(key: string): Vault {
  const bytes = Buffer.from(key, 'base64')
  if (bytes.length !== 32) throw new Error('ENCRYPTION_KEY must be 32 bytes, base64')
  const name = createHash('sha256').update(bytes).digest('hex').slice(0, 8)
  return {
    seal(text) {
      const nonce = randomBytes(12)
      const cipher = createCipheriv('aes-256-gcm', bytes, nonce)
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return `${name}.${Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64')}`
    },
    open(sealed) {
      const [sealedBy, body] = sealed.split('.')
      if (sealedBy !== name || body === undefined)
        throw new Error(`a secret was sealed with another key: ${sealedBy}`)
      const raw = Buffer.from(body, 'base64')
      const decipher = createDecipheriv('aes-256-gcm', bytes, raw.subarray(0, 12))
      decipher.setAuthTag(raw.subarray(12, 28))
      return Buffer.concat([decipher.update(raw.subarray(28)), decipher.final()]).toString('utf8')
    },
  }
}

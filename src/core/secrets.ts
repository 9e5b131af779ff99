// Secrets at rest: AES-256-GCM with the keys of the environment.
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'

export type Vault = {
  seal(text: string): string
  /** Throws `UnknownKeyError` when it was sealed with a key that is not here, and when it was tampered with. */
  open(sealed: string): string
}

/** A key was taken out of ENCRYPTION_KEY before everything sealed with it had been read for the last time. */
export class UnknownKeyError extends Error {}

const NONCE_BYTES = 12
const TAG_BYTES = 16

/**
 * Seals and opens short texts. `keys`: of 32 bytes, base64, comma-separated, the newest first: that one seals, all open. A
 * sealed text names its key, so a new one is put in front, and an old one taken away when nothing needs it any more.
 */
export function createVault(keys: string): Vault {
  const byName = new Map(keys.split(',').map((key) => named(key.trim())))
  const [newest] = byName.entries()
  return {
    seal(text) {
      const [name, key] = newest!
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', key, nonce)
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return `${name}.${Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64')}`
    },
    open(sealed) {
      const [name = '', body = ''] = sealed.split('.')
      const key = byName.get(name)
      if (key === undefined)
        throw new UnknownKeyError(`sealed with the key ${name}, which is not in ENCRYPTION_KEY`)
      const raw = Buffer.from(body, 'base64')
      const decipher = createDecipheriv('aes-256-gcm', key, raw.subarray(0, NONCE_BYTES), {
        authTagLength: TAG_BYTES,
      })
      decipher.setAuthTag(raw.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
      return Buffer.concat([
        decipher.update(raw.subarray(NONCE_BYTES + TAG_BYTES)),
        decipher.final(),
      ]).toString('utf8')
    },
  }
}

function named(key: string): [name: string, bytes: Buffer] {
  const bytes = Buffer.from(key, 'base64')
  if (bytes.length !== 32) throw new Error('ENCRYPTION_KEY must be 32 bytes, base64')
  return [createHash('sha256').update(bytes).digest('hex').slice(0, 8), bytes]
}

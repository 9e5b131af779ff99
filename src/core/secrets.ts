// Encrypts stored secrets: AES-256-GCM with the keys of ENCRYPTION_KEY.
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { deriveFrom } from './derived.ts'

/**
 * The row and column to which a sealed text is bound, so that it cannot be opened after it was copied into another
 * row.
 */
export type SealingContext = { tenant_id: string; table: string; row: string; column: string }

export type Vault = {
  seal(text: string, context: SealingContext): string
  /**
   * Opens a sealed text. Throws `SealError` if its key is not configured, if the text was changed, or if it was
   * sealed for another context.
   */
  open(sealed: string, context: SealingContext): string
}

/** A sealed text cannot be opened. The message names the reason and reveals nothing of the text. */
export class SealError extends Error {}

/** The format version, with which sealed texts begin. */
const FORMAT = '2'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/**
 * Seals and opens short texts. `keys`: 32 bytes each, base64, comma-separated, the newest first; the newest seals,
 * all open. A sealed text names its key. To rotate, add a new key at the end, then put it in front, and remove an old
 * key when no sealed text names it any more.
 */
export function createVault(keys: string): Vault {
  const byName = new Map(keys.split(',').map((key) => namedKey(key.trim())))
  const [newest] = byName.entries()
  return {
    seal(text, context) {
      const [name, key] = newest!
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(additionalData(context))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return `${FORMAT}.${name}.${Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64')}`
    },
    open(sealed, context) {
      const [format, name = '', body = ''] = sealed.split('.')
      if (format !== FORMAT) throw new SealError('the stored value is not a sealed text')
      const key = byName.get(name)
      if (key === undefined)
        throw new SealError(
          `the value is sealed with the key ${name}, which is not in ENCRYPTION_KEY: add the key`,
        )
      const raw = Buffer.from(body, 'base64')
      try {
        const decipher = createDecipheriv('aes-256-gcm', key, raw.subarray(0, NONCE_BYTES), {
          authTagLength: TAG_BYTES,
        })
        decipher.setAAD(additionalData(context))
        decipher.setAuthTag(raw.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
        const text = decipher.update(raw.subarray(NONCE_BYTES + TAG_BYTES))
        return Buffer.concat([text, decipher.final()]).toString('utf8')
      } catch (cause) {
        throw new SealError('the sealed text was changed, or belongs to another row or column', { cause })
      }
    },
  }
}

/** A vault whose keys may change: `currentKeys` returns the present ones. */
export function createCurrentVault(currentKeys: () => string): Vault {
  const currentVault = deriveFrom(currentKeys, createVault)
  // An invalid key is refused now.
  currentVault()
  return {
    seal: (text, context) => currentVault().seal(text, context),
    open: (sealed, context) => currentVault().open(sealed, context),
  }
}

function additionalData({ tenant_id, table, row, column }: SealingContext): Buffer {
  return Buffer.from(JSON.stringify([tenant_id, table, row, column]))
}

function namedKey(key: string): [name: string, bytes: Buffer] {
  const bytes = Buffer.from(key, 'base64')
  if (bytes.length !== 32) throw new Error('ENCRYPTION_KEY must be 32 bytes in base64')
  return [createHash('sha256').update(bytes).digest('hex').slice(0, 8), bytes]
}

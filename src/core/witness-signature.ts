// Signs the texts that are kept outside of the database, so that whoever can write to their place cannot make them up.
import { createHmac, timingSafeEqual } from 'node:crypto'

const SIGNATURE = /^(.*) ([0-9a-f]{64})$/s

/** The text with its signature, which covers `name` too. */
export function signWitness(key: Buffer, name: string, text: string): string {
  return `${text} ${signatureOf(key, name, text).toString('hex')}`
}

/** The text without its signature; null if it has none. Throws if the signature is wrong. */
export function verifyWitness(key: Buffer, name: string, signed: string): string | null {
  const [, text, signature] = SIGNATURE.exec(signed) ?? []
  if (text === undefined || signature === undefined) return null
  if (timingSafeEqual(Buffer.from(signature, 'hex'), signatureOf(key, name, text))) return text
  throw new Error(
    'its text was signed with another key: somebody has changed it, or the database is older than its key. Find out which, and then delete the text',
  )
}

function signatureOf(key: Buffer, name: string, text: string): Buffer {
  return createHmac('sha256', key).update(`${name} ${text}`).digest()
}

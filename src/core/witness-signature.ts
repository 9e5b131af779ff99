// Signs the texts that witnesses remember, so that whoever can write to a witness cannot make them up.
import { createHmac, timingSafeEqual } from 'node:crypto'

const SIGNATURE = /^(.*) ([0-9a-f]{64})$/s

/** The text with its signature, which covers `name` too. */
export function signWitness(key: Buffer, name: string, text: string): string {
  return `${text} ${signatureOf(key, name, text).toString('hex')}`
}

/** The text without its signature; null if the signature is missing or wrong. */
export function verifyWitness(key: Buffer, name: string, signed: string): string | null {
  const [, text, signature] = SIGNATURE.exec(signed) ?? []
  if (text === undefined || signature === undefined) return null
  return timingSafeEqual(Buffer.from(signature, 'hex'), signatureOf(key, name, text)) ? text : null
}

function signatureOf(key: Buffer, name: string, text: string): Buffer {
  return createHmac('sha256', key).update(`${name} ${text}`).digest()
}

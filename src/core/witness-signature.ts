// Signs the texts that witnesses remember, so that whoever can write to a witness cannot make them up.
import assert from 'node:assert/strict'
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { list } from './config/list.ts'

const SIGNATURE = /^(.*) ([0-9a-f]{64})$/s

let derived: { encryption_keys: string; name: string; keys: Buffer[] } | undefined

/**
 * The keys for `name`, derived from those of ENCRYPTION_KEY: the newest, which is first, signs, and all verify. The
 * last ones are kept, because they are used every second.
 */
export function witnessKeys(encryption_keys: string, name: string): Buffer[] {
  if (derived?.encryption_keys === encryption_keys && derived.name === name) return derived.keys
  const keys = list(encryption_keys).map((key) =>
    Buffer.from(hkdfSync('sha256', key, '', `witness ${name}`, 32)),
  )
  derived = { encryption_keys, name, keys }
  return keys
}

/** The text with its signature, which covers `name` too. */
export function signWitness([newest]: readonly Buffer[], name: string, text: string): string {
  assert(newest !== undefined, 'there is a key')
  return `${text} ${signatureOf(newest, name, text).toString('hex')}`
}

/** The text without its signature; null if the signature is missing or wrong. */
export function verifyWitness(keys: readonly Buffer[], name: string, signed: string): string | null {
  const [, text, signature] = SIGNATURE.exec(signed) ?? []
  if (text === undefined || signature === undefined) return null
  const claimed = Buffer.from(signature, 'hex')
  return keys.some((key) => timingSafeEqual(claimed, signatureOf(key, name, text))) ? text : null
}

/** The text without its signature, which may be wrong; null if it has none. */
export function unverifiedText(signed: string): string | null {
  return SIGNATURE.exec(signed)?.[1] ?? null
}

function signatureOf(key: Buffer, name: string, text: string): Buffer {
  return createHmac('sha256', key).update(`${name} ${text}`).digest()
}

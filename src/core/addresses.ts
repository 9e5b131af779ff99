// Email addresses and phone numbers as they are stored: sealed to be shown again, hashed to be searched.
import { createHmac } from 'node:crypto'
import { domainToASCII } from 'node:url'

export const CHANNELS = ['email', 'sms'] as const
export type Channel = (typeof CHANNELS)[number]

/** What a hash is for: an email address or phone number, or the fingerprint of a request. */
type HashPurpose = Channel | 'request'

/**
 * The hash of an email address, phone number or fingerprint, keyed with ADDRESS_KEY. All notations of an address have
 * the same hash. The hashes of a text for two purposes differ.
 */
export type AddressHash = (purpose: HashPurpose, text: string) => string

/** `key`: ADDRESS_KEY. Throws if the key is not 32 bytes in base64. */
export function createAddressHash(key: string): AddressHash {
  const bytes = Buffer.from(key, 'base64')
  if (bytes.length !== 32) throw new Error('ADDRESS_KEY must be 32 bytes in base64')
  return (purpose, text) =>
    createHmac('sha256', bytes)
      .update(`${purpose}:${purpose === 'request' ? text : canonical(purpose, text)}`)
      .digest('base64url')
      .slice(0, 32)
}

/**
 * The notation that is hashed. For an email address: without the name, in lower case, the domain in its DNS form. So
 * `Ada <ADA@Example.com>` and `ada@example.com` are one address. A phone number is not changed.
 */
function canonical(channel: Channel, address: string): string {
  if (channel === 'sms') return address
  const bare = bareAddress(address)
  const at = bare.lastIndexOf('@')
  return `${bare.slice(0, at).toLowerCase()}@${asciiDomain(bare.slice(at + 1))}`
}

/** Whether two addresses, with or without names, belong to one mailbox. */
export function isSameMailAddress(one: string, other: string): boolean {
  return canonical('email', one) === canonical('email', other)
}

const ASCII = /^[\x21-\x7e]*$/

/** A domain in its DNS form (punycode), in lower case; empty if it is not valid. */
export function asciiDomain(domain: string): string {
  // ASCII is not passed to `domainToASCII`, which parses it as the host of a URL: `0x7f.1` would become an IP address.
  return ASCII.test(domain) ? domain.toLowerCase() : domainToASCII(domain)
}

/** The address without its name: `Ada <ada@example.com>` is `ada@example.com`. */
export function bareAddress(address: string): string {
  return /<([^<>]*)>\s*$/.exec(address)?.[1] ?? address.trim()
}

const SMS_SENDER =
  /^(?:\+[1-9]\d{6,14}|MG[0-9a-f]{32}|(?=.*[A-Za-z])[A-Za-z0-9](?:[A-Za-z0-9 &_-]{0,9}[A-Za-z0-9])?)$/

/**
 * Whether a text can be the sender of an SMS: a phone number, a messaging service, or a name of up to 11 letters,
 * digits, blanks and `&_-`.
 */
export function isSmsSender(text: string): boolean {
  return SMS_SENDER.test(text)
}

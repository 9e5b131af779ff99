// Whom the server is told that an email is from and for, which its headers need not say.
import { domainToASCII } from 'node:url'
import { bareAddress } from '#core/addresses.ts'
import type { OutgoingEmail } from '../email.ts'

export type Envelope = {
  from: string
  /** As the server is told. */
  to: string[]
  size: number
  /** By how the server is told them, the recipients as they were given. */
  given: Map<string, string>
}

export function envelopeOf({ from, recipients }: OutgoingEmail, size: number): Envelope {
  const given = new Map(recipients.map((recipient) => [asciiDomain(bareAddress(recipient)), recipient]))
  return { from: asciiDomain(bareAddress(from)), to: [...given.keys()], size, given }
}

/** Many servers know domains only as the DNS writes them. */
export function asciiDomain(address: string): string {
  const at = address.lastIndexOf('@')
  const domain = address.slice(at + 1)
  return /[^\0-\x7f]/.test(domain) ? `${address.slice(0, at)}@${domainToASCII(domain) || domain}` : address
}

// Whom the server is told that an email is from and for, which its headers need not say.
import { isAscii } from 'node:buffer'
import { asciiDomain, bareAddress } from '#core/addresses.ts'
import type { OutgoingEmail } from '../email.ts'

export type Envelope = {
  from: string
  /** As the server is told. */
  to: string[]
  size: number
  /** A server may refuse bytes above 127 that were not announced (RFC 6152). */
  use8BitMime: boolean
  /** By how the server is told them, the recipients as they were given. */
  original_recipients: Map<string, string>
}

export function envelopeOf({ from, recipients }: OutgoingEmail, message: Buffer): Envelope {
  const original_recipients = new Map(
    recipients.map((recipient) => [inAscii(bareAddress(recipient)), recipient]),
  )
  return {
    from: inAscii(bareAddress(from)),
    to: [...original_recipients.keys()],
    size: message.length,
    use8BitMime: !isAscii(message),
    original_recipients,
  }
}

/** Many servers know domains only as the DNS writes them. */
export function inAscii(address: string): string {
  const at = address.lastIndexOf('@')
  const domain = address.slice(at + 1)
  return `${address.slice(0, at)}@${asciiDomain(domain) || domain}`
}

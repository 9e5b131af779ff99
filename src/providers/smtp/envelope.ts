// The SMTP envelope: sender and recipients, independent of the headers.
import { isAscii } from 'node:buffer'
import { asciiDomain, bareAddress } from '#core/addresses.ts'
import type { OutgoingEmail } from '../email.ts'

export type Envelope = {
  from: string
  /** The recipients in the ASCII form that the server gets. */
  to: string[]
  size: number
  /** Whether the text has bytes above 127, which must be announced (RFC 6152). */
  use8BitMime: boolean
  /** The recipients as requested, by their ASCII form. */
  original_recipients: Map<string, string>
}

/** The envelope of a composed email. */
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

/** The address with its domain in ASCII form (IDNA), which many servers require. */
export function inAscii(address: string): string {
  const at = address.lastIndexOf('@')
  const domain = address.slice(at + 1)
  return `${address.slice(0, at)}@${asciiDomain(domain) || domain}`
}

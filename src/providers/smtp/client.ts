// Nodemailer over SMTP, with a pool of connections.
import assert from 'node:assert/strict'
import type { EmailProvider } from '../email.ts'
import type { EndedCall } from '../http.ts'

export type SmtpOptions = {
  /** `smtp://user:password@host:port`, or `smtps://`. */
  url: string
  connections: number
  /** Null: nothing is signed. */
  dkim: { domain: string; selector: string; private_key: string } | null
  onCall?: (call: EndedCall) => void
}

/** A pool of connections to one server. */
export function openSmtp(_options: SmtpOptions): EmailProvider {
  return { sendEmail: () => assert.fail('not built'), close: async () => {} }
}

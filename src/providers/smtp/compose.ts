// Composes emails with nodemailer: headers, MIME parts and DKIM signature.
import DKIM from 'nodemailer/lib/dkim'
import MailComposer from 'nodemailer/lib/mail-composer'
import { createPrivateKey } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { bareAddress } from '#core/addresses.ts'
import { ConfigError } from '#core/config.ts'
import { hasLongWord } from '#core/mail-address.ts'
import type { OutgoingEmail } from '../email.ts'
import { inAscii } from './envelope.ts'

export type Dkim = { domain: string; selector: string; private_key: string }

/** The maximum length of a word in a subject: a line has at most 998 bytes, with the name of the header. */
const MAX_WORD_LENGTH = 899

/** The headers that the signature covers, because a change in transit would alter the email. */
const SIGNED_HEADERS = [
  'From',
  'Reply-To',
  'Subject',
  'Date',
  'Message-ID',
  'To',
  'Cc',
  'MIME-Version',
  'Content-Type',
  'Content-Transfer-Encoding',
  'In-Reply-To',
  'References',
  'List-Unsubscribe',
  'List-Unsubscribe-Post',
].join(':')

/**
 * Composes emails, signed with this key; null: not signed. Throws ConfigError if the key is not a private RSA key, so
 * that no email is sent unsigned by mistake.
 */
export function createComposer(dkim: Dkim | null): (email: OutgoingEmail) => Promise<Buffer> {
  if (dkim === null) return compose
  if (!isRsaKey(dkim.private_key)) throw new ConfigError('DKIM_PRIVATE_KEY must be an RSA key in PEM format.')
  const signer = new DKIM({
    domainName: dkim.domain,
    keySelector: dkim.selector,
    privateKey: dkim.private_key,
    headerFieldNames: SIGNED_HEADERS,
  })
  return async (email) => await buffer(signer.sign(await compose(email)))
}

function isRsaKey(pem: string): boolean {
  try {
    return createPrivateKey(pem).asymmetricKeyType === 'rsa'
  } catch {
    return false
  }
}

async function compose(email: OutgoingEmail): Promise<Buffer> {
  const { message_id, subject, text, html, attachments, reply_to, headers, list_unsubscribe_url } = email
  const composer = new MailComposer({
    messageId: message_id,
    from: mailbox(email.from),
    to: email.to.map(mailbox),
    cc: email.cc.map(mailbox),
    ...(reply_to !== null && { replyTo: mailbox(reply_to) }),
    subject: foldable(subject),
    ...(text !== null && { text: withCrlf(text) }),
    ...(html !== null && { html: withCrlf(html) }),
    headers: [
      ...Object.entries(headers).map(([key, value]) => ({ key, value: withoutControls(value) })),
      ...unsubscribeHeaders(list_unsubscribe_url),
    ],
    attachments: attachments.map(({ filename, content_type, content }) => ({
      filename: withoutControls(filename),
      contentType: withoutControls(content_type),
      contentDisposition: 'attachment',
      content: isPlain(content_type) ? bufferWithCrlf(content) : content,
    })),
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return await composer.compile().build()
}

/** The headers for one-click unsubscribe (RFC 8058). */
function unsubscribeHeaders(url: string | null): { key: string; value: string }[] {
  if (url === null) return []
  return [
    { key: 'List-Unsubscribe', value: `<${withoutControls(url)}>` },
    { key: 'List-Unsubscribe-Post', value: 'List-Unsubscribe=One-Click' },
  ]
}

/** Splits an address into name and address, so that no character of the name can change the address. */
function mailbox(address: string): { name: string; address: string } {
  const bare = bareAddress(address)
  const name = address.trim() === bare ? '' : address.slice(0, address.lastIndexOf('<')).trim()
  const quoted = /^"(.*)"$/s.exec(name)?.[1]
  return {
    name: withoutControls(quoted?.replaceAll(/\\(.)/gs, '$1') ?? name),
    address: inAscii(withoutControls(bare)),
  }
}

/** Splits a word that is longer than a line into encoded words (RFC 2047), which mail programs join. */
function foldable(subject: string): string {
  if (!hasLongWord(subject, MAX_WORD_LENGTH)) return subject
  const parts = Array.from(subject.matchAll(/.{1,10}/gsu), ([part]) => Buffer.from(part).toString('base64'))
  return parts.map((part) => `=?UTF-8?B?${part}?=`).join(' ')
}

/** Removes line ends, so that a header value cannot start another header. */
function withoutControls(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ')
}

/** Whether nodemailer writes the attachment without base64, as it does for an embedded email. */
function isPlain(content_type: string): boolean {
  return /^message\//i.test(content_type)
}

function bufferWithCrlf(content: Buffer): Buffer {
  return Buffer.from(withCrlf(content.toString('latin1')), 'latin1')
}

/** Replaces bare CR and LF by CRLF: a mail server may change them, which would break the signature. */
function withCrlf(text: string): string {
  return text.replaceAll(/\r\n?|\n/g, '\r\n')
}

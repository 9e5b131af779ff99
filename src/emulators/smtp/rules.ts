// The rules of a strict server: size limits of RFC 5321 (section 4.5.3.1), the message format of RFC 5322, and
// extensions that a client must announce before it uses them (RFC 6152, RFC 6531).

/** An error of smtp-server. */
type SmtpRefusal = Error & { responseCode: number }

/** Maximum length of a command, including the line end (RFC 5321, 4.5.3.1.4). */
export const MAX_COMMAND_LENGTH = 512
/** Maximum length of a line of text, without the line end (RFC 5322, 2.1.1). */
const MAX_LINE_LENGTH = 998
/** Maximum number of recipients: the minimum that a server must accept (RFC 5321, 4.5.3.1.8). */
const MAX_RECIPIENTS = 100
const MAX_LOCAL_PART_LENGTH = 64
const MAX_DOMAIN_LENGTH = 255
/** Maximum length of a path, including the angle brackets. */
const MAX_PATH_LENGTH = 256

/** Headers that must occur exactly once, and headers that may occur at most once (RFC 5322, 3.6). */
const ONCE = ['date', 'from']
const AT_MOST_ONCE = [
  ...ONCE,
  ...'sender reply-to to cc bcc message-id in-reply-to references subject mime-version content-type'.split(
    ' ',
  ),
]

function refusal(responseCode: number, text: string): SmtpRefusal {
  return Object.assign(new Error(text), { responseCode })
}

/** Why a mailbox in a command is refused, or null. `utf8`: the client has announced SMTPUTF8. */
export function problemOfMailbox(address: string, utf8: boolean): SmtpRefusal | null {
  const at = address.lastIndexOf('@')
  const [local, domain] = [address.slice(0, at), address.slice(at + 1)]
  if (at < 1 || domain === '') return refusal(501, 'The address is not a mailbox')
  if (!utf8 && /[^\x20-\x7e]/.test(address))
    return refusal(553, 'The address is not ASCII: it needs SMTPUTF8')
  const bytes = (text: string) => Buffer.byteLength(text)
  if (bytes(local) > MAX_LOCAL_PART_LENGTH)
    return refusal(501, `The local part is longer than ${MAX_LOCAL_PART_LENGTH} octets`)
  if (bytes(domain) > MAX_DOMAIN_LENGTH || bytes(address) > MAX_PATH_LENGTH - 2)
    return refusal(501, `The path is longer than ${MAX_PATH_LENGTH} octets`)
  return null
}

/** Why one more recipient is refused, or null. `accepted`: number of accepted recipients. */
export function problemOfRecipients(accepted: number): SmtpRefusal | null {
  return accepted < MAX_RECIPIENTS ? null : refusal(452, 'Too many recipients')
}

/** Why a text is refused, or null. */
export function problemOfText(
  raw: Buffer,
  { bodyType, smtpUtf8 }: { bodyType?: string | undefined; smtpUtf8?: boolean | undefined },
): SmtpRefusal | null {
  const text = raw.toString('latin1')
  const lines = text.split('\r\n')
  if (lines.some((line) => line.length > MAX_LINE_LENGTH))
    return refusal(554, `A line is longer than ${MAX_LINE_LENGTH} octets`)
  if (/\r(?!\n)|(?<!\r)\n/.test(text)) return refusal(554, 'The text has a bare CR or LF')
  if (text.includes('\0')) return refusal(554, 'The text has a NUL character')
  const end = text.indexOf('\r\n\r\n')
  const head = end < 0 ? text : text.slice(0, end)
  if (/[\x80-\xff]/.test(head) && smtpUtf8 !== true)
    return refusal(554, 'The headers are not ASCII: they need SMTPUTF8')
  if (/[\x80-\xff]/.test(text.slice(head.length)) && bodyType !== '8bitmime')
    return refusal(554, 'The text has 8-bit characters: it needs BODY=8BITMIME')
  return problemOfHead(head)
}

function problemOfHead(head: string): SmtpRefusal | null {
  const fields = head.replaceAll(/\r\n[ \t]+/g, ' ').split('\r\n')
  const invalid = fields.find((field) => !/^[\x21-\x39\x3b-\x7e]+[ \t]*:/.test(field))
  if (invalid !== undefined) return refusal(554, 'A line of the headers is not a header')
  const names = fields.map((field) => field.slice(0, field.indexOf(':')).trim().toLowerCase())
  const count = (name: string) => names.filter((each) => each === name).length
  const missing = ONCE.find((name) => count(name) === 0)
  if (missing !== undefined) return refusal(554, `The header ${missing} is missing`)
  const repeated = AT_MOST_ONCE.find((name) => count(name) > 1)
  return repeated === undefined ? null : refusal(554, `The header ${repeated} occurs more than once`)
}

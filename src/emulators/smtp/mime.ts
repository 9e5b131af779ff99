// Parses an email (MIME): headers, texts and attachments.

export type ReadEmail = {
  /** Decoded values by names in lower case; the values of a repeated header on separate lines. */
  headers: Record<string, string>
  text: string | null
  html: string | null
  attachments: ReadAttachment[]
}
type ReadAttachment = { filename: string; content_type: string; content: Buffer }

type Part = { headers: Record<string, string>; raw_headers: Record<string, string>; body: string }
type Parameters = { value: string; parameters: Record<string, string> }

/** Limit for nested multiparts. */
const MAX_DEPTH = 10

/** Parses an email. Malformed parts are read as text. */
export function readEmail(raw: Buffer): ReadEmail {
  const root = partOf(raw.toString('latin1'))
  const email: ReadEmail = { headers: root.headers, text: null, html: null, attachments: [] }
  addPart(email, root, 0)
  return email
}

/** Parses only the headers. */
export function readHeaders(raw: Buffer): Record<string, string> {
  const end = raw.indexOf('\r\n\r\n')
  return partOf(raw.toString('latin1', 0, end < 0 ? raw.length : end)).headers
}

function addPart(email: ReadEmail, part: Part, depth: number): void {
  const type = parametersOf(part.raw_headers['content-type'] ?? 'text/plain')
  const kind = type.value.toLowerCase()
  const boundary = type.parameters['boundary']
  if (kind.startsWith('multipart/') && boundary !== undefined) {
    if (depth < MAX_DEPTH)
      for (const each of partsOf(part.body, boundary)) addPart(email, partOf(each), depth + 1)
    return
  }
  const disposition = parametersOf(part.raw_headers['content-disposition'] ?? '')
  const name = disposition.parameters['filename'] ?? type.parameters['name']
  const content = decoded(part.body, part.raw_headers['content-transfer-encoding'] ?? '')
  const is_attached = disposition.value.toLowerCase() === 'attachment' || name !== undefined
  const body_field = is_attached
    ? null
    : kind === 'text/html'
      ? 'html'
      : kind === 'text/plain'
        ? 'text'
        : null
  if (body_field !== null && email[body_field] === null)
    email[body_field] = inCharset(content, type.parameters['charset'])
  else
    email.attachments.push({
      filename: name === undefined ? `part-${email.attachments.length + 1}` : decodeEncodedWords(name),
      content_type: kind,
      content,
    })
}

function partOf(bytes: string): Part {
  const empty = /^\r?\n/.exec(bytes)
  const end = empty === null ? /\r?\n\r?\n/.exec(bytes) : null
  const head = empty !== null ? '' : end === null ? bytes : bytes.slice(0, end.index)
  const body =
    empty !== null ? bytes.slice(empty[0].length) : end === null ? '' : bytes.slice(end.index + end[0].length)
  const headers: Record<string, string> = {}
  const raw_headers: Record<string, string> = {}
  for (const line of head.replaceAll(/\r?\n[ \t]+/g, ' ').split(/\r?\n/)) {
    const colon = line.indexOf(':')
    if (colon <= 0) continue
    const name = line.slice(0, colon).trim().toLowerCase()
    const value = line.slice(colon + 1).trim()
    raw_headers[name] ??= value
    const decoded_value = decodeEncodedWords(utf8(value))
    headers[name] = Object.hasOwn(headers, name) ? `${headers[name]}\n${decoded_value}` : decoded_value
  }
  return { headers, raw_headers, body }
}

/** The parts between the boundary lines. */
function partsOf(body: string, boundary: string): string[] {
  const parts = `\n${body}`.split(new RegExp(`\\r?\\n--${RegExp.escape(boundary)}(?=--|[ \\t]*\\r?\\n)`))
  return parts
    .slice(1)
    .filter((part) => !part.startsWith('--'))
    .map((part) => part.replace(/^[ \t]*\r?\n/, ''))
}

/** `text/plain; charset="utf-8"; name*0*=utf-8''a%20b`: the value and its parameters (RFC 2231), decoded. */
function parametersOf(header: string): Parameters {
  const [value = '', ...rest] = header.match(/(?:[^;"]|"(?:\\.|[^"\\])*")+/g) ?? []
  const pieces = new Map<string, { at: number; text: string; is_coded: boolean }[]>()
  for (const each of rest) {
    const found = /^\s*([^=*\s]+)(?:\*(\d+))?(\*)?\s*=\s*(.*?)\s*$/s.exec(each)
    if (found === null) continue
    const [, name = '', at = '0', star, raw_value = ''] = found
    const text = /^"(.*)"$/s.exec(raw_value)?.[1]?.replaceAll(/\\(.)/gs, '$1') ?? raw_value
    const same = pieces.get(name.toLowerCase()) ?? []
    same.push({ at: Number(at), text, is_coded: star !== undefined })
    pieces.set(name.toLowerCase(), same)
  }
  const parameters: Record<string, string> = {}
  for (const [name, all] of pieces) {
    const coded = all.some(({ is_coded }) => is_coded)
    const text = (coded ? all.filter((each) => each.is_coded || each.at > 0) : all)
      .toSorted((one, other) => one.at - other.at)
      .map((each) => each.text)
      .join('')
    parameters[name] = coded ? percentDecoded(text) : utf8(text)
  }
  return { value: value.trim(), parameters }
}

/** Decodes `utf-8'en'a%20b`. */
function percentDecoded(text: string): string {
  const [, charset = 'utf-8', coded = text] = /^([^']*)'[^']*'(.*)$/s.exec(text) ?? []
  const bytes = coded.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
  return inCharset(Buffer.from(bytes, 'latin1'), charset)
}

/** Decodes `=?utf-8?q?Caf=C3=A9?=` (RFC 2047); white space between encoded words is dropped. */
function decodeEncodedWords(text: string): string {
  return text
    .replaceAll(/(\?=)\s+(?==\?)/g, '$1')
    .replaceAll(/(?:=\?[^?\s]+\?[bq]\?[^?\s]*\?=)+/gi, (encoded_words) => {
      const all = [...encoded_words.matchAll(/=\?([^?\s*]+)[^?\s]*\?([bq])\?([^?\s]*)\?=/gi)]
      // A character may be split between two words.
      const bytes = all.map(([, , coding, coded = '']) =>
        coding!.toLowerCase() === 'b'
          ? Buffer.from(coded, 'base64')
          : decoded(coded.replaceAll('_', ' '), 'quoted-printable'),
      )
      return inCharset(Buffer.concat(bytes), all[0]?.[1])
    })
}

/** Decodes the body of a part. `body`: one character per byte. */
function decoded(body: string, encoding: string): Buffer {
  switch (encoding.trim().toLowerCase()) {
    case 'base64':
      return Buffer.from(body, 'base64')
    case 'quoted-printable':
      return Buffer.from(
        body
          .replaceAll(/=[ \t]*\r?\n/g, '')
          .replaceAll(/=([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
        'latin1',
      )
    default:
      return Buffer.from(body, 'latin1')
  }
}

function inCharset(bytes: Buffer, charset = 'utf-8'): string {
  try {
    return new TextDecoder(charset).decode(bytes)
  } catch {
    return bytes.toString('latin1')
  }
}

/** Decodes bytes as UTF-8 if they are valid UTF-8. `bytes`: one character per byte. */
function utf8(bytes: string): string {
  if (!/[\x80-\xff]/.test(bytes)) return bytes
  const text = Buffer.from(bytes, 'latin1').toString('utf8')
  return text.includes('\ufffd') ? bytes : text
}

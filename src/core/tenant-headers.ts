// Headers that tenants add to the requests to their endpoints.
import { z } from 'zod'

const MAX_HEADERS = 20
const MAX_NAME_LENGTH = 100
const MAX_VALUE_LENGTH = 1000
/** The headers that a tenant may not set: headers of the message, of the connection, and our own. */
const RESERVED_HEADERS = new Set([
  'host',
  'content-length',
  'content-type',
  'content-encoding',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'user-agent',
  'accept-encoding',
])
const RESERVED_PREFIX = /^(?:webhook|proxy)-/
/** A header name (`token` in RFC 9110, section 5.6.2). */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** Visible ASCII, with blanks only inside: blanks at the beginning or end are lost in transit. */
const VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/

/** Header names, none of them reserved, and their values. */
export const tenantHeaders = z.record(z.string(), z.string()).superRefine((headers, context) => {
  const names = Object.keys(headers)
  if (names.length > MAX_HEADERS)
    context.addIssue({ code: 'custom', message: `must have at most ${MAX_HEADERS} headers` })
  const seen = new Set<string>()
  for (const name of names.slice(0, MAX_HEADERS)) {
    const message = problemOfHeader(name, headers[name]!, seen)
    if (message !== null) context.addIssue({ code: 'custom', path: [name], message })
    seen.add(name.toLowerCase())
  }
})

/** `seen`: the earlier names, in lower case. */
function problemOfHeader(name: string, value: string, seen: ReadonlySet<string>): string | null {
  const lower = name.toLowerCase()
  if (!TOKEN.test(name)) return 'is not the name of a header'
  if (name.length > MAX_NAME_LENGTH) return `must have a name of at most ${MAX_NAME_LENGTH} characters`
  if (RESERVED_HEADERS.has(lower) || RESERVED_PREFIX.test(lower)) return 'is a header that cannot be set'
  if (seen.has(lower)) return 'is given twice: header names are case-insensitive'
  if (value.length > MAX_VALUE_LENGTH) return `must have at most ${MAX_VALUE_LENGTH} characters`
  return VALUE.test(value) ? null : 'must be visible ASCII characters, with blanks only between them'
}

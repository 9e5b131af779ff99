// The attachments of an email.
import { z } from 'zod'
import { singleLine } from './recipients.ts'

export const MAX_ATTACHMENTS = 50

const MAX_LINE_BYTES = 998
const [CR, LF] = [13, 10]

const TOKEN = String.raw`[\w!#$&^.+-]+`
const MEDIA_TYPE = new RegExp(`^${TOKEN}/${TOKEN}(?:; ?${TOKEN}=(?:${TOKEN}|"[^"\\\\]*"))*$`)

export const attachment = z
  .strictObject({
    filename: singleLine(255)
      .refine((name) => !/[/\\]/.test(name) && name !== '.' && name !== '..', {
        error: 'must be a name without a path',
      })
      .meta({ description: 'The name, without a path.', example: 'invoice.pdf' }),
    content_type: singleLine(255)
      .regex(MEDIA_TYPE, { error: 'must be a media type, e.g. application/pdf' })
      .meta({ description: 'The media type.', pattern: undefined, example: 'application/pdf' }),
    content: z
      .string()
      .refine(isBase64, { error: 'must be base64 with padding, without line ends' })
      .meta({ description: 'The content of the file, in base64.', example: 'JVBERi0xLjQK' }),
  })
  .refine(({ content_type, content }) => !isEmail(content_type) || hasShortLines(content), {
    path: ['content'],
    error: `must have lines of at most ${MAX_LINE_BYTES} bytes: an attached email is sent unchanged`,
  })
  .meta({ id: 'SentAttachment', description: 'A file attached to an email.' })

// Decodes and encodes the text again, and compares the result with the text: this is faster than a regex.
function isBase64(text: string): boolean {
  return Buffer.from(text, 'base64').toString('base64') === text
}

function isEmail(content_type: string): boolean {
  return /^message\//i.test(content_type)
}

// Scans once: a regex would restart at each byte.
function hasShortLines(content: string): boolean {
  let began_at = 0
  const bytes = Buffer.from(content, 'base64')
  for (const [at, byte] of bytes.entries()) {
    if (byte === CR || byte === LF) began_at = at + 1
    else if (at - began_at >= MAX_LINE_BYTES) return false
  }
  return true
}

/** The size of a file in bytes, from its base64. */
export function sizeOf(content: string): number {
  return (content.length / 4) * 3 - (/=*$/.exec(content.slice(-2))?.[0].length ?? 0)
}

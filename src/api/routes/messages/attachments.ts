// Files that go with an email: checked as they come, and bounded in memory while their email is being accepted.
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { line } from './recipients.ts'

export const MOST_ATTACHMENTS = 50
/** The base64 of files that this process holds at once; each is held about twice, as it came and sealed. */
const HELD_BYTES = 64 * 1024 * 1024

const TOKEN = String.raw`[\w!#$&^.+-]+`
const MEDIA_TYPE = new RegExp(`^${TOKEN}/${TOKEN}(?:; ?${TOKEN}=(?:${TOKEN}|"[^"\\\\]*"))*$`)

export const attachment = z
  .strictObject({
    filename: line(255)
      .refine((name) => !/[/\\]/.test(name) && name !== '.' && name !== '..', {
        error: 'must be a name without a path',
      })
      .meta({ description: 'Its name, without a path.', example: 'invoice.pdf' }),
    content_type: line(255)
      .regex(MEDIA_TYPE, { error: 'must be a media type, e.g. application/pdf' })
      .meta({ description: 'Its media type.', pattern: undefined, example: 'application/pdf' }),
    content: z
      .string()
      .refine(isBase64, { error: 'must be base64 with padding, without line ends' })
      .meta({ description: 'The file itself, base64.', example: 'JVBERi0xLjQK' }),
  })
  .meta({ id: 'SentAttachment', description: 'A file that goes with an email.' })

// Written again it is the same; a regex would take longer.
function isBase64(text: string): boolean {
  return Buffer.from(text, 'base64').toString('base64') === text
}

/** The size of a file, by its base64. */
export function sizeOf(content: string): number {
  return (content.length / 4) * 3 - (/=*$/.exec(content.slice(-2))?.[0].length ?? 0)
}

/** Does `work` while `bytes` of files are held. Throws `overloaded` when that would be too many. */
export type HoldFiles = <T>(bytes: number, work: () => Promise<T>) => Promise<T>

export function createHoldFiles(): HoldFiles {
  let held = 0
  return async (bytes, work) => {
    if (held + bytes > HELD_BYTES)
      throw new AppError('overloaded', { message: 'Too many files at once; nothing was accepted.' })
    held += bytes
    try {
      return await work()
    } finally {
      held -= bytes
    }
  }
}

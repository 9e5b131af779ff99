// Files that go with an email, checked as they come; and the memory that large emails take while they are being accepted, bounded.
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { line } from './recipients.ts'

export const MOST_ATTACHMENTS = 50
/** What this process holds at once of large emails that are being accepted; each is held about twice, as it came and sealed. */
const HELD_BYTES = 64 * 1024 * 1024
/** Two of the largest: no tenant keeps out all others. */
const HELD_BYTES_OF_TENANT = HELD_BYTES / 2

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

/**
 * Does `work` of a tenant while `bytes` of an email are held. Throws `overloaded` when that would be too many, for the tenant or for
 * the process.
 */
export type Hold = <T>(tenant_id: string, bytes: number, work: () => Promise<T>) => Promise<T>

export function createHold(): Hold {
  const held_by = new Map<string, number>()
  let held = 0
  const count = (tenant_id: string, bytes: number) => {
    held += bytes
    const of_tenant = (held_by.get(tenant_id) ?? 0) + bytes
    if (of_tenant === 0) held_by.delete(tenant_id)
    else held_by.set(tenant_id, of_tenant)
  }
  return async (tenant_id, bytes, work) => {
    if (held + bytes > HELD_BYTES || (held_by.get(tenant_id) ?? 0) + bytes > HELD_BYTES_OF_TENANT)
      throw new AppError('overloaded', {
        message: 'Too many large emails at once; this one was not accepted.',
      })
    count(tenant_id, bytes)
    try {
      return await work()
    } finally {
      count(tenant_id, -bytes)
    }
  }
}

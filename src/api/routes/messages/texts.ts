// What a message says: given by the caller, or by a template and its variables.
import type { Channel } from '#core/addresses.ts'
import type { Json } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import type { ApiContext } from '../../context.ts'

/** The texts of a message; those that its channel does not know are null. */
export type Texts = Record<'subject' | 'text' | 'html' | 'body', string | null>

/** Which template, by its name or id, and what is filled in. */
export type WantedText = { tenant_id: string; channel: Channel; template: string; variables: Json }

/** The texts of a template. Throws `template_not_found` and `template_invalid`. */
export async function renderedText(_context: ApiContext, _wanted: WantedText): Promise<Texts> {
  throw new AppError('template_not_found', { param: 'template' })
}

// Names that users choose, such as those of people and keys.
import { z } from 'zod'

/** What changes the rest of a line, or begins another one. Direction marks can make a name look like another name. */
const FORBIDDEN = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u

/** A name that shows as one line everywhere, also in terminals. */
export const nameText = z
  .string()
  .trim()
  .min(1)
  .max(255, { abort: true })
  .refine((text) => !FORBIDDEN.test(text), {
    error: 'must be one line, without control characters and marks of text direction',
  })

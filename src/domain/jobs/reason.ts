// An operator's reason for an act, as free text.
import { z } from 'zod'

export const MAX_REASON_LENGTH = 1000
/** Characters that control a terminal. A reason may have several lines. */
const FORBIDDEN = /(?![\t\n\r])\p{Cc}|[\u202a-\u202e\u2066-\u2069]/u

export const reasonText = z
  .string()
  .trim()
  .min(1)
  .max(MAX_REASON_LENGTH, { abort: true })
  .refine((text) => !FORBIDDEN.test(text), {
    error: 'must not contain control characters or marks of text direction',
  })

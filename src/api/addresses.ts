// Bare email addresses and phone numbers, as callers send them.
import { z } from 'zod'

/** A character of an unquoted address. Quoted local parts are not supported. */
const ADDRESS_CHARACTER = '[^\\s\\p{C}@<>()\\[\\]:;,"\\\\]'

/** An email address without a display name. */
export const bareEmail = z
  .string()
  .max(320, { abort: true })
  .regex(new RegExp(`^${ADDRESS_CHARACTER}+@${ADDRESS_CHARACTER}+$`, 'u'), {
    error: 'must be an email address, without a name',
  })

/** A phone number in E.164 format; only the format is checked. */
export const e164 = z
  .string()
  .regex(/^\+[1-9]\d{6,14}$/, { error: 'must be a phone number in E.164 format, for example +14155552671' })

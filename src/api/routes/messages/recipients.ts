// Senders and recipients in requests: email addresses and phone numbers.
import { parsePhoneNumberFromString } from 'libphonenumber-js/max'
import { z } from 'zod'
import { asciiDomain, bareAddress, isSmsSender } from '#core/addresses.ts'
import { isMailAddress, isOneLine, MAX_MAIL_ADDRESS_LENGTH } from '#core/mail-address.ts'

/** A single line of text. */
export const singleLine = (max_length: number) =>
  z
    .string()
    .min(1)
    .max(max_length, { abort: true })
    .refine((text) => isOneLine(text), { error: 'must be one line, without control characters' })

/** An email address with or without a display name. */
export const mailAddress = z
  .string()
  .refine(isMailAddress, {
    error: 'must be an email address, or a name and an address: Ada <ada@example.com>',
  })
  .meta({
    description: 'An address, or a name and an address. A name with special characters must be in quotes.',
    minLength: 3,
    maxLength: MAX_MAIL_ADDRESS_LENGTH,
    example: 'Ada <ada@example.com>',
  })

/** The domain of an address in its ASCII form, as in DNS. */
export function domainOf(address: string): string {
  const bare = bareAddress(address)
  return asciiDomain(bare.slice(bare.lastIndexOf('@') + 1))
}

const E164 = /^\+[1-9]\d{6,14}$/

/** A phone number that is valid in the numbering plan of its country. */
export const phoneNumber = z
  .string()
  .regex(E164, {
    error: 'must be a phone number with + and the country code, e.g. +4915112345678',
    abort: true,
  })
  .refine((text) => parsePhoneNumberFromString(text)?.isValid() === true, {
    error: 'is not a valid number in the numbering plan of its country',
  })
  .meta({
    description: 'A phone number in E.164 format.',
    pattern: undefined,
    minLength: 8,
    maxLength: 16,
    example: '+4915112345678',
  })

/** The country of a phone number; undefined if the number belongs to no country. */
export function countryOf(number: string): string | undefined {
  return parsePhoneNumberFromString(number)?.country
}

/** The sender of an SMS. */
export const smsSender = z
  .string()
  .refine(isSmsSender, {
    error:
      'must be a phone number, a messaging service (MG...), or a name. A name has at most 11 characters: letters, digits, blanks, &, _ and -; it contains a letter, and begins and ends with a letter or digit',
  })
  .meta({
    description:
      'A number, a messaging service (`MG...`), or a name. A name has up to 11 characters (letters, digits, blanks, `&`, `_` and `-`) with at least one letter, and begins and ends with a letter or digit.',
    pattern: undefined,
    minLength: 1,
    maxLength: 34,
    example: '+15005550006',
  })

const RECIPIENT = /^(?=.{3,320}$)(?:[^\s\p{C}]+@[^\s\p{C}]+|\+\d+)$/u

/** A filter by email address or phone number. An unencoded `+` arrives as a blank and is refused. */
export const recipientFilter = z
  .string()
  .regex(RECIPIENT, { error: 'must be an email address or a phone number' })
  .meta({ pattern: undefined, minLength: 3, maxLength: 320, example: 'ada@example.com' })

/** A filter by the sender of a received SMS. */
export const numberFilter = z
  .string()
  .regex(/^\+\d{2,15}$/, { error: 'must be a phone number' })
  .meta({ pattern: undefined, minLength: 3, maxLength: 16, example: '+4915112345678' })

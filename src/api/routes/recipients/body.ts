// The bodies of requests that create and update recipients.
import { z } from 'zod'
import { DESTINATIONS } from '#core/config/providers.ts'
import { countryCode } from '#core/countries.ts'
import { SUPPORTED_CURRENCIES_TEXT, supportedCurrency } from '#core/money.ts'
import { DESTINATION_PATTERN, fitsRecipientType, recipientType } from '#domain/recipients/recipient.ts'
import { emailAddress, idempotencyKey, metadata, metadataValue, name } from '../../body.ts'

const NAME = { description: 'The name of the recipient.', example: 'Grace Hopper' }
const EMAIL = { description: "The recipient's email address.", example: 'grace@example.com' }

const TOKENS = Object.entries(DESTINATIONS).map(([type, prefix]) => `${prefix}... with ${type}`)
// The message never includes the input, which may be an account number.
const NO_TOKEN = { error: `must be a token of the processor: ${TOKENS.join(', ')}` }

export const createRecipientBody = z
  .strictObject({
    name: name.meta(NAME),
    email: emailAddress
      .nullish()
      .transform((email) => email ?? null)
      .meta(EMAIL),
    type: recipientType,
    currency: supportedCurrency
      .meta({
        description: `The currency of payouts to the recipient, in upper or lower case. ${SUPPORTED_CURRENCIES_TEXT}`,
      })
      .transform((code) => code.toLowerCase())
      .meta({ example: 'usd' }),
    country: countryCode.transform((code) => code.toUpperCase()),
    destination: z.string().max(255, { abort: true }).regex(DESTINATION_PATTERN, NO_TOKEN).meta({
      description:
        "The processor's token of the destination: `ba_...` with `bank_account`, `card_...` with `card`, `acct_...` with `account`. Never an account or card number: numbers are refused and not stored.",
      example: 'acct_success',
    }),
    metadata,
    idempotency_key: idempotencyKey.meta({ example: 'recipient-17' }).optional(),
  })
  .refine(({ destination, type }) => fitsRecipientType(destination, type), {
    path: ['destination'],
    ...NO_TOKEN,
  })
  .meta({ id: 'CreateRecipient', description: 'The recipient to create.' })
export const updateRecipientBody = z
  .strictObject({
    name: name.meta(NAME),
    email: emailAddress.nullable().meta(EMAIL),
    metadata: metadataValue,
  })
  .partial()
  .meta({ id: 'UpdateRecipient', description: 'The fields to change.' })

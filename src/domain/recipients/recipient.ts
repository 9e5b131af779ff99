// The recipient: its schema in rows, answers and events.
import { z } from 'zod'
import { DESTINATIONS } from '#core/config/providers.ts'
import { storedCountryCode } from '#core/countries.ts'
import { currencyCode } from '#core/money.ts'
import { timestamp } from '#core/time.ts'
import { idFields, keyField, trailingFields } from '../fields.ts'
import { latestVerificationStatus } from '../verifications/latest.ts'

/** The type of a recipient, as a field and as a filter. */
export const recipientType = z.enum(['bank_account', 'card', 'account']).meta({
  id: 'RecipientType',
  description:
    'How the recipient is paid. `bank_account`, `card`: payouts to a bank account or a debit card. `account`: a transfer to a connected account at the processor.',
  example: 'account',
})

/**
 * A processor token of any recipient type. It needs a letter: digits alone could be an account number with a prefix.
 */
export const DESTINATION_PATTERN = new RegExp(
  `^(${Object.values(DESTINATIONS).join('|')})[0-9_]*[A-Za-z][A-Za-z0-9_]*$`,
)

/** Whether a token fits this recipient type. */
export function fitsRecipientType(destination: string, type: Recipient['type']): boolean {
  return destination.startsWith(DESTINATIONS[type])
}

/** A recipient in answers and events. */
export const recipientSchema = z
  .object({
    ...idFields('recipient', '0198f6f2-0aa1-7000-8000-123456789abc'),
    idempotency_key: keyField('recipient-17'),
    name: z.string().meta({ description: 'The name of the recipient.', example: 'Grace Hopper' }),
    email: z
      .string()
      .nullable()
      .meta({ description: 'Stored exactly as you sent it.', example: 'grace@example.com' }),
    type: recipientType,
    currency: currencyCode.meta({
      description: 'ISO 4217 currency code of payouts to the recipient, in lower case.',
      example: 'usd',
    }),
    country: storedCountryCode.meta({
      description: 'ISO 3166-1 alpha-2 country code, in upper case; `ZZ` if it was lost.',
      example: 'US',
    }),
    destination: z
      .string()
      .meta({ description: "The processor's token of the destination.", example: 'acct_success' }),
    kyc_status: latestVerificationStatus,
    archived_at: timestamp
      .nullable()
      .meta({ description: 'When it was archived; null otherwise.', example: null }),
    ...trailingFields('recipients'),
  })
  .meta({ id: 'Recipient', description: 'A recipient: somebody you pay.' })

export type Recipient = z.output<typeof recipientSchema>

/** The events of recipients: the name after `recipient.`, and the description. */
export const RECIPIENT_EVENTS = {
  created: 'A recipient was created.',
  updated: 'A recipient was updated.',
  archived: 'A recipient was archived: no new payout can go to it.',
} as const

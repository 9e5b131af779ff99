// The merchant: its schema in rows, answers and events.
import { z } from 'zod'
import { storedCountryCode } from '#core/countries.ts'
import { timestamp } from '#core/time.ts'
import { idFields, keyField, trailingFields } from '../fields.ts'
import { latestVerificationStatus } from '../verifications/latest.ts'

/** A merchant in answers and events. */
export const merchantSchema = z
  .object({
    ...idFields('merchant', '0198f6f3-3c11-7000-8000-123456789abc'),
    idempotency_key: keyField('merchant-17'),
    legal_name: z
      .string()
      .meta({ description: 'The legal name, as in contracts.', example: 'Analytical Engines Ltd' }),
    display_name: z
      .string()
      .meta({ description: 'The name that buyers know.', example: 'Analytical Engines' }),
    country: storedCountryCode.meta({
      description: 'ISO 3166-1 alpha-2 country code, in upper case; `ZZ` if it was lost.',
      example: 'GB',
    }),
    support_email: z
      .string()
      .meta({ description: 'The email address for buyers.', example: 'help@engines.example' }),
    url: z
      .string()
      .nullable()
      .meta({ description: "The merchant's website.", example: 'https://engines.example' }),
    kyc_status: latestVerificationStatus,
    archived_at: timestamp
      .nullable()
      .meta({ description: 'When it was archived; null otherwise.', example: null }),
    ...trailingFields('merchants'),
  })
  .meta({ id: 'Merchant', description: 'A merchant: somebody you take payments for.' })

/** The events of merchants: the name after `merchant.`, and the description. */
export const MERCHANT_EVENTS = {
  created: 'A merchant was created.',
  updated: 'A merchant was updated.',
  archived: 'A merchant was archived: no new payment can name it.',
} as const
